"""Implementations of the sender: one for each kind of destination, and `routing` that chooses among them.

A sender turns every result into an Outcome and never retries; every connection passes `domain.access.egress`.
"""
