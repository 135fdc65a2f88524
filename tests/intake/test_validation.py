"""Rules of resources: what is refused comes with what to do about it."""

import pytest

from recapito.domain.access.egress import Egress
from recapito.domain.resources.topic import TopicKind
from recapito.errors import InvalidInput
from recapito.intake.resources.validation import check_endpoint, check_topic_name


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("http://127.0.0.1:9000/", "Choose another endpoint, or serve with --egress local (setting delivery.egress)."),
        ("http://169.254.169.254/", "Choose another endpoint."),
    ],
)
def test_an_endpoint_that_is_not_dialled(url: str, remedy: str) -> None:
    """The setting is named where it would help; what is never dialled has no such remedy."""
    with pytest.raises(InvalidInput) as caught:
        check_endpoint(url, Egress.PUBLIC)
    assert caught.value.message.endswith(f"this server does not deliver there. {remedy}")


@pytest.mark.parametrize(
    ("kind", "noun"),
    [(TopicKind.CUSTOM, "topic"), (TopicKind.DOMAIN, "domain"), (TopicKind.SYSTEM, "system topic")],
)
def test_a_bad_name_is_called_by_its_kind(kind: TopicKind, noun: str) -> None:
    """The message names the kind of resource that was to be created."""
    with pytest.raises(InvalidInput, match=f"^The {noun} name must be 3 to "):
        check_topic_name("a_b", kind)
