"""Estate files: a whole set-up in one document. Text into plain data with lines, and the data into resources."""
