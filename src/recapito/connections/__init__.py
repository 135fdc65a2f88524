"""The connections of a server: encrypted documents of the registry, and those of the settings.

A secret that is stored is encrypted; none is ever shown again.
"""
