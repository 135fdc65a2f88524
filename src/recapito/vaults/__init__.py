"""Implementations of the vault, where dead letters are written: directories, blob containers, memory.

A write is complete or absent, and the same path is never written with other content.
"""
