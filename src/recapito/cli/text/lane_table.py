"""The table of `recapito top`: as many columns and rows as the terminal has room for."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recapito.cli.text.lane_rates import Row, is_failing, totals
from recapito.cli.text.terminal import visible
from recapito.cli.text.time import seconds_between, show_briefly, show_moment

_NAMES = 30  # what the names of topic and subscription need at least
_AROUND = 7  # lines that are not rows: two of the head, four of the frame, the foot


class Column(NamedTuple):
    """A column: its head, its least width, how soon it is left out when room is short, and its text for a row."""

    head: str
    width: int
    leave: int
    text: Callable[[Row, str], str]


def _count(name: str) -> Callable[[Row, str], str]:
    return lambda row, now: f"{row[name]:,}"


def _pace(name: str) -> Callable[[Row, str], str]:
    return lambda row, now: "-" if row[name] is None else f"{row[name]:,.1f}"


def _until(name: str) -> Callable[[Row, str], str]:
    return lambda row, now: "" if row[name] is None else show_briefly(seconds_between(now, row[name]))


def _limit(row: Row, now: str) -> str:
    """The limits that an operator set: events per second, and requests in flight."""
    parts = (row["maxPerSecond"] and f"{row['maxPerSecond']:,}/s", row["maxRequests"] and f"{row['maxRequests']} req")
    return " ".join(part for part in parts if part)


COLUMNS = (
    Column("sent/s", 7, 0, _pace("deliveredPerSecond")),
    Column("failed/s", 8, 2, _pace("failedPerSecond")),
    Column("ms", 6, 4, _pace("averageMs")),
    Column("pending", 7, 0, _count("pending")),
    Column("unread", 6, 5, _count("unread")),
    Column("parked", 6, 3, _count("parked")),
    Column("failing", 7, 1, lambda row, now: f"{row['failuresInARow']}x" if row["failuresInARow"] else ""),
    Column("probation", 9, 0, _until("probationUntil")),
    Column("next due", 8, 1, _until("nextDueAt")),
    Column("limit", 10, 6, _limit),
)


def picture(
    rows: Sequence[Row], now: str, width: int, height: int | None, hint: str = "", trouble: str = ""
) -> RenderableType:
    """The table in a terminal of this size; without a height, all of it."""
    visible_rows = rows if height is None else rows[: max(1, height - _AROUND)]
    parts: list[RenderableType] = [_line(_head(rows, now), "bold")]
    if hint or trouble:
        parts.append(_line(visible(trouble or hint), "red" if trouble else "dim"))
    if not rows:
        return Group(*parts, Text("\nNo event subscription matches; `recapito event-subscription create` creates one."))
    parts.append(_table(visible_rows, now, width))
    if len(visible_rows) < len(rows):
        parts.append(_line(f"and {len(rows) - len(visible_rows):,} more", "dim"))
    else:
        room = None if height is None else max(0, height - _AROUND - len(rows))
        parts.extend(_line(text, "dim") for text in _reasons(rows)[:room])
    return Group(*parts)


def _reasons(rows: Sequence[Row]) -> list[str]:
    """Why subscriptions are held or stopped."""
    return [
        visible(f"{row['topic']}/{row['subscription']}: {row['stopped'] or row['probationReason']}")
        for row in rows
        if row["stopped"] or row["probationReason"]
    ]


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _head(rows: Sequence[Row], now: str) -> str:
    sums = totals(rows)
    return (
        f"{show_moment(now)[:-4]} UTC  {sums['subscriptions']:,} subscriptions: {sums['failing']:,} failing, "
        f"{sums['probation']:,} on probation  {sums['deliveredPerSecond']:,.1f} sent/s, {sums['pending']:,} waiting"
    )


def _table(rows: Sequence[Row], now: str, width: int) -> Table:
    columns = _fitting(width)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, width=min(width, 160))
    for name, share in (("topic", 2), ("subscription", 3)):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=share)
    for column in columns:
        table.add_column(column.head, justify="right", no_wrap=True, min_width=column.width)
    for row in rows:
        cells = [visible(row["topic"]), visible(row["subscription"]), *(column.text(row, now) for column in columns)]
        table.add_row(*map(Text, cells), style=_style(row))
    return table


def _fitting(width: int) -> list[Column]:
    """The columns for which there is room, the least needed left out first."""
    left = sorted(COLUMNS, key=lambda column: column.leave)
    while left and _NAMES + sum(column.width + 2 for column in left) > width:
        left.pop()
    return [column for column in COLUMNS if column in left]


def _style(row: Row) -> str:
    if row["probationUntil"] or row["stopped"]:
        return "red"
    return "yellow" if is_failing(row) else ""


def snapshot_lines(answer: Any, width: int) -> list[str]:
    """The whole table as lines of text."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=width, highlight=False).print(picture(answer["value"], answer["now"], width, None))
    return [line.rstrip() for line in out.getvalue().rstrip().splitlines()]
