"""Which address is dialled: one that our resolver found, judged when it was found and again when it is dialled."""

import asyncio

import pytest

from recapito.domain.access.egress import Egress, judge
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.senders.http.curl import CurlLoop
from recapito.senders.http.resolver import Resolved, Resolver
from recapito.senders.http.transfer import trust
from tests.senders.receiver import OK, RawPost, Receiver, answering, names, posting, saying_where


class Forgetful(Resolver):
    """A resolver without a cache: every attempt looks the name up again."""

    def known(self, host: str) -> Resolved | None:
        return None


@pytest.mark.parametrize(
    ("url", "resolve"),
    [
        ("http://169.254.169.254/latest/meta-data", None),
        ("http://[::ffff:169.254.169.254]/", None),
        ("http://[fd00:ec2::254]/", None),
        ("http://hook.test:80/", "+hook.test:80:169.254.169.254,[fe80::1],[64:ff9b::a9fe:a9fe]"),
    ],
)
def test_the_dialled_address_is_judged(url: str, resolve: str | None) -> None:
    """Whatever judged before, a forbidden address is refused at the moment of dialling."""

    async def main() -> None:
        curl_loop = CurlLoop(trust(lambda address: judge(address, Egress.LOCAL), None))
        post = RawPost(url, resolve)
        curl_loop.submit(post)
        reply = await asyncio.wait_for(post.reply, 10)
        await curl_loop.close()
        assert reply.status == 0
        assert reply.note.startswith("egress refused ")

    asyncio.run(main())


def test_a_name_for_a_forbidden_address() -> None:
    """A name that leads to the metadata service is refused with the reason, in every mode."""

    async def main() -> None:
        for egress in Egress:
            async with posting(egress, resolver=names(hook_test="169.254.169.254 fd00:ec2::254")) as post:
                outcome = await post("http://hook.test/?code=s3cret")
            assert outcome.result is Result.SOCKET_ERROR
            assert outcome.detail == (
                "egress refused 169.254.169.254: a cloud metadata address, fd00:ec2::254: a cloud metadata address"
            )

    asyncio.run(main())


def test_public_egress() -> None:
    """With public egress loopback is refused, by number, by name and in IPv6, and nothing is connected."""

    async def main() -> None:
        resolver = names(hook_test="127.0.0.1 10.0.0.1")
        async with Receiver(answering(OK)) as receiver, posting(Egress.PUBLIC, resolver=resolver) as post:
            for host in ("127.0.0.1", "hook.test", "[::ffff:127.0.0.1]"):
                outcome = await post(receiver.at(host))
                assert outcome.result is Result.SOCKET_ERROR
                assert "egress refused" in outcome.detail
            assert receiver.connections == 0

    asyncio.run(main())


def test_forbidden_addresses_among_others_are_left_out() -> None:
    """Of a name's addresses only those that are allowed are dialled."""

    async def main() -> None:
        resolver = names(hook_test="169.254.169.254 127.0.0.1")
        async with Receiver(answering(OK)) as receiver, posting(resolver=resolver) as post:
            assert (await post(receiver.at("hook.test"))).status == 200

    asyncio.run(main())


def test_rebinding_between_attempts() -> None:
    """A name that changes to a forbidden address between two attempts is refused at the second."""

    async def main() -> None:
        answers = ["127.0.0.1", "169.254.169.254", "127.0.0.1"]
        resolver = Forgetful(lambda host: [answers.pop(0)])
        async with Receiver(saying_where) as receiver, posting(resolver=resolver) as post:
            details = [(await post(receiver.at("hook.test"))).detail for _ in range(3)]
            refused = "egress refused 169.254.169.254: a cloud metadata address"
            assert details == ["127.0.0.1", refused, "127.0.0.1"]
            assert receiver.connections == 2

    asyncio.run(main())


def test_a_new_address_is_dialled() -> None:
    """When a name moves, the next connection goes to the new address, not to one that libcurl remembers."""

    async def main() -> None:
        answers = ["127.0.0.1", "127.0.0.2"]
        resolver = Forgetful(lambda host: [answers.pop(0)])
        both = Receiver(saying_where, addresses=("127.0.0.1", "127.0.0.2"))
        async with both as receiver, posting(resolver=resolver) as post:
            details = [(await post(receiver.at("hook.test"))).detail for _ in range(2)]
            assert details == ["127.0.0.1", "127.0.0.2"]

    asyncio.run(main())


def test_the_next_address_is_tried() -> None:
    """When nothing listens at a name's first address, the second is tried within the same attempt."""

    async def main() -> None:
        resolver = names(hook_test="127.0.0.3 127.0.0.1")
        async with Receiver(answering(OK)) as receiver, posting(resolver=resolver) as post:
            assert (await post(receiver.at("hook.test"))).status == 200
            assert receiver.requests[0].headers["host"] == f"hook.test:{receiver.port}"

    asyncio.run(main())


def test_localhost() -> None:
    """`localhost` works with the system's own look-up."""

    async def main() -> None:
        async with Receiver(answering(OK)) as receiver, posting() as post:
            assert await post(receiver.at("localhost")) == Outcome(Result.SUCCESS, 200)

    asyncio.run(main())


def test_unknown_name() -> None:
    """A name without an address is a resolution error with the name service's words."""

    async def main() -> None:
        async with posting(resolver=names()) as post:
            outcome = await post("http://hook.test/?code=s3cret")
        assert outcome == Outcome(Result.RESOLUTION_ERROR, detail="Name or service not known")

    asyncio.run(main())


def test_ipv6() -> None:
    """An IPv6 literal is dialled as it is written."""

    async def main() -> None:
        try:
            async with Receiver(saying_where, addresses=("::1",)) as receiver, posting() as post:
                assert (await post(receiver.at("[0:0::1]"))).detail == "::1"
        except OSError:
            pytest.skip("no IPv6 here")

    asyncio.run(main())
