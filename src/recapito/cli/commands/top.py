"""`recapito top`: a live table of event subscriptions, with their rates, backlogs, failures and next attempts."""

import os
import shutil
import time
from typing import Annotated, Any

import typer

from recapito.cli.text.lane_rates import Look, Sort, look, measure
from recapito.cli.toolkit.client import ApiClient, NoAnswer, left_out
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands()
_KEYS = {"p": Sort.PENDING, "r": Sort.RATE, "f": Sort.FAILING, "o": Sort.PROBATION, "d": Sort.DUE, "n": Sort.NAME}
_HINT = "sorted by {}; p pending, r rate, f failing, o probation, d due, n name, q ends"
_LEAST_SHARE = 5  # of the time, a server with very many lanes is asked a fifth at most
_WIDE = 160


def lane_lines(answer: Any) -> list[str]:
    """The table once, where it is not a terminal."""
    from recapito.cli.text.lane_table import snapshot_lines

    return snapshot_lines(answer, shutil.get_terminal_size().columns if "COLUMNS" in os.environ else _WIDE)


@Noun(app).verb("top", form=Output.TABLE, to_lines=lane_lines)
def top(
    session: CommandSession,
    live: bool,
    topic: Annotated[str | None, typer.Option(help="Show only this topic.")] = None,
    subscription: Annotated[
        str | None, typer.Option("--subscription", "--event-subscription", help="Show only this event subscription.")
    ] = None,
    failing: Annotated[bool, typer.Option("--failing", help="Show only those that are held or have retries.")] = False,
    sort: Annotated[Sort, typer.Option(help="Order of the rows.")] = Sort.PENDING,
    interval: Annotated[float, typer.Option(min=0, max=3600, help="Seconds between refreshes; 0 prints once.")] = 2.0,
) -> Any:
    """Show event subscriptions live; off a terminal, print one table."""
    given = {"topic": topic, "subscription": subscription, "failing": "true" if failing else None}
    wanted = {name: value for name, value in given.items() if value is not None}
    first = look(session.client, wanted)
    if live and interval:
        return _Screen(session, wanted, sort, interval, first).run()
    if not interval:
        return {"now": first.now, "value": measure(None, first, sort)}
    time.sleep(interval)
    second = look(session.client, wanted)
    return {"now": second.now, "value": measure(first, second, sort)}


class _Screen:
    """The table on a terminal, redrawn at each refresh."""

    def __init__(
        self, session: CommandSession, wanted: dict[str, str], sort: Sort, interval: float, first: Look
    ) -> None:
        self._session = session
        self._wanted = wanted
        self._sort = sort
        self._interval = interval
        self._before: Look | None = None
        self._last = first
        self._trouble = _lacking(session.client)

    def run(self) -> None:
        """Until `q` or Ctrl-C."""
        from rich.console import Console
        from rich.live import Live

        from recapito.cli.text.terminal import keyboard

        console = Console(highlight=False)
        self._session.client.warn = lambda text: None  # a line of the screen shows it
        with Live(console=console, screen=True, auto_refresh=False) as screen, keyboard() as wait:
            try:
                while True:
                    screen.update(self._draw(console.width, console.height), refresh=True)
                    key = wait(self._interval)
                    if key == "q":
                        return
                    self._sort = _KEYS.get(key, self._sort)
                    if not key:
                        self._look()
            except KeyboardInterrupt:
                return

    def _draw(self, width: int, height: int) -> Any:
        from recapito.cli.text.lane_table import picture

        rows = measure(self._before, self._last, self._sort)
        return picture(rows, self._last.now, width, height, _HINT.format(self._sort), self._trouble)

    def _look(self) -> None:
        began = time.monotonic()
        self._session.client.missing.clear()
        try:
            seen = look(self._session.client, self._wanted)
        except NoAnswer as error:
            self._trouble = f"The connection is lost, trying again. {error.message}"
            return
        self._trouble = _lacking(self._session.client)
        self._before, self._last = self._last, seen
        self._interval = max(self._interval, _LEAST_SHARE * (time.monotonic() - began))


def _lacking(client: ApiClient) -> str:
    return f"{left_out(client.missing)}." if client.missing else ""
