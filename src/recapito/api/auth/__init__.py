"""Authentication of management: bearer tokens of our own issuer or another's, and callers on loopback without one."""
