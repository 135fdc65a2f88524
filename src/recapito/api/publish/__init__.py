"""The publish route and its authentication. Nothing here is done for each event that can be done for each request."""
