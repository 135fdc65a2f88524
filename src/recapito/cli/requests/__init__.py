"""Flags into the bodies and events that the server takes."""
