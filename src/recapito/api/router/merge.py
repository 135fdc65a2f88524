"""The answers of several partitions as one, and the start of the next page; pure functions of decoded bodies.

The law: following the next page from the first to the last shows every member once, whatever the partitions. Where all
partitions sort by one key, the key starts the next page in all of them; where ids sort, the partitions follow each
other; attempts have a mark in each partition, and all marks together start a page.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from recapito.domain.cluster.partition import home_of_id
from recapito.domain.resources.topic import KIND_NAMES, topic_key

Shown = dict[str, Any]
AT = "~"  # before the number of the partition at whose beginning a page starts
UNKNOWN = "x"  # the mark of a partition that did not answer
ENDED = "0"  # the mark before which there is nothing
_KINDS = {name: kind for kind, name in KIND_NAMES.items()}


class MergedPage(NamedTuple):
    """The members of a page, and the key of the last one if there are more."""

    value: list[Any]
    next: Any | None


def by_name(member: Shown) -> str:
    return str(member["name"]).lower()


def by_key(member: Shown) -> str:
    return topic_key(_KINDS[member["topicKind"]], member["topic"])


def by_number(member: Shown) -> int:
    return int(member["number"])


def merge_sorted(
    values: Sequence[Sequence[Shown]], more: bool, size: int, key: Callable[[Shown], Any], once: str | None = None
) -> MergedPage:
    """The first members of all lists in one order; members with equal keys stay together.

    more: a list has more members than these.
    once: the field by which members of two lists are one, without regard to case.
    """
    found = sorted((member for value in values for member in value), key=key)
    if once is not None:
        found = list({str(member[once]).lower(): member for member in reversed(found)}.values())[::-1]
    end = size
    while 0 < end < len(found) and key(found[end]) == key(found[end - 1]):
        end += 1
    page = found[:end]
    return MergedPage(page, key(page[-1]) if page and (more or end < len(found)) else None)


def merge_numbered(values: Sequence[Sequence[Shown]], more: bool, size: int) -> MergedPage:
    """Damaged records in the order of their numbers. Those without a number are on the first page, beyond its size."""
    unnumbered = sum(not by_number(member) for value in values for member in value)
    page = merge_sorted(values, more, size + unnumbered, by_number)
    return page._replace(next=page.next or None)


def union(values: Sequence[Sequence[Shown]]) -> list[Shown]:
    """All members, each id once, in the order of their ids."""
    members = {str(member["id"]).lower(): member for value in reversed(values) for member in value}
    return [members[id] for id in sorted(members)]


def chain_start(token: str, partitions: int) -> tuple[int, str]:
    """The partition at which a page starts, and the place in it; a place that is none goes to the first partition."""
    if token.startswith(AT) and token[1:].isdecimal():
        return min(int(token[1:]), partitions - 1), ""
    id = token.partition("/")[0]
    if id.isascii() and id.isdigit() and len(id) < 19 and home_of_id(int(id)) < partitions:
        return home_of_id(int(id)), token
    return 0, token


def add(bodies: Sequence[Shown]) -> Shown:
    """The sums of all numbers, those in objects included; of everything else, the last value."""
    total: Shown = {}
    for body in bodies:
        for name, value in body.items():
            known = total.get(name)
            if isinstance(value, Mapping) and isinstance(known, Mapping):
                total[name] = add([dict(known), dict(value)])
            elif isinstance(value, int | float) and isinstance(known, int | float) and not isinstance(value, bool):
                total[name] = known + value
            else:
                total[name] = value
    return total


def add_series(values: Sequence[Sequence[Shown]]) -> list[Shown]:
    """The buckets of all partitions, added up by their time."""
    buckets: dict[str, list[Shown]] = {}
    for value in values:
        for bucket in value:
            buckets.setdefault(bucket["at"], []).append(bucket)
    return [add(buckets[at]) for at in sorted(buckets)]


def missing_nodes(pages: Sequence[Shown]) -> Shown:
    """The nodes whose attempts any of the pages lacks."""
    names = sorted({name for page in pages for name in page.get("missingNodes", ())})
    return {"missingNodes": names} if names else {}


def split_marks(token: str | None, partitions: int) -> list[str | None]:
    """The mark of each partition; None where none is known."""
    marks = token.split("-") if token else []
    if len(marks) != partitions:
        return [None] * partitions
    return [None if mark == UNKNOWN else mark for mark in marks]


def join_marks(marks: Sequence[str | None]) -> str:
    return "-".join(UNKNOWN if mark is None else mark for mark in marks)


def merge_newest(pages: Mapping[int, Shown], limit: int) -> tuple[list[Shown], dict[int, str] | None]:
    """The newest attempts of all partitions, and the mark from which each goes on; None: there are no more."""
    found = sorted(
        ((attempt["at"], number, attempt) for number, page in pages.items() for attempt in page["value"]),
        key=lambda each: each[0],
        reverse=True,
    )
    shown = found[:limit]
    marks, more = {}, False
    for number, page in pages.items():
        taken = [attempt for _, partition, attempt in shown if partition == number]
        if len(taken) < len(page["value"]):
            marks[number] = taken[-1]["mark"] if taken else str(int(page["value"][0]["mark"]) + 1)
            more = True
        else:
            marks[number] = ENDED if page["next"] is None else page["next"]
            more = more or page["next"] is not None
    return [attempt for _, _, attempt in shown], marks if more else None


def merge_kept(pages: Sequence[Shown]) -> Shown:
    """How much of history all partitions keep together."""
    since = [page["kept"]["since"] for page in pages if page["kept"]["since"] is not None]
    return add([page["kept"] for page in pages]) | {"since": min(since, default=None)}
