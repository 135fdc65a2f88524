"""The nodes of a cluster as values and pure rules: members, the lease of the owner, the right to try and to send."""
