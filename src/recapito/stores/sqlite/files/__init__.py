"""The files of a data directory: opened, migrated, locked, watched, inspected, backed up and given room."""
