"""Implementations of the store: in memory, which is the reference model, and on SQLite."""
