"""A whole set-up at once: the plan of a document, its rehearsal, its application and its export."""
