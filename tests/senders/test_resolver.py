"""The resolver: one look-up per name, a short memory, and no name that waits for another."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.senders.http.resolver import Resolved, Resolver, hosts_file, system_lookup


class Names:
    """A name service: `dead…` names hang until it is released, `none…` names do not exist."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.released = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked[host] += 1
        if host.startswith("dead"):
            self.released.wait()
        if host.startswith("none"):
            raise OSError(-2, "Name or service not known")
        return [f"192.0.2.{n % 250}" for n in range(1000)] if host.startswith("many") else ["192.0.2.1"]


@contextmanager
def service() -> Iterator[Names]:
    """A name service that lets go of every thread at its end."""
    names = Names()
    try:
        yield names
    finally:
        names.released.set()


def ask(resolver: Resolver, host: str) -> asyncio.Future[Resolved]:
    """The answer to be."""
    answer: asyncio.Future[Resolved] = asyncio.get_running_loop().create_future()
    resolver.ask(host, answer.set_result)
    return answer


def test_one_look_up_for_all_who_wait() -> None:
    """However many ask for a name, it is looked up once, and the answer is known for a while."""

    async def main() -> None:
        with service() as names:
            resolver = Resolver(names)
            assert resolver.known("one.test") is None
            answers = await asyncio.gather(*(ask(resolver, "one.test") for _ in range(100)))
            assert set(answers) == {Resolved(("192.0.2.1",))}
            assert resolver.known("one.test") == Resolved(("192.0.2.1",))
            assert names.asked == {"one.test": 1}

    asyncio.run(main())


def test_a_failure_is_known_too() -> None:
    """A name that does not exist is an answer with the reason, and is not asked for again at once."""

    async def main() -> None:
        with service() as names:
            resolver = Resolver(names)
            expected = Resolved((), "Name or service not known")
            assert await ask(resolver, "none.test") == expected
            assert resolver.known("none.test") == expected

    asyncio.run(main())


@pytest.mark.parametrize(("host", "life_ns"), [("one.test", limits.RESOLVED_NS), ("none.test", limits.UNRESOLVED_NS)])
def test_memory_is_short(host: str, life_ns: int) -> None:
    """A known address is forgotten after its time, by the loop's clock, a failure sooner than an address."""

    class Ahead(asyncio.SelectorEventLoop):
        ahead_s = 0.0

        def time(self) -> float:
            return super().time() + self.ahead_s

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Ahead)
        with service() as names:
            resolver = Resolver(names)
            await ask(resolver, host)
            loop.ahead_s = life_ns / SECOND - 1
            assert resolver.known(host) is not None
            loop.ahead_s += 1.1
            assert resolver.known(host) is None

    with asyncio.Runner(loop_factory=Ahead) as runner:
        runner.run(main())


def test_answers_are_capped() -> None:
    """Of a thousand addresses a few are kept, each once."""

    async def main() -> None:
        with service() as names:
            addresses = (await ask(Resolver(names), "many.test")).addresses
        assert len(addresses) == len(set(addresses)) == limits.ADDRESSES

    asyncio.run(main())


@pytest.mark.parametrize("literal", ["127.0.0.1", "::1"])
def test_literals_need_no_look_up(literal: str) -> None:
    """An address is its own answer."""

    async def main() -> None:
        assert Resolver().known(literal) == Resolved((literal,))

    asyncio.run(main())


@pytest.mark.slow
def test_hanging_names_delay_nobody() -> None:
    """Fifty names that hang are given up in time, and no healthy name waits for them; a late answer is kept."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        wait_s = limits.LOOKUP_WAIT_NS / SECOND
        with service() as names:
            resolver = Resolver(names)
            dead = [ask(resolver, f"dead{n}.test") for n in range(50)]
            for moment in ("while they hang", "after they were given up"):
                started_at = loop.time()
                healthy = [ask(resolver, f"{moment}-{n}.test") for n in range(100)]
                assert {answer.addresses for answer in await asyncio.gather(*healthy)} == {("192.0.2.1",)}
                assert loop.time() - started_at < wait_s
                answers = await asyncio.wait_for(asyncio.gather(*dead), wait_s + 20)
                assert {answer.problem for answer in answers} == {"the name service did not answer in time"}
            again = await ask(resolver, "dead0.test")
            assert again.problem == "the name service still does not answer"
            assert names.asked["dead0.test"] == 1
            names.released.set()
            for thread in threading.enumerate():
                if thread.name.startswith("lookup dead"):
                    thread.join()
            await asyncio.sleep(0)
            assert {resolver.known(f"dead{n}.test") for n in range(50)} == {Resolved(("192.0.2.1",))}
            assert repr(resolver) == "<Resolver knows 250, looks up 0, lost 0>"

    asyncio.run(main())


def test_hosts_file(tmp_path: Path) -> None:
    """Names of the hosts file are found without regard to case; comments are not names."""
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n10.0.0.7\tBox.Lan box # spare\n::7 box\nbroken\n")
    assert hosts_file("box", path) == ["10.0.0.7", "::7"]
    assert hosts_file("box.lan", path) == ["10.0.0.7"]
    assert hosts_file("spare", path) == hosts_file("box", tmp_path / "none") == []


def test_localhost_needs_no_name_service() -> None:
    """`localhost` and the names under it are loopback, whatever the name service thinks."""
    assert system_lookup("localhost") == system_lookup("app.localhost") == ["127.0.0.1", "::1"]
