"""`recapito profile`: Event Grid's behaviour by date, to be read and compared by people, or as JSON."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from recapito.cli.toolkit.exit_codes import FAILED
from recapito.cli.toolkit.lazy import commands
from recapito.domain.delivery.delivery import Timetable, timetable
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND, show_duration
from recapito.domain.profiles.profile import DEFAULT, DelayedDelivery, EndpointKind, Profile, known, load
from recapito.domain.resources.subscription import RetryPolicy
from recapito.errors import InvalidInput

app = commands("Show the profiles: Event Grid's behaviour by date.")


class ProfileOutput(StrEnum):
    """The formats of an answer."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[ProfileOutput, typer.Option("--output", "-o", help="Format of the answer.")]


@app.command("list")
def list_profiles(output: OutputOption = ProfileOutput.TABLE) -> None:
    """List the profiles: the dated ones, oldest first, then our own."""
    profiles = [load(name) for name in known()]
    if output is ProfileOutput.JSON:
        keys = ("name", "title", "source")
        _print_json([{k: getattr(p, k) for k in keys} | {"default": p.name == DEFAULT} for p in profiles])
        return
    rows = [(f"{p.name} (default)" if p.name == DEFAULT else p.name, p.title, p.source) for p in profiles]
    _print_table(("profile", "what is new", "source"), rows)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Profile, such as 2021-03.")],
    output: OutputOption = ProfileOutput.TABLE,
) -> None:
    """Show a profile and its retry schedule for a dead endpoint."""
    profile = _load(name)
    times = _dead_endpoint(profile)
    if output is ProfileOutput.JSON:
        _print_json(msgspec.to_builtins(profile) | {"dead_endpoint": _timetable_data(times)})
        return
    _print_table(("profile", profile.name), _rows(profile))
    typer.echo("A webhook that does not answer, under the default retry policy, without jitter and holds:")
    _print_table(("attempt", "after publishing", "after the one before"), _timetable_rows(times))


@app.command()
def diff(
    a: Annotated[str, typer.Argument(help="First profile.")],
    b: Annotated[str, typer.Argument(help="Second profile.")],
    output: OutputOption = ProfileOutput.TABLE,
) -> None:
    """Show the differences between two profiles."""
    first, second = _load(a), _load(b)
    if output is ProfileOutput.JSON:
        left, right = dict(_leaves(msgspec.to_builtins(first))), dict(_leaves(msgspec.to_builtins(second)))
        keys = [key for key in left | right if left.get(key) != right.get(key)]
        _print_json([{"key": key, "a": left.get(key), "b": right.get(key)} for key in keys])
        return
    pairs = zip(_rows(first), _rows(second), strict=True)
    rows = [(label, x, y) for (label, x), (_, y) in pairs if x != y]
    _print_table(("", a, b), rows or [("nothing differs", "", "")])


def _load(name: str) -> Profile:
    try:
        return load(name)
    except InvalidInput as error:
        typer.echo(f"recapito: {error.message}", err=True)
        raise typer.Exit(FAILED) from None


def _rows(profile: Profile) -> list[tuple[str, str]]:
    """The profile in words: the same labels for every profile, so that two can be compared row by row."""
    schedule, status, dead = profile.schedule, profile.status, profile.dead_letter
    missing = "dropped at once" if dead.missing_container == "drop" else "treated as unavailable"
    delays = ", ".join(show_duration(delay) for delay in schedule.delays_s)
    return [
        ("title", profile.title),
        ("source", profile.source),
        ("success codes", _codes(status.success)),
        ("retries after", f"{delays}, then every {show_duration(schedule.then_every_s)}"),
        ("random delay on top", f"up to {schedule.jitter:.0%}, never early"),
        ("never retried, webhook", _codes(status.webhook.never)),
        ("never retried, Azure resource", _codes(status.azure_resource.never)),
        ("never retried if dead letters are set up", _codes(status.never_with_dead_letter)),
        ("refused request is cut", _codes(status.cut)),
        ("kept without a limit", "yes, unless the subscription sets one" if profile.keeps else "no"),
        ("least delay, webhook", _least_delays(profile, EndpointKind.WEBHOOK)),
        ("least delay, Azure resource", _least_delays(profile, EndpointKind.AZURE_RESOURCE)),
        ("batching", "yes" if profile.batching else "no"),
        ("custom delivery headers", "yes" if profile.custom_headers else "no"),
        ("delayed delivery", _delayed(profile)),
        ("probation by outcome", _probation(profile.delayed_delivery)),
        ("Retry-After is no attempt", _codes(profile.delayed_delivery.pressure if profile.delayed_delivery else ())),
        ("dead letter written", f"{show_duration(dead.delay_s)} after the last attempt"),
        ("dead-letter location unavailable", f"dropped after {show_duration(dead.unavailable_s)}"),
        ("dead-letter container missing", missing),
    ]


def _least_delays(profile: Profile, kind: EndpointKind) -> str:
    delays = [f"{status}: {show_duration(least)}" for status, least in profile.rules(kind).minimum_s.items()]
    if not delays and not profile.status.minimum_s:
        return "none beyond the schedule"
    return "\n".join([*delays, f"all others and no answer: {show_duration(profile.status.minimum_s)}"])


def _delayed(profile: Profile) -> str:
    rules = profile.delayed_delivery
    if rules is None:
        return "no"
    at_once = (
        "" if rules.at_once_from_s is None else f", or one with a row of {show_duration(rules.at_once_from_s)} or more"
    )
    if rules.sweep_s is not None:
        at_once = ", or one with a row"
    spared = "" if profile.keeps else "; never under a retry policy of the subscription's own"
    sweep = "" if rules.sweep_s is None else f"; everything that waits is tried every {show_duration(rules.sweep_s)}"
    return (
        f"after {rules.failures} events in a row failed at the first attempt{at_once};"
        f" for {show_duration(rules.first_s)}"
        f"{' or as the table says' if rules.table_s else ''}, doubled by each failed probe,"
        f" at most {show_duration(rules.longest_s)}{sweep}{spared}"
    )


def _probation(rules: DelayedDelivery | None) -> str:
    table = rules.table_s if rules else {}
    return "\n".join(f"{result}: {show_duration(period)}" for result, period in table.items()) or "–"


def _dead_endpoint(profile: Profile) -> Timetable:
    """The schedule of a webhook that does not answer, under the default retry policy."""
    return timetable(profile, EndpointKind.WEBHOOK, RetryPolicy(), Outcome(Result.SOCKET_ERROR))


def _timetable_rows(times: Timetable) -> Iterator[tuple[str, str, str]]:
    before = 0
    for n, at in enumerate(times.attempts, 1):
        yield str(n), show_duration(at // SECOND), show_duration((at - before) // SECOND) if n > 1 else "at once"
        before = at
    yield "end", show_duration(times.end // SECOND), str(times.reason)


def _timetable_data(times: Timetable) -> dict[str, Any]:
    return {
        "attempts_s": [at // SECOND for at in times.attempts],
        "end_s": times.end // SECOND,
        "reason": times.reason,
    }


def _leaves(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by dotted key."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{prefix}{key}.")
        else:
            yield prefix + key, inner


def _codes(codes: tuple[int, ...]) -> str:
    return " ".join(map(str, codes)) or "–"


def _print_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(*columns, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)


def _print_json(value: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
