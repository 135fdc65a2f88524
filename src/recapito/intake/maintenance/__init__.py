"""Work beside the requests: trimming the log, expiry of what is kept, events for dead-letter blobs, damage reports.

What any subscription still needs is never trimmed.
"""
