"""The portal: web pages for people, from a process of its own that asks the server by its HTTP API like any other."""
