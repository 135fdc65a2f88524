"""Who may do what and where deliveries may go: roles, principals, signatures, addresses, budgets for wrong secrets.

Secrets are compared in constant time, and an address is refused unless a table allows it.
"""
