"""The flags of topics and domains as the body that the API takes."""

from typing import Any

import typer

from recapito.cli.toolkit.defaults import choose
from recapito.cli.toolkit.flags import flatten, pairs, truth

_FIELDS = {
    "id": "id",
    "topic": "topic",
    "eventtime": "eventTime",
    "subject": "subject",
    "eventtype": "eventType",
    "dataversion": "dataVersion",
}
_WITH_DEFAULT = ("subject", "eventtype", "dataversion")


def topic_body(
    location: str | None = None,
    tags: list[str] | None = None,
    input_schema: str | None = None,
    mapping_fields: list[str] | None = None,
    mapping_defaults: list[str] | None = None,
    ip_rules: list[str] | None = None,
    public_access: str | None = None,
    no_local_auth: str | None = None,
) -> dict[str, Any]:
    """The body of a PUT."""
    mapping = _mapping(
        pairs(mapping_fields, "--input-mapping-fields"), pairs(mapping_defaults, "--input-mapping-default-values")
    )
    change = topic_change(tags, ip_rules, public_access, no_local_auth)
    properties = {**change.pop("properties", {}), "inputSchema": input_schema, "inputSchemaMapping": mapping}
    return {"location": choose("location", location), **change, "properties": given(properties)}


def topic_change(
    tags: list[str] | None = None,
    ip_rules: list[str] | None = None,
    public_access: str | None = None,
    no_local_auth: str | None = None,
) -> dict[str, Any]:
    """The body of a PATCH."""
    properties = {
        "inboundIpRules": _rules(flatten(ip_rules)),
        "publicNetworkAccess": public_access,
        "disableLocalAuth": truth(no_local_auth, "--disable-local-auth"),
    }
    return given({"tags": pairs(tags, "--tags"), "properties": given(properties) or None})


def given(members: dict[str, Any]) -> dict[str, Any]:
    """Only what was asked for."""
    return {name: value for name, value in members.items() if value is not None}


def _rules(words: list[str] | None) -> list[dict[str, str]] | None:
    """Addresses, each with its action behind it; the only action is Allow, so it may be left out."""
    if words is None:
        return None
    return [{"ipMask": word, "action": "Allow"} for word in words if word.lower() != "allow"]


def _mapping(fields: dict[str, str] | None, defaults: dict[str, str] | None) -> dict[str, Any] | None:
    if fields is None and defaults is None:
        return None
    mapped: dict[str, dict[str, str]] = {}
    for name, source in (fields or {}).items():
        mapped.setdefault(_field(name, tuple(_FIELDS), "--input-mapping-fields"), {})["sourceField"] = source
    for name, value in (defaults or {}).items():
        field = _field(name, _WITH_DEFAULT, "--input-mapping-default-values")
        mapped.setdefault(field, {})["defaultValue"] = value
    return {"inputSchemaMappingType": "Json", "properties": mapped}


def _field(name: str, known: tuple[str, ...], flag: str) -> str:
    if name.lower() not in known:
        raise typer.BadParameter(f"'{name}' is not one of {', '.join(known)}", param_hint=flag)
    return _FIELDS[name.lower()]
