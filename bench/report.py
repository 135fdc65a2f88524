"""The measurements, for people as a table and for programs as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

BUSY = 0.1  # from this share on, what others do changes what is measured


class Goal(NamedTuple):
    """The target of a row: at least `limit`, or at most."""

    row: str
    title: str
    limit: float
    unit: str = "×"
    at_least: bool = True

    def met(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit

    def text(self) -> str:
        """For the table."""
        return f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}"


class Sample(NamedTuple):
    """One value of a row, from what it was made, and why it does not count, if it does not."""

    row: str
    value: float
    detail: str
    fault: str = ""


class Row(NamedTuple):
    """A goal and all its samples. The value is the median of those that count."""

    goal: Goal
    samples: Sequence[Sample]

    @property
    def counting(self) -> list[Sample]:
        """The samples that count."""
        return [sample for sample in self.samples if not sample.fault]

    @property
    def value(self) -> float | None:
        """The median, None if nothing counts."""
        return median(sample.value for sample in self.counting) if self.counting else None

    @property
    def met(self) -> bool:
        """Whether the goal is met."""
        return self.value is not None and self.goal.met(self.value)

    def detail(self) -> str:
        """The origin of the sample nearest to the median, or the reason why none counts."""
        if self.value is None:
            return self.samples[0].fault if self.samples else "not measured"
        nearest = min(self.counting, key=lambda sample: abs(sample.value - (self.value or 0)))
        lost = len(self.samples) - len(self.counting)
        return nearest.detail + (f" ({lost} of {len(self.samples)} runs do not count)" if lost else "")

    def spread(self) -> str:
        """The least and the greatest value."""
        values = [sample.value for sample in self.counting]
        return f"{_short(min(values))}–{_short(max(values))}" if len(values) > 1 else ""


def print_table(rows: Sequence[Row], others: float | None, console: Console) -> None:
    """The table for people. `others` is the share of the machine that was not ours, None if it was not measured."""
    caption = None if others is None else f"Other work used {others:.0%} of the machine"
    if others is not None and others > BUSY:
        caption = f"{caption}: an idle one gives other numbers"
    table = Table(caption=caption, title=f"Recapito on {os.cpu_count()} cores, Python {platform.python_version()}")
    for title in ("scenario", "measured", "value", "spread", "goal", ""):
        table.add_column(title, justify="left" if title in ("scenario", "measured") else "right")
    for row in rows:
        value = "–" if row.value is None else f"{_short(row.value)} {row.goal.unit}"
        met = "[green]met[/]" if row.met else "[red]missed[/]"
        table.add_row(row.goal.title, row.detail(), value, row.spread(), row.goal.text(), met)
    console.print(table)


def write_json(rows: Sequence[Row], others: float | None, path: Path) -> None:
    """The same for programs, with every sample."""
    content = [
        {
            "row": row.goal.row,
            "title": row.goal.title,
            "value": row.value,
            "unit": row.goal.unit,
            "goal": row.goal.limit,
            "at_least": row.goal.at_least,
            "met": row.met,
            "samples": [sample._asdict() for sample in row.samples],
        }
        for row in rows
    ]
    path.write_text(json.dumps({"cores": os.cpu_count(), "others": others, "rows": content}, indent=2) + "\n", "utf-8")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
