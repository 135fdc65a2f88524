"""The mapping of a topic with the custom schema: the source of each field of the envelope (spec §2.3)."""

import msgspec


class MappedField(msgspec.Struct, frozen=True, omit_defaults=True):
    """The source of a field of the envelope of a custom event: a path into it, else the default, else nothing."""

    source: str | None = None
    default: str | None = None


class InputMapping(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The mapping from a custom event to its envelope. Only type, subject and data version may have defaults."""

    id: MappedField = MappedField()
    topic: MappedField = MappedField()
    event_time: MappedField = MappedField()
    event_type: MappedField = MappedField()
    subject: MappedField = MappedField()
    data_version: MappedField = MappedField()
