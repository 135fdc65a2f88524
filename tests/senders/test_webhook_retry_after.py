"""Reading an answer: `Retry-After` in all its forms, and excerpts."""

import pytest

from recapito.domain.excerpt import excerpt, secrets_of
from recapito.domain.instant import DAY, SECOND
from recapito.senders.webhook import retry_after_ns

NOW = 784_111_777 * SECOND  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("0", 0),
        ("1", 1),
        (" 120 ", 120),
        ("31622400", 366 * 86400),
        ("31622401", 366 * 86400),
        ("99999999999999999999", 366 * 86400),
        ("9" * 10_000, 366 * 86400),
        ("0" * 10_000 + "7", 7),
        ("-1", 0),
        ("1.5", 0),
        ("1e3", 0),
        ("\u0661", 0),
        ("", 0),
        ("soon", 0),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
        ("Sun Nov  6 08:50:37 1994", 60),
        ("Sun, 06 Nov 1994 09:50:37 +0100", 60),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sun, 06 Nov 1994 08:48:37 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 366 * 86400),
        ("Sun, 99 Nov 1994 08:50:37 GMT", 0),
        ("Sun, 06 Nov 999999999999 08:50:37 GMT", 0),
        ("Sun, 06 Nov 1994 08:50:37 +999999999999", 0),
    ],
)
def test_retry_after(value: str, wait_s: int) -> None:
    """Seconds and HTTP dates count, those beyond belief up to a year; what is malformed or past does not."""
    headers = [b"HTTP/1.1 503 x\r\n", f"RETRY-After:{value}\r\n".encode(), b"\r\n"]
    assert retry_after_ns(headers, NOW) == wait_s * SECOND


def test_no_retry_after() -> None:
    """Without the header there is nothing to wait for, and the first of two counts."""
    assert retry_after_ns([b"HTTP/1.1 503 x\r\n", b"X-Retry-After: 5\r\n", b"\r\n"], NOW) == 0
    assert retry_after_ns([b"Retry-After: 5\r\n", b"Retry-After: 6\r\n"], NOW) == 5 * SECOND
    assert retry_after_ns([b"Retry-After: 31622400\r\n"], NOW) == 366 * DAY


def test_excerpt_is_short_and_printable() -> None:
    """An excerpt is at most 1 KiB in UTF-8 and has no character that a terminal or a log would act on."""
    text = excerpt("a\r\n\x00\x1b]0;x\x07\u202e\ud800é€" + "€" * 2000)
    assert text.startswith(r"a\r\n\x00\x1b]0;x\x07\u202e\ud800é€€")
    assert text.isprintable()
    assert 1000 < len(text.encode()) <= 1024


def test_secrets_are_masked_in_every_spelling() -> None:
    """The query and its values, as written and decoded, are masked with text of the same length."""
    secrets = secrets_of("/hook?code=a%2Bb+cd&v=1")
    masked = excerpt("code=a%2Bb+cd&v=1 | a+b cd | a+b+cd | v=1 | &amp;a%2Bb+cd", secrets)
    assert masked == "***************** | ****** | ****** | v=1 | &amp;********"


def test_a_secret_at_the_end_of_an_excerpt() -> None:
    """A secret that an excerpt would cut in two is masked, not cut."""
    assert "s3" not in excerpt("x" * 1020 + "s3cretvalue", ("s3cretvalue",))
    assert excerpt("", secrets_of("/hook")) == ""
