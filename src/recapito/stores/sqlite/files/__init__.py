"""The files of a data directory: opened, locked, watched, inspected, backed up, and their volume."""
