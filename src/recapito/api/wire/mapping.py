"""A topic's `inputSchemaMapping` on the wire: the rules that make the envelope of a custom event (spec §2.3)."""

from recapito.api.wire.decode import Body, Shown, check_choice, check_length
from recapito.domain import limits
from recapito.domain.events.input_mapping import InputMapping, MappedField


class _Field(Body):
    source_field: str | None = None


class _FieldWithDefault(_Field):
    default_value: str | None = None


class _Fields(Body):
    id: _Field | None = None
    topic: _Field | None = None
    event_time: _Field | None = None
    event_type: _FieldWithDefault | None = None
    subject: _FieldWithDefault | None = None
    data_version: _FieldWithDefault | None = None


class MappingBody(Body):
    """The mapping as sent."""

    input_schema_mapping_type: str
    properties: _Fields | None = None


_NAMES = {
    "id": "id",
    "topic": "topic",
    "event_time": "eventTime",
    "event_type": "eventType",
    "subject": "subject",
    "data_version": "dataVersion",
}
_WITH_DEFAULT = ("event_type", "subject", "data_version")


def read_mapping(sent: MappingBody, within: str) -> InputMapping:
    """The mapping, or an error that names the field; `within` is its path in the request."""
    check_choice(sent.input_schema_mapping_type, ("Json",), f"{within}.inputSchemaMappingType")
    fields = sent.properties or _Fields()
    return InputMapping(
        **{
            name: _read_field(getattr(fields, name) or _Field(), f"{within}.properties.{wire}")
            for name, wire in _NAMES.items()
        }
    )


def _read_field(sent: _Field, within: str) -> MappedField:
    source = check_length(sent.source_field or "", limits.FILTER_CHARS, f"{within}.sourceField") or None
    if not isinstance(sent, _FieldWithDefault):
        return MappedField(source)
    default = sent.default_value
    if default is not None:
        check_length(default, limits.FILTER_CHARS, f"{within}.defaultValue")
    return MappedField(source, default)


def show_mapping(mapping: InputMapping) -> Shown:
    fields: Shown = {}
    for name, wire in _NAMES.items():
        field: MappedField = getattr(mapping, name)
        fields[wire] = {"sourceField": field.source}
        if name in _WITH_DEFAULT:
            fields[wire]["defaultValue"] = field.default
    return {"inputSchemaMappingType": "Json", "properties": fields}
