"""Who is asking: a publisher shows a key of the topic. Every reason for refusal has the same text."""

from collections.abc import Mapping

from recapito.domain.access import key_matches
from recapito.domain.topic import Topic
from recapito.errors import Unauthorized

KEY_HEADER = b"aeg-sas-key"


def authenticate(headers: Mapping[bytes, bytes], topic: Topic) -> None:
    """Raise Unauthorized unless the request carries one of the topic's keys."""
    given = headers.get(KEY_HEADER, b"").decode("latin-1")
    if not key_matches(given, topic.key1, topic.key2):
        raise Unauthorized("Unauthorized", "The request authorization key is missing or not one of this topic's keys.")
