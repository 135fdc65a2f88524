"""Connections: how the server reaches an Azure resource, parsed from connection strings, URLs and settings.

A connection that parses can be used; an error names the part that is wrong and never repeats the secret.
"""
