"""`recapito schedule`: the retry schedule of a failing endpoint."""

from typing import Annotated, Any

import typer

from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.verb import Noun
from recapito.domain import limits
from recapito.domain.delivery.delivery import KEPT, timetable
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.instant import SECOND, show_duration
from recapito.domain.profiles.profile import DEFAULT, EndpointKind, load
from recapito.domain.resources.subscription import RetryPolicy

app = commands()


@Noun(app).verb("schedule", session=False, form=Output.TABLE)
def schedule(
    profile: Annotated[str, typer.Option(help="Profile: Event Grid's behaviour at a date.")] = DEFAULT,
    policy: Annotated[
        str | None, typer.Option(metavar="ATTEMPTS,MINUTES", help="Retry policy.", show_default="30,1440")
    ] = None,
    status: Annotated[
        int | None, typer.Option(help="Status of the endpoint's answers.", show_default="no answer")
    ] = None,
    azure_resource: Annotated[
        bool, typer.Option("--azure-resource", help="Assume an Azure resource instead of a webhook.")
    ] = False,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Assume that dead letters are kept.")] = False,
) -> list[dict[str, Any]]:
    """Print the retry schedule of a failing endpoint, without jitter and holds."""
    if status is not None and not 100 <= status <= 599:
        raise typer.BadParameter(f"{status} is not an HTTP status", param_hint="--status")
    outcome = Outcome(Result.SOCKET_ERROR) if status is None else answered(status)
    kind = EndpointKind.AZURE_RESOURCE if azure_resource else EndpointKind.WEBHOOK
    times = timetable(load(profile), kind, _read_policy(policy), outcome, dead_letters)
    instants = [at // SECOND for at in times.attempts]
    rows = [
        _row(number, at, before) for number, (at, before) in enumerate(zip(instants, [0, *instants], strict=False), 1)
    ]
    if times.end > times.attempts[-1] and times.reason != KEPT:  # it expires, and is not tried at its end
        rows.append(_row(None, times.end // SECOND, instants[-1]))
    rows[-1]["end"] = times.reason or "Delivered"
    return rows


def _row(attempt: int | None, at: int, before: int) -> dict[str, Any]:
    return {"attempt": attempt, "after": show_duration(at), "wait": show_duration(at - before), "seconds": at}


def _read_policy(text: str | None) -> RetryPolicy:
    if text is None:
        return RetryPolicy()
    words = text.split(",")
    ranges = (limits.ATTEMPTS, limits.TTL_MINUTES)
    try:
        attempts, minutes = (int(word) for word in words)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not like 30,1440", param_hint="--policy") from None
    for value, (least, most), what in zip((attempts, minutes), ranges, ("attempts", "minutes"), strict=True):
        if not least <= value <= most:
            raise typer.BadParameter(f"{what} are {least} to {most}", param_hint="--policy")
    return RetryPolicy(attempts, minutes)
