"""Implementations of the stores: in memory, which is the reference model, and on SQLite.

Each folder has a `backend` that opens its stores, and knows nothing of the others. `contracts` has the promises,
`tests/contracts` the proof.
"""
