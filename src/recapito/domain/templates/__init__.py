"""ARM templates, expanded by pure functions: text of expressions in, resources out; nothing is read or stored."""
