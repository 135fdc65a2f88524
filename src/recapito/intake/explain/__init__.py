"""Why an event was delivered or was not: the read model over log, registry, ledger and history. It writes nothing."""
