"""Bodies of management requests into drafts, and resources into bodies, to the field name."""
