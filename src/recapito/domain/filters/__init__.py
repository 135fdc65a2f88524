"""Filters: the events of a topic that a subscription takes, and the sentence that explains the decision.

A filter is compiled once and judges a segment at a time; a key that is missing or of another type meets no condition.
"""
