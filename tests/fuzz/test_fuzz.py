"""The fuzz targets are sound: they take what they begin from, small changes of it too, and notice what is wrong."""

import random

import pytest

from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.wire import check_responses
from tests.fuzz.wrong import Wrong

ROUNDS = 400


def changed(target: Target, rng: random.Random) -> bytes:
    """A seed with a few changes: bytes flipped, cut or repeated, and words put in."""
    text = bytearray(rng.choice(target.seeds))
    for _ in range(rng.randrange(1, 5)):
        at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        match rng.randrange(4):
            case 0:
                text[at:end] = b""
            case 1:
                text[at:at] = text[at:end]
            case 2:
                text[at:at] = rng.choice(target.words or (b"\0",))
            case _:
                text[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(text)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_anything(name: str) -> None:
    """Seeds, nothing at all, and some hundred changes by chance."""
    target, rng = TARGETS[name], random.Random(name)
    for data in (b"", *target.seeds, *(changed(target, rng) for _ in range(ROUNDS))):
        target.run(data)


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nmore",
        b"Traceback",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\naHTTP/1.1 abc\r\n\r\n",
    ],
)
def test_a_wrong_response_is_noticed(response: bytes) -> None:
    """An error of ours, and bytes that are no response, fail the target."""
    with pytest.raises(Wrong):
        check_responses(response)


def test_whole_responses_are_fine() -> None:
    """Two of them, one with a body."""
    check_responses(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nab")
