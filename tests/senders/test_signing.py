"""Signed requests on the wire, checked as a receiver checks them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from recapito.connections.encryption import SecretBox
from recapito.domain.access.egress import Egress
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.delivery.signature import Signing, show_secret
from recapito.senders.signing import RequestSigner
from recapito.senders.webhook import WebhookSender
from tests.kit.standard_webhooks import verify
from tests.senders.receiver import NOON, OK, Posting, Receiver, answering, batch

OLD, NEW = b"o" * 32, b"n" * 32
BODY = b'[{"data": 1e400 , "x":"\\u00e9"}]'


@asynccontextmanager
async def signing(box: SecretBox) -> AsyncIterator[Posting]:
    """A sender that signs, for the length of a test."""
    sender = WebhookSender(Egress.LOCAL, now=lambda: NOON, signer=RequestSigner(box.decrypt))
    try:
        yield Posting(sender)
    finally:
        await sender.close()


def test_a_receiver_verifies_the_body_as_sent() -> None:
    """The bytes on the wire carry a signature by each secret, with real time, whatever the service's clock shows."""

    async def main() -> None:
        box = SecretBox.in_memory()
        sealed = tuple(box.encrypt(key, "signing/7") for key in (NEW, OLD))
        wanted = replace(batch(BODY), signing=Signing("msg_1", "signing/7", sealed))
        async with Receiver(answering(OK)) as receiver, signing(box) as post:
            assert await post(receiver.url, wanted) == Outcome(Result.SUCCESS, 200)
            [request] = receiver.requests
        for key in (NEW, OLD):
            assert verify(show_secret(key), request.headers, request.body) == "msg_1"
        assert request.body == BODY

    asyncio.run(main())


def test_headers_of_the_subscriber_do_not_stand_in() -> None:
    """A custom header of the same name is left out where requests are signed, and sent where they are not."""

    async def main() -> None:
        box = SecretBox.in_memory()
        custom = replace(batch(), headers=(Header("Webhook-ID", "mine"), Header("x-other", "1")))
        signed = replace(custom, signing=Signing("msg_2", "n", (box.encrypt(NEW, "n"),)))
        async with Receiver(answering(OK)) as receiver, signing(box) as post:
            await post(receiver.url, custom)
            await post(receiver.url, signed)
            plain, ours = (request.headers for request in receiver.requests)
        assert (plain["webhook-id"], ours["webhook-id"], ours["x-other"]) == ("mine", "msg_2", "1")
        assert "webhook-signature" not in plain

    asyncio.run(main())


def test_nothing_goes_unsigned() -> None:
    """A secret that cannot be decrypted, or belongs to another subscription, fails the request before it is sent."""

    async def main() -> None:
        box = SecretBox.in_memory()
        wrong = [(SecretBox.in_memory().encrypt(NEW, "signing/7"),), (box.encrypt(NEW, "signing/8"),)]
        async with Receiver(answering(OK)) as receiver, signing(box) as post:
            for sealed in wrong:
                outcome = await post(receiver.url, replace(batch(), signing=Signing("m", "signing/7", sealed)))
                assert (outcome.result, outcome.status) == (Result.UNAUTHORIZED, None)
                assert "recapito sign" in outcome.detail
            assert not receiver.connections

    asyncio.run(main())
