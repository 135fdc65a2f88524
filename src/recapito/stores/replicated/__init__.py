"""The store of a cluster: SQLite files that are copies of streams.

A commit is published as the rows that it changed, fenced by the last sequence of its stream, and committed to the local
file when the stream has acknowledged it. The package knows the contract of a stream and no implementation of it.
"""
