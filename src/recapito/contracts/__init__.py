"""The contracts between the roles and the world: stores, senders, vaults and callers, as protocols with their promises.

They may use `domain` alone. Every implementation passes the suite of its contract in `tests/contracts`; a promise that
is changed here is changed there first.
"""
