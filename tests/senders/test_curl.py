"""The loop itself: when it fails, that is loud and no request is left waiting."""

import asyncio

import pytest

from recapito.senders.http.curl import CurlLoop
from recapito.senders.http.transfer import trust
from tests.senders.receiver import RawPost, Receiver, silent


class Poison(RawPost):
    """A POST that no loop can handle."""

    @property
    def over(self) -> bool:
        raise ZeroDivisionError("poison")

    @over.setter
    def over(self, value: bool) -> None:
        pass


def test_death_of_the_pump() -> None:
    """When driving libcurl fails, what is open is answered with the reason, and the next POST raises."""

    async def main() -> None:
        async with Receiver(silent) as receiver:
            curl_loop = CurlLoop(trust(lambda address: None, None))
            opened = RawPost(receiver.url, None)
            curl_loop.submit(opened)
            await receiver.until(lambda it: it.requests)
            curl_loop.submit(Poison(receiver.url, None))
            reply = await asyncio.wait_for(opened.reply, 10)
            assert (reply.status, "poison" in reply.problem) == (0, True)
            with pytest.raises(RuntimeError, match="libcurl") as caught:
                curl_loop.submit(RawPost(receiver.url, None))
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
            curl_loop.abort(opened)
            await curl_loop.close()
            await receiver.until(lambda it: not it.open)

    asyncio.run(main())
