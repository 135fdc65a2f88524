"""Portions of an estate: each resource at its home, merged reports and exports that name each resource once."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.api.estate.address import Stage
from recapito.api.estate.export import Exported, Secret
from recapito.api.estate.manager import Action, kept_by, read_all
from recapito.api.estate.portion import (
    ExportedPortion,
    FailedStep,
    PlannedStep,
    Portion,
    PortionReport,
    homes_of,
    merge_exports,
    merge_reports,
    pack,
    portion_of,
    unpack,
)
from recapito.domain.estate.document import read_document
from recapito.domain.estate.estate import resources_of
from tests.api.estate.whole import WHOLE

WISHES = read_all(resources_of(read_document(WHOLE).data))
GROUP = WISHES[0].address.id
KEEP, CREATE, UPDATE, DELETE = Action.KEEP, Action.CREATE, Action.UPDATE, Action.DELETE


@given(st.integers(1, 16))
def test_every_resource_has_one_home_or_all(count: int) -> None:
    """The portions make up the document; whatever is in a topic is where the topic is, and groups are everywhere."""
    homes = homes_of(WISHES, count, {})
    portions = [portion_of(WISHES, homes, number, prune=True, dry_run=True) for number in range(count)]
    places: dict[str, set[int]] = {}
    for number, portion in enumerate(portions):
        assert msgspec.json.decode(msgspec.json.encode(portion), type=Portion) == portion
        for declared in portion.resources:
            places.setdefault(declared.id, set()).add(number)
    assert set(places) == {wish.declared.id for wish in WISHES}
    for wish in WISHES:
        everywhere = wish.address.stage < Stage.TOPIC
        assert len(places[wish.declared.id]) == (count if everywhere else 1)
        if wish.address.topic:
            parent = wish.address._replace(stage=Stage.TOPIC, name=wish.address.topic, domain_topic=None)
            assert places[wish.declared.id] == places[parent.id]


def test_what_other_partitions_need_is_spared() -> None:
    """A portion names the groups and accounts that the whole document needs, so that pruning keeps them everywhere."""
    topics = [wish for wish in WISHES if wish.address.stage is Stage.TOPIC]
    empty = portion_of(topics, [1] * len(topics), 0, prune=True, dry_run=True)
    assert (empty.resources, empty.kept) == ([], [GROUP.lower()])
    assert set(portion_of(WISHES, [1] * len(WISHES), 0, prune=True, dry_run=True).kept) <= kept_by(WISHES)


@pytest.mark.parametrize(
    ("actions", "merged"),
    [
        ((CREATE, CREATE), CREATE),
        ((KEEP, CREATE), KEEP),
        ((KEEP, KEEP), KEEP),
        ((UPDATE, CREATE), UPDATE),
        ((CREATE, UPDATE), UPDATE),
        ((KEEP, UPDATE), KEEP),
    ],
)
def test_a_resource_of_all_partitions_is_one_step(actions: tuple[Action, ...], merged: Action) -> None:
    """It is new if no partition has it; otherwise the first one that has it decides, for clients see its copy."""
    reports = [PortionReport([PlannedStep(each, GROUP, ("tags",) if each is UPDATE else ())]) for each in actions]
    (step,) = merge_reports(WISHES[:1], reports).steps
    assert (step.action, step.changed) == (merged, ("tags",) if merged is UPDATE else ())


def test_deletions_and_failures_are_merged() -> None:
    """A deletion in several partitions is one, the smaller ones first; a failure in one is that of the step."""
    topic, gone = f"{GROUP}/providers/Microsoft.EventGrid/topics/x", f"{GROUP}x"
    reports = [
        PortionReport([PlannedStep(CREATE, GROUP), PlannedStep(DELETE, gone)]),
        PortionReport(
            [PlannedStep(CREATE, GROUP), PlannedStep(DELETE, topic), PlannedStep(DELETE, gone)],
            [FailedStep(GROUP, "Code", "Message.")],
        ),
    ]
    merged = merge_reports(WISHES[:1], reports)
    assert [step.address.id for step in merged.steps] == [GROUP, topic, gone]
    assert [(each.step.address.id, each.code, each.message) for each in merged.failed] == [(GROUP, "Code", "Message.")]
    assert merged.counts() == {"create": 0, "update": 0, "keep": 0, "delete": 2, "failed": 1}


@pytest.mark.parametrize("secrets", [True, False])
def test_secrets_find_their_places(secrets: bool) -> None:
    """A resource comes back as it was, its secrets where they were; without `secrets` their values stay at home."""
    value = "hush" if secrets else ""
    body = {"a": [1, {"b": Secret("one", "hush")}], "tags": {"secret": "x"}, "c": Secret("two", "hush")}
    packed = msgspec.json.encode(pack(Exported(WISHES[0].address, body), secrets))
    assert (b"hush" in packed) is secrets
    back = unpack(msgspec.json.decode(packed, type=ExportedPortion))
    wanted = {"a": [1, {"b": Secret("one", value)}], "tags": {"secret": "x"}, "c": Secret("two", value)}
    assert back == Exported(WISHES[0].address, wanted)


def test_exports_are_in_the_order_of_one_server() -> None:
    """Groups, accounts, connections, then topics by kind and name, each with what is in it; each resource once."""
    whole = [Exported(wish.address, {}) for wish in WISHES]
    halves = [[each for n, each in enumerate(whole) if n % 2 == half or n < 3] for half in (0, 1)]
    merged = merge_exports(halves)
    assert len(merged) == len(whole)
    stages = [min(each.address.stage, Stage.TOPIC) for each in merged]
    assert stages == sorted(stages)
