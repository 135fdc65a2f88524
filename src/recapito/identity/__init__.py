"""The server's own identity: its signing key, its certificates, configured principals, the limit on wrong secrets.

Private keys are files that only their owner may read.
"""
