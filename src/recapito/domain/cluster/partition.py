"""The partitions of a cluster: each is a whole small server, with streams, an owner and ids of its own.

The law: a topic, its subscriptions and all their events live in one partition, which its name alone decides, so that
every node finds it without asking. The ids that a partition gives out say which one it is, and so do the numbers of
its damaged records.
"""

from collections.abc import Collection
from hashlib import blake2b
from typing import NamedTuple

ID_BITS = 40  # of the ids of topics and subscriptions within a partition


class Partition(NamedTuple):
    """One partition, and the number of them. A cluster of one partition is told from a server of its own nowhere."""

    number: int = 0
    of: int = 1

    @property
    def alone(self) -> bool:
        """Whether it is the whole cluster."""
        return self.of == 1

    @property
    def first_id(self) -> int:
        """The ids of its topics and subscriptions are above this one, and so are the numbers of damaged records."""
        return self.number << ID_BITS

    def holds(self, topic: str) -> bool:
        """Whether topics of this name live here."""
        return home_of(topic, self.of) == self.number


WHOLE = Partition()


def home_of(topic: str, partitions: int) -> int:
    """The partition of all topics, domains and system topics of a name, without regard to case."""
    return int.from_bytes(blake2b(topic.lower().encode(), digest_size=8).digest()) % partitions


def silent(partitions: Collection[int]) -> str:
    """The words for operators that partitions do not answer, without a full stop."""
    names = ", ".join(map(str, sorted(partitions)))
    if len(partitions) == 1:
        return f"Partition {names} of the cluster does not answer"
    return f"Partitions {names} of the cluster do not answer"


def silent_nodes(names: Collection[str]) -> str:
    """The words for operators that nodes do not answer, without a full stop."""
    quoted = ", ".join(f"'{name}'" for name in sorted(names))
    if len(names) == 1:
        return f"Node {quoted} of the cluster does not answer"
    return f"Nodes {quoted} of the cluster do not answer"


def home_of_id(id: int) -> int:
    """The partition that gave out the id of a topic or a subscription, or the number of a damaged record."""
    return id >> ID_BITS
