"""The processes of a server: the parent that keeps the roles running, the roles, and the wake-up between them.

A role ends with its parent; the parent loads nothing that only a role needs.
"""
