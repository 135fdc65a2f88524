"""The configuration that a parent sends to a role; the parent need not load the modules of a role for it."""

import msgspec

from recapito.clock import ClockOrigin


class RoleConfig(msgspec.Struct, frozen=True):
    """The line on a role's standard input: the settings, the clock's origin and its file descriptors.

    node: the socket by which the parent tells a node of a cluster what it knows; -1 elsewhere.
    front: the listening socket of an Azurite's front; -1 if there is none.
    partition, partitions: the partition of the cluster that the role works for, and the number of them.
    """

    settings: dict[str, object]
    origin: ClockOrigin
    listener: int
    wake: int
    ready: int
    node: int = -1
    front: int = -1
    partition: int = 0
    partitions: int = 1
