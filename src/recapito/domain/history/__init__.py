"""Attempts as history keeps them, and the chunks that they are packed into.

The order of the fields of a chunk is a file format.
"""
