"""Topics, subscriptions and their destinations as values, and the resource ids that name them.

The stored encoding is the order and the tags of these structs: add fields at the end, with a default.
"""
