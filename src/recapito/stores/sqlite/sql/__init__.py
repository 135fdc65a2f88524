"""The verbs of each store as functions of a connection, and the rows that they read and write.

Statements live in `queries/*.sql`. Every row has a checksum: a damaged one is set aside, never delivered.
"""
