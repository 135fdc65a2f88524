"""Web pages for people, from a process of its own that knows the server by its HTTP API alone.

`pages/` are made of `panels/` and `widgets/`; text from outside is always shown as text.
"""
