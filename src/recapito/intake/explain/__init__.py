"""Explanations of events: the read model over log, registry, ledger and history. It writes nothing."""
