"""Attempts as history keeps them, and the chunks that it packs them into.

The order of the fields of a chunk is a file format.
"""
