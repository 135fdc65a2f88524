"""A second, slow implementation of filters, and random events and filters."""

from typing import Any

from hypothesis import strategies as st

from recapito.domain.filters.filter import Condition, Filter, Operator

NOTHING = object()


def find(event: dict[str, Any], key: str) -> Any:
    """The value under a key."""
    value: Any = event
    for depth, name in enumerate(key.split(".")):
        if not isinstance(value, dict):
            return NOTHING
        if depth == 0 and "specversion" not in event:
            name = next((own for own in value if own.lower() == name.lower()), name)
        if name not in value:
            return NOTHING
        value = value[name]
    return value


names = st.sampled_from(["a", "b", "A"])
wake_keys = st.text("aAbBßé5", max_size=3)
numbers = (
    st.integers(-3, 6)
    | st.sampled_from([2**53, 2**53 + 1, 2**64, 2**70 + 1])
    | st.sampled_from([0.5, 2.0, 5.0, 2.0**53, 2.0**64, 1e300])
)
scalars = st.none() | st.booleans() | numbers | wake_keys
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))
types, subjects, topics = st.sampled_from(["T", "t", "U"]), wake_keys, st.sampled_from(["n", "N", "s"])
event_grid = st.fixed_dictionaries(
    {"id": wake_keys, "topic": wake_keys, "subject": wake_keys, "eventType": types, "dataVersion": wake_keys},
    optional={"data": values},
)
cloud_events = st.fixed_dictionaries(
    {"id": wake_keys, "source": wake_keys, "type": types, "specversion": st.just("1.0")},
    optional={"subject": wake_keys, "data": values, "ext": st.booleans() | numbers | wake_keys},
)
keys = st.sampled_from(["data", "data.a", "data.b", "data.A", "data.a.a", "data.a.b", "data.a.b.a", "Data.a"]) | (
    st.sampled_from(["id", "Id", "Topic", "DataVersion", "source", "ext", "Ext", "nothing"])
)


def operands_of(operator: Operator) -> st.SearchStrategy[tuple[Any, ...]]:
    """Operands that the operator may have."""
    if operator.value.startswith("Is"):
        return st.just(())
    if operator is Operator.BOOL_EQUALS:
        return st.tuples(st.booleans())
    if operator.value.startswith("String"):
        return st.lists(wake_keys, min_size=1, max_size=3).map(tuple)
    if operator.value.endswith("Range"):
        return st.lists(st.tuples(numbers, numbers), min_size=1, max_size=2).map(tuple)
    if operator.value.endswith("In"):
        return st.lists(numbers, min_size=1, max_size=3).map(tuple)
    return st.tuples(numbers)


conditions = st.sampled_from(list(Operator)).flatmap(
    lambda operator: st.builds(Condition, st.just(operator), keys, operands_of(operator))
)
filters = st.builds(
    Filter,
    event_types=st.none() | st.lists(types, max_size=2).map(tuple),
    subject_begins_with=st.just("") | wake_keys,
    subject_ends_with=st.just("") | wake_keys,
    subject_case_sensitive=st.booleans(),
    conditions=st.lists(conditions, max_size=3).map(tuple),
    arrays=st.booleans(),
    domain_topic=st.none() | topics,
)
plain = st.builds(Filter, conditions=st.lists(conditions, min_size=1, max_size=2).map(tuple), arrays=st.booleans())
segments = st.sampled_from([event_grid, cloud_events]).flatmap(
    lambda events: st.lists(st.tuples(types, subjects, topics, events), min_size=1, max_size=6)
)
