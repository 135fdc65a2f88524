"""Puts a server together: settings in, the parts of each role out. It alone names concrete classes."""
