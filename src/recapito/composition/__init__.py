"""Puts a server together: settings in, the parts of each role out. Only this folder names concrete classes."""
