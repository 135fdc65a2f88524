"""`recapito apply`, `recapito export` and `recapito schema`: a whole set-up in a file."""

import json
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from recapito.cli.text.terminal import plain
from recapito.cli.toolkit.defaults import choose
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.verb import CommandSession, Noun
from recapito.errors import CallerError

apply_app = commands()
export_app = commands()
_TIMEOUT_S = 600.0
_MARKS = {"create": "+", "update": "~", "delete": "-"}
_DONE = {"create": "created", "update": "changed", "keep": "unchanged", "delete": "deleted", "failed": "failed"}

Group = Annotated[str | None, typer.Option("--resource-group", "-g", help="Resource group of a template.")]


class Format(StrEnum):
    """The formats of an export."""

    ESTATE = "estate"
    ARM = "arm"


def _lines(answer: Any) -> Iterator[str]:
    failed = {failure["id"] for failure in answer["failed"]}
    for step in answer["steps"]:
        if step["id"] in failed:
            continue
        changed = f" ({', '.join(step['changed'])})" if step.get("changed") else ""
        yield plain(f"{_MARKS[step['action']]} {step['resource']}{changed}")
    for failure in answer["failed"]:
        yield plain(f"! {failure['resource']}: {failure['error']}")
    told = ", ".join(f"{count} {_DONE[name]}" for name, count in answer["counts"].items() if count)
    yield f"{'plan: ' if answer.get('dryRun') else ''}{told or 'the file describes nothing'}"


@Noun(apply_app).verb("apply", form=Output.TABLE, to_lines=_lines, judge=lambda answer: not answer["failed"])
def apply(
    session: CommandSession,
    file: Annotated[Path, typer.Argument(help="Estate file, or ARM template.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete resources that the file does not describe.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    parameters: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Parameter of a template, or @FILE of them; may be repeated."),
    ] = None,
    resource_group: Group = None,
) -> Any:
    """Make a running server what a file describes; secrets are read here."""
    from recapito.system.document_file import load_document, locate

    document = load_document(file, os.environ)
    body = {
        "document": document.data,
        "parameters": _read_parameters(parameters or []),
        "azureSubscription": session.subscription,
        "resourceGroup": choose("group", resource_group),
        "prune": prune,
    }

    def send(dry: bool) -> Any:
        try:
            return session.client.call("POST", "/estate", {**body, "dryRun": dry}, _TIMEOUT_S)
        except CallerError as error:
            if error.target is None:
                raise
            raise type(error)(error.code, locate(file, document, error.message, error.target)) from None

    if dry_run:
        return send(dry=True) | {"dryRun": True}
    if prune and not yes:
        gone = [step["resource"] for step in send(dry=True)["steps"] if step["action"] == "delete"]
        if gone:
            question = f"This deletes {', '.join(gone)}. Go on (--yes skips this question)?"
            typer.confirm(plain(question), abort=True, err=True)
    return send(dry=False)


def _read_parameters(given: list[str]) -> dict[str, Any]:
    """Parameters as ARM takes them, later ones first. A value that is JSON, other than a text, is that value."""
    found: dict[str, Any] = {}
    for text in given:
        if text.startswith("@"):
            found |= _read_parameter_file(Path(text.removeprefix("@")))
            continue
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"'{text}' is not like NAME=VALUE", param_hint="--parameters")
        try:
            found[name] = {"value": json.loads(value)}
        except (ValueError, RecursionError):
            found[name] = {"value": value}
    return found


def _read_parameter_file(path: Path) -> dict[str, Any]:
    """The parameters of a file as az takes it, with or without the frame around them."""
    from recapito.system.document_file import load_document

    read = load_document(path, {}).data
    inner = read.get("parameters", read) if isinstance(read, dict) else None
    if not isinstance(inner, dict) or not all(isinstance(value, dict) for value in inner.values()):
        raise typer.BadParameter(f"'{path}' has no parameters like NAME: {{value: ...}}", param_hint="--parameters")
    return inner


def _document_lines(answer: Any) -> Iterator[str]:
    from recapito.domain.estate.document import write_document
    from recapito.domain.estate.estate import is_template

    yield json.dumps(answer, indent=2) if is_template(answer) else write_document(answer).rstrip("\n")


@Noun(export_app).verb("export", form=Output.TABLE, to_lines=_document_lines)
def export(
    session: CommandSession,
    format: Annotated[Format, typer.Option(help="Estate file, or ARM template of one group.")] = Format.ESTATE,
    secrets: Annotated[bool, typer.Option("--secrets", help="Include keys and other secrets.")] = False,
    resource_group: Group = None,
) -> Any:
    """Print all resources of a server as a file for `recapito apply`."""
    query = urlencode(
        {
            "format": format.value,
            "azureSubscription": session.subscription,
            "resourceGroup": choose("group", resource_group),
        }
    )
    if secrets:
        return session.client.call("POST", f"/estate/export?{query}", {}, _TIMEOUT_S)
    return session.client.call("GET", f"/estate?{query}", None, _TIMEOUT_S)


def schema() -> None:
    """Print the JSON schema of estate files, for editors."""
    from recapito.api.estate.schema import estate_schema

    typer.echo(json.dumps(estate_schema(), indent=2))
