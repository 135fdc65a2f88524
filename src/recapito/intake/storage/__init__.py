"""Events of blobs that clients change through the front of an Azurite, for the system topics of storage accounts.

The law: a change that the storage service confirmed has its event in the log before the client is answered. A note is
written before a change is attempted, so that after a crash the blob itself tells whether the change was made.
"""
