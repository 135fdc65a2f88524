"""The server's own identity: its signing key, its certificates, the principals of its settings, wrong secrets.

Private keys are files that only their owner may read.
"""
