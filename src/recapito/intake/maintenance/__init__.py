"""Work beside the requests: trimming the log, retention, events for dead-letter blobs, damage reports.

An entry that any subscription still needs is never trimmed.
"""
