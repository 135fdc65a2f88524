"""The HTTP surface of a standby: it forwards requests to the owner, and answers health, readiness and metrics itself.

Only a standby's process loads this package, with its HTTP client.
"""
