"""The connections of a server: sealed documents of the registry, and those that the settings give.

A secret that is stored is encrypted; none is ever shown again.
"""
