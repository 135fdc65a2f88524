"""Implementations of the stores: in memory, which is the reference model, and on SQLite.

They are siblings that know nothing of each other; `contracts` has the promises, `tests/contracts` the proof.
"""
