"""The runner of services: they start in order, finish in reverse order, and a failure is raised when all have ended."""

import asyncio

import pytest

from recapito.system.service import ServiceTask, run_services


class Story:
    """Services that note what happens to them."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def service(self, name: str, vital: bool = True) -> ServiceTask:
        """A service that runs until it is cancelled."""

        async def run() -> None:
            self.notes.append(f"{name} starts")
            try:
                await asyncio.Event().wait()
            finally:
                self.notes.append(f"{name} ends")

        return ServiceTask(run, vital=vital)

    def orderly(self, name: str) -> ServiceTask:
        """A service that completes its work when it is asked to finish."""
        asked = asyncio.Event()

        async def run() -> None:
            self.notes.append(f"{name} starts")
            await asked.wait()
            self.notes.append(f"{name} ends")

        async def finish(task: "asyncio.Task[None]") -> None:
            self.notes.append(f"{name} is asked to finish")
            asked.set()

        return ServiceTask(run, finish)

    def brief(self, name: str, error: Exception | None = None, vital: bool = True) -> ServiceTask:
        """A service that ends, or fails, at once."""

        async def run() -> None:
            self.notes.append(f"{name} ends by itself")
            if error is not None:
                raise error

        return ServiceTask(run, vital=vital)


async def now() -> None:
    """The order to stop comes after everything has started."""
    await asyncio.sleep(0)


async def never() -> None:
    await asyncio.Event().wait()


def test_services_finish_in_reverse_order() -> None:
    """Each has ended before the one that was started before it is asked to finish."""
    story = Story()

    async def main() -> None:
        services = [story.service("log"), story.orderly("publisher"), story.orderly("http")]
        await run_services(services, now(), lambda: story.notes.append("ready"))

    asyncio.run(main())
    assert story.notes == [
        "ready",
        "log starts",
        "publisher starts",
        "http starts",
        "http is asked to finish",
        "http ends",
        "publisher is asked to finish",
        "publisher ends",
        "log ends",
    ]


def test_the_end_of_a_vital_service_stops_the_others() -> None:
    """Nothing has ordered it: a process without one of its parts ends, and its parent starts it again."""
    story = Story()

    async def main() -> None:
        await run_services([story.service("log"), story.brief("janitor")], never())

    asyncio.run(main())
    assert story.notes == ["log starts", "janitor ends by itself", "log ends"]


def test_other_services_may_end() -> None:
    """The end of a service that is not vital stops nothing."""
    story = Story()

    async def main() -> None:
        stopping = asyncio.Event()
        running = asyncio.create_task(
            run_services([story.service("log"), story.brief("gauge", vital=False)], stopping.wait())
        )
        await asyncio.wait({running}, timeout=0.05)
        assert not running.done()
        stopping.set()
        await running

    asyncio.run(main())
    assert story.notes == ["log starts", "gauge ends by itself", "log ends"]


def test_a_failure_is_raised_when_all_have_ended() -> None:
    """The others finish in order all the same."""
    story = Story()

    async def main() -> None:
        services = [story.orderly("publisher"), story.brief("janitor", ZeroDivisionError()), story.orderly("http")]
        await run_services(services, never())

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    assert story.notes[-4:] == [
        "http is asked to finish",
        "http ends",
        "publisher is asked to finish",
        "publisher ends",
    ]
