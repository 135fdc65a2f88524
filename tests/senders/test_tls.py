"""HTTPS: the certificate must be valid, for the name, and from an authority that we trust; there is no way round."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from recapito.domain.access.egress import Egress
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpReply, HttpRequest, NoReply
from recapito.senders.http.web_caller import WebCaller
from tests.senders.receiver import OK, Connection, Receiver, answering, names, posting, silent

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """A certificate authority of our own, in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.file = str(directory / "ca.pem")
        self._openssl(
            "req", "-x509", *NEW_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=ours"
        )

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._directory, check=True, capture_output=True)

    def context(self, name: str, days: int = 2, self_signed: bool = False) -> ssl.SSLContext:
        """The TLS side of an endpoint with a certificate for this name."""
        stem = f"{name}-{days}-{self_signed}"
        key, request, certificate, extension = (f"{stem}.{end}" for end in ("key", "csr", "pem", "ext"))
        (self._directory / extension).write_text(f"subjectAltName=DNS:{name}")
        self._openssl("req", *NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        signer = ["-signkey", key] if self_signed else ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
        self._openssl(
            "x509", "-req", "-in", request, *signer, "-days", str(days), "-extfile", extension, "-out", certificate
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._directory / certificate, self._directory / key)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def outcomes_from(context: ssl.SSLContext, ca_file: str | None, posts: int = 1) -> tuple[list[Outcome], Receiver]:
    """The outcomes of posts to https://hook.test, at an endpoint with this certificate."""

    async def main() -> tuple[list[Outcome], Receiver]:
        resolver = names(hook_test="127.0.0.1")
        async with Receiver(answering(OK), context) as receiver, posting(ca_file=ca_file, resolver=resolver) as post:
            return [await post(receiver.at("hook.test")) for _ in range(posts)], receiver

    return asyncio.run(main())


def test_trusted_certificate(authority: Authority) -> None:
    """A certificate of our authority for the name is taken, and the connection is used again."""
    outcomes, receiver = outcomes_from(authority.context("hook.test"), authority.file, 3)
    assert outcomes == [Outcome(Result.SUCCESS, 200)] * 3
    assert receiver.connections == 1


@pytest.mark.parametrize("fault", ["expired", "another name", "self-signed", "unknown authority"])
def test_untrusted_certificate(authority: Authority, fault: str) -> None:
    """A certificate with anything wrong is a socket error that says so, and no byte of the batch is sent."""
    context = {
        "expired": lambda: authority.context("hook.test", days=-1),
        "another name": lambda: authority.context("other.test"),
        "self-signed": lambda: authority.context("hook.test", self_signed=True),
        "unknown authority": lambda: authority.context("hook.test"),
    }[fault]()
    [outcome], receiver = outcomes_from(context, None if fault == "unknown authority" else authority.file)
    assert (outcome.result, outcome.status) == (Result.SOCKET_ERROR, None)
    assert any(word in outcome.detail.lower() for word in ("certificate", "subject name"))
    assert receiver.requests == []


def test_old_tls_is_refused(authority: Authority) -> None:
    """An endpoint that knows no TLS 1.2 is a socket error."""
    context = authority.context("hook.test")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    [outcome], receiver = outcomes_from(context, authority.file)
    assert (outcome.result, receiver.requests) == (Result.SOCKET_ERROR, [])


def test_no_plain_fallback() -> None:
    """An endpoint that answers HTTPS with plain HTTP is a socket error, and never sees the batch."""

    async def plain(connection: Connection) -> None:
        await connection.write(OK)
        await connection.ended()

    async def main() -> None:
        async with Receiver(plain) as receiver, posting() as post:
            outcome = await post(receiver.url.replace("http:", "https:"))
            assert (outcome.result, receiver.requests) == (Result.SOCKET_ERROR, [])

    asyncio.run(main())


@pytest.mark.slow
def test_mute_endpoint() -> None:
    """An endpoint that accepts and never says a word of TLS is given up with the time for connecting."""

    async def main() -> None:
        async with Receiver(silent) as receiver, posting() as post:
            started_at = asyncio.get_running_loop().time()
            outcome = await post(receiver.url.replace("http:", "https:"))
            took_s = asyncio.get_running_loop().time() - started_at
            assert (outcome.result, outcome.status) == (Result.SOCKET_ERROR, None)
            assert "timed out" in outcome.detail
            assert 9 < took_s < 13

    asyncio.run(main())


@pytest.mark.parametrize("trusted", [True, False])
def test_single_requests_are_as_strict(authority: Authority, trusted: bool) -> None:
    """A caller's request is verified like a delivery, by the same authorities; a failure is one of TLS."""

    async def main() -> CallResult:
        async with Receiver(answering(OK), authority.context("hook.test", self_signed=not trusted)) as receiver:
            caller = WebCaller(Egress.LOCAL, authority.file, names(hook_test="127.0.0.1"))
            answer = await caller.ask(HttpRequest("GET", receiver.at("hook.test")))
            await caller.close()
            return answer

    answer = asyncio.run(main())
    if trusted:
        assert isinstance(answer, HttpReply)
        assert answer.status == 200
    else:
        assert isinstance(answer, NoReply)
        assert answer.trouble is FailureKind.TLS_FAILED
        assert "certificate" in answer.detail
