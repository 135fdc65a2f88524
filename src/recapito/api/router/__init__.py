"""The HTTP surface of a standby, which forwards requests to the owner, and of the router of several partitions, which
forwards each to the owners of its partitions and merges their answers. Both answer health, readiness and metrics.

Only a process that forwards loads this package, with its HTTP client: a standby, a router, and an intake of several
partitions, which calls the others and applies documents in all of them.
"""
