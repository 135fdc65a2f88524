"""Bodies of management requests into drafts, and resources into bodies, with ARM's field names."""
