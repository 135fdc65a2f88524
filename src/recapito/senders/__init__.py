"""Implementations of the sender: one for each kind of destination, and `routing` that chooses among them.

A sender turns whatever happens into an Outcome and never retries; every connection passes `domain.access.egress`.
"""
