"""Requests by libcurl: the loop that drives all connections, one transfer, and look-ups of names in bounded time."""
