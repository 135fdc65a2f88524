"""Who may publish to a topic: whoever holds one of its two keys."""

from hmac import compare_digest


def key_matches(given: str, key1: str, key2: str) -> bool:
    """Whether a key is one of the topic's two. Both are always compared, in a time that tells nothing about them."""
    offered = given.encode("utf-8", "surrogatepass")
    first = compare_digest(offered, key1.encode())
    second = compare_digest(offered, key2.encode())
    return first | second
