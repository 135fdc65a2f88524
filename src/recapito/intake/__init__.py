"""The role that takes in events and resources and makes them durable; it alone writes the log and the registry.

Nothing is acknowledged before its commit is synced. Intake reads the ledger and never writes it.
"""
