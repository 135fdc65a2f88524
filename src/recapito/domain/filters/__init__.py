"""Filters: which events of a topic a subscription takes, and the sentence that explains why.

A filter is compiled once and judges a segment at a time; a key that is missing or of another type meets no condition.
"""
