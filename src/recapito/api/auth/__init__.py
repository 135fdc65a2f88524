"""Who may manage: bearer tokens of our own issuer or another's, and this machine itself on loopback."""
