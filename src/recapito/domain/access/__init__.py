"""Access control: roles, principals, signatures, allowed addresses, budgets for wrong secrets.

Secrets are compared in constant time, and an address is refused unless a table allows it.
"""
