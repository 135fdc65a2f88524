"""A front for an Azurite: it passes requests of blob clients through, and reports the blobs that they change.

Heads and bodies pass byte for byte, so that every signature still holds. The answer to a change goes to the client when
the event of that change is durable.
"""
