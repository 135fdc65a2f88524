"""The publish route and its authentication. Work that can be done once per request is never done per event."""
