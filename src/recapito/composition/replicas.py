"""The inspection of a cluster's NATS servers, each minute, by their monitors."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from recapito.composition.cluster import jetstream_options
from recapito.domain.cluster.replicas import CopyState, find_faults
from recapito.domain.cluster.view import UNSYNCED, Findings
from recapito.peers.monitor import Monitored, ask_monitor
from recapito.settings.settings import Settings


def make_inspection(settings: Settings) -> Callable[[], Awaitable[Findings]]:
    """An inspection that remembers its last look."""
    before: Mapping[str, Mapping[str, CopyState]] = {}

    async def inspect() -> Findings:
        nonlocal before
        problems: dict[str, str] = {}
        lag: dict[str, int] = {}
        keepers, known, silent = set[str](), set[str](), 0
        now: dict[str, Mapping[str, CopyState]] = {}
        for url, told in (await ask_all(settings)).items():
            if isinstance(told, str):
                problems["monitors"] = f"The monitor at {url} does not answer: {told}"
                silent += 1
                continue
            keepers |= told.keepers
            known.add(told.name)
            now[url] = told.copies
            for server, behind in told.lag.items():
                lag[server] = max(lag.get(server, 0), behind)
            if not told.syncs:
                problems[UNSYNCED] = (
                    f"The server {told.name} at {url} does not sync each commit: set `sync_interval: always` under "
                    "`jetstream` and restart it. Until then nothing is published, because it could be lost."
                )
        faults = find_faults(before, now)
        before = now
        if faults:
            problems["replicas"] = next(iter(faults.values()))
        unknown = sorted(keepers - known)
        if len(unknown) > silent and not settings.cluster.unchecked:
            problems["monitors"] = (
                f"Nothing shows whether {', '.join(unknown)} sync each commit: name the monitors of all servers that "
                "keep the streams in cluster.monitors."
            )
        return Findings(problems, lag)

    return inspect


async def ask_all(settings: Settings) -> dict[str, Monitored | str]:
    """The answer of each monitor, or the reason why there is none."""
    prefix = f"{settings.cluster.name}_L"  # the streams LOG and LANES; the sequences of others have gaps

    async def ask(url: str) -> Monitored | str:
        try:
            return await asyncio.to_thread(ask_monitor, url, prefix, jetstream_options(settings).tls())
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            return str(error) or type(error).__name__

    urls = jetstream_options(settings).monitored
    return dict(zip(urls, await asyncio.gather(*(ask(url) for url in urls)), strict=True))
