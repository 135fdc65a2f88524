"""The contracts between the roles and the world: stores, senders, vaults and callers, as protocols with their promises.

They use `domain` alone. Every implementation passes the suite of its contract in `tests/contracts`; a promise that is
changed here is changed there first.

A store is a Log and a Registry, which intake writes, and a Ledger, which dispatch writes; `backend` opens them. Every
store promises:

- When a verb returns, everything that it wrote is durable.
- A verb writes all or nothing.
- A commit that fails raises StoreFailed. Whether its content was written is unknown then, and the implementation
  returns to the content of the disk before it serves the next call.
- Reading never blocks writing.
- The positions of a topic are dense, start at 1 and are never used twice.
"""
