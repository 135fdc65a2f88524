"""The order that a role gets from its parent, who need not load what a role is made of to give it."""

import msgspec

from recapito.clock import Origin


class RoleConfig(msgspec.Struct, frozen=True):
    """What a role is told on its standard input: the settings, the clock's origin and its file descriptors."""

    settings: dict[str, object]
    origin: Origin
    listener: int
    wake: int
    ready: int
