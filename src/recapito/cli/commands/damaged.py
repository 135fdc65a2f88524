"""`recapito damaged`: list and export the damaged records of a server's store."""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.verb import CommandSession, Noun
from recapito.domain.cluster.partition import home_of_id
from recapito.errors import NotFound

app = commands("List and export damaged records.")
noun = Noun(app)

_PATH = "/damaged"
_NO_FILE_NAME = re.compile(r"[^\w.:-]")  # the name of a document has its key, which may be a path
Data = Annotated[Path | None, typer.Option(help="Read this data directory instead of asking a server.")]


@noun.verb("list", form=Output.TABLE)
def list_damaged(session: CommandSession, data: Data = None) -> Any:
    """List the damaged records that were set aside."""
    return [_described(record) for record in _records(session, data)]


@noun.verb("export")
def export(
    session: CommandSession,
    names: Annotated[list[str] | None, typer.Argument(help="Names from `list`; all records if left out.")] = None,
    to: Annotated[Path, typer.Option(help="Directory to write to.")] = Path("recapito-damaged"),
    data: Data = None,
) -> Any:
    """Write damaged records to files, byte for byte."""
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    listed = {record["name"]: record for record in _records(session, data)}
    for name in names or ():
        if name not in listed:
            raise NotFound("ResourceNotFound", f"There is no damaged record '{name}'; `recapito damaged list` has all.")
    written: list[str] = []
    for name in names or listed:
        whole = listed[name] if data is not None else session.client.call("GET", f"{_PATH}/{quote(name)}")
        parts = {"content": b64decode(whole["content"]), "columns": b64decode(whole["columns"])}
        stem = _NO_FILE_NAME.sub("_", name)
        files = {f"{stem}.json": json.dumps(_described(whole), indent=2).encode()}
        files |= {f"{stem}.{part}": content for part, content in parts.items() if content}
        for file, content in files.items():
            (to / file).write_bytes(content)
            written.append(str(to / file))
    return {"written": written}


@noun.verb("dismiss")
def dismiss(session: CommandSession) -> Any:
    """End the warnings about known damage; the records stay."""
    records = list(_records(session, None))
    if not records:
        raise NotFound("ResourceNotFound", "Nothing was found damaged.")
    last = {home_of_id(record["number"]): record["number"] for record in records if record["number"]}
    if not last:
        raise NotFound("ResourceNotFound", "Only records of resources are damaged: restore a backup.")
    for number in last.values():  # in each partition
        answer = session.client.call("POST", f"{_PATH}/dismiss", {"number": number})
    return answer


@noun.verb("clear", session=False)
def clear(
    data: Annotated[Path, typer.Option(help="Data directory of the server.")] = Path("recapito-data"),
) -> Any:
    """Let a server accept events again after its files were checked."""
    from recapito.composition.data_directory import DataDirectory

    if not DataDirectory(data).clear_damage():
        raise NotFound("ResourceNotFound", f"No file in {data} is marked as damaged.")
    return {"cleared": str(data)}


def _described(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("content", "columns")}


def _records(session: CommandSession, data: Path | None) -> Iterator[dict[str, Any]]:
    """All records: as the server describes them, or with their bytes from its files."""
    if data is not None:
        yield from _stored(data)
        return
    after: int | None = 0
    while after is not None:
        page = session.client.call("GET", f"{_PATH}?after={after}")
        yield from page["value"]
        after = page["next"]


def _stored(data: Path) -> Iterator[dict[str, Any]]:
    from recapito.composition.data_directory import DataDirectory

    for damage in DataDirectory(data).damaged_records():
        yield {
            "name": f"{damage.table}-{damage.number}",
            "number": damage.number,
            "table": damage.table,
            "topicId": damage.topic,
            "subscriptionId": damage.lane,
            "position": damage.position,
            "offset": damage.offset,
            "events": damage.events,
            "bytes": len(damage.content) + len(damage.columns),
            "content": b64encode(damage.content).decode(),
            "columns": b64encode(damage.columns).decode(),
        }
