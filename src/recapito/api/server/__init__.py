"""The HTTP server's protocol: limits on everything that a client sends, and the fast path of a small publish."""
