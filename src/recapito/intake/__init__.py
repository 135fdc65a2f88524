"""The role that takes events and resources in and makes them durable; it alone writes the log and the registry.

Nothing is acknowledged before its commit is synced. Intake reads the ledger and never writes it.
"""
