"""The estate file of a server, in virtual time: applied, watched, refused and shown, tried again."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from recapito.api.estate.estate_file import EstateFile
from recapito.api.estate.expansion import Expander
from recapito.clock import ManualClock
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import TopicKind
from recapito.errors import SettingsError
from recapito.intake.resources.drafts import TopicDraft
from recapito.intake.resources.validation import Quota
from tests.intake.doubles import StillClock
from tests.kit.estates import new_estate


class Following:
    """A server in memory that follows a file; `tick` lets time pass until the file was looked at."""

    def __init__(self, folder: Path, text: str, **environment: str) -> None:
        self.path = folder / "estate.yaml"
        self.path.write_text(text, "utf-8")
        self.environment = environment
        self.wall = ManualClock(1)
        self.told: list[tuple[str, dict[str, object]]] = []
        self.said: list[str] = []
        self.estate = new_estate(StillClock(), self._journal, Quota(topics=2))
        expander = Expander(self.estate.state, "http://here")
        self.file = EstateFile(
            self.path, self.estate, expander, False, environment, self.wall, self._journal, self.said.append
        )

    def _journal(self, event: str, **fields: object) -> None:
        self.told.append((event, fields))

    async def tick(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            while self.wall.next_instant() is None:
                await asyncio.sleep(0)
            self.wall.move_to(self.wall.now() + SECOND)
        while self.wall.next_instant() is None:
            await asyncio.sleep(0)

    async def topics(self) -> list[str]:
        return [topic.name async for topic in self.estate.parts.topics.walk(TopicKind.CUSTOM)]


def follow(folder: Path, text: str, test: Callable[[Following], Awaitable[None]], **environment: str) -> None:
    async def whole() -> None:
        following = Following(folder, text, **environment)
        await following.file.check()
        running = asyncio.create_task(following.file.run())
        try:
            await following.file.until_applied()
            await test(following)
        finally:
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(whole())


def test_it_is_applied_and_watched(tmp_path: Path) -> None:
    """The file is applied at start and when it changes, with a plan and a report in the journal and for people."""

    async def test(it: Following) -> None:
        assert await it.topics() == ["first"]
        assert it.said == ["+ topic first", f"{it.path}: 1 create"]
        it.path.write_text("topics: [first, second]", "utf-8")
        await it.tick()
        assert await it.topics() == ["first", "second"]
        events = [event for event, _ in it.told]
        assert events == ["estate.planned", "estate.step", "estate.applied"] * 2
        assert it.told[-1][1]["create"] == 1 and it.told[-1][1]["keep"] == 1
        await it.tick(5)
        assert len(it.told) == 6

    follow(tmp_path, "topics: [first]", test)


def test_a_refused_file_is_shown(tmp_path: Path) -> None:
    """A file that becomes wrong changes nothing; its line and key are shown until it is right again."""

    async def test(it: Following) -> None:
        it.path.write_text("topics:\n  - second\n  - name: third\n    inputSchem: x\n", "utf-8")
        await it.tick()
        assert await it.topics() == ["first"]
        problem = (
            f"{it.path}:4: topics[1].inputSchem: 'inputSchem' is not a known property. Did you mean 'inputSchema'?"
        )
        assert it.file.problem == problem
        assert it.told[-1] == ("estate.refused", {"reason": problem})
        it.path.unlink()
        await it.tick()
        assert it.file.problem == f"{it.path}: No such file or directory"
        it.path.write_text("topics: [first, second]", "utf-8")
        await it.tick()
        assert it.file.problem is None
        assert await it.topics() == ["first", "second"]

    follow(tmp_path, "topics: [first]", test)


def test_reload_reads_secrets_again(tmp_path: Path) -> None:
    """On demand the file is applied although it is the same: a secret beside it may have changed."""
    (tmp_path / "key").write_text("MDEyMzQ1Njc4OWFiY2RlZg==\n", "utf-8")

    async def test(it: Following) -> None:
        (tmp_path / "key").write_text("QUJDREVGR0hJSktMTU5PUA==", "utf-8")
        await it.tick(2)
        topic = await it.estate.parts.topics.find("first")
        assert topic is not None and topic.key1 == "MDEyMzQ1Njc4OWFiY2RlZg=="
        it.file.reload()
        await it.tick()
        topic = await it.estate.parts.topics.find("first")
        assert topic is not None and topic.key1 == "QUJDREVGR0hJSktMTU5PUA=="

    follow(tmp_path, "topics: [{name: first, keys: {key1: {file: key}}}]", test)


def test_failed_resources_are_tried_again(tmp_path: Path) -> None:
    """A resource that only the world kept from being made is shown, and tried again after a pause."""

    async def test(it: Following) -> None:
        topics = it.estate.parts.topics
        outside = await topics.put(TopicDraft.of(name="outside", azure_subscription="s", resource_group="g"))
        it.path.write_text("topics: [first, second]", "utf-8")
        await it.tick()
        assert it.file.problem is not None and "1 of 2 resources failed and are tried again" in it.file.problem
        assert "line 1, topic second" in it.file.problem
        await topics.delete(outside)
        await it.tick(limits.ESTATE_PAUSE_NS[0] // SECOND + 1)
        assert it.file.problem is None
        assert await it.topics() == ["first", "second"]

    follow(tmp_path, "topics: [first]", test)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topics:\n  - name: first\n    keys: {key1: {env: GONE}}", ":3: topics[0].keys.key1: The variable GONE"),
        ("topics: [{name: first, keys: {key1: {file: none}}}]", ":1: topics[0].keys.key1: none: No such file"),
        ("topics:\n  - first\ntopcs: []", ":3: topcs: 'topcs' is not a key here. Did you mean 'topics'?"),
        ("topics: [first\n", "is not YAML"),
        ("resources:\n  - {type: A.B/c, name: \"[toLowr('A')]\"}", ":2: resources[0].name: The template function"),
    ],
)  # fmt: skip
def test_a_server_does_not_start_with_a_wrong_file(tmp_path: Path, text: str, said: str) -> None:
    """A file that is wrong at the start is an error of the settings, with its line and key, and without a secret."""

    async def run() -> None:
        following = Following(tmp_path, text)
        with pytest.raises(SettingsError) as caught:
            await following.file.check()
        assert said in str(caught.value) and str(following.path) in str(caught.value)

    asyncio.run(run())


def test_waiting_is_bounded(tmp_path: Path) -> None:
    """A server is not ready until its file was applied, but not for longer than its patience."""

    async def run() -> None:
        following = Following(tmp_path, "topics: [first]")
        assert following.file.waiting() == f"{following.path} is being applied"
        following.wall.move_to(limits.ESTATE_PATIENCE_NS + 2)
        assert following.file.waiting() is None

    asyncio.run(run())
