"""The topics' logs as lanes read them: decoded segments, the index of a log's tail, and the lanes of each topic.

A segment is read and matched once for all lanes with the same filter; memory is bounded in bytes.
"""
