"""All golden files: what each is named, and how what it should hold is found out."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden import directory, outside, serving, values
from tests.golden.files import FILES, write_down


async def _schema(work: Path) -> str:
    await directory.make_empty(work)
    return directory.schema(work)


async def _view(work: Path) -> str:
    return await directory.view(directory.unpack_fixture(work))


async def _served(work: Path) -> str:
    return await serving.serve(directory.unpack_fixture(work))


async def _journal(work: Path) -> str:
    return outside.journal()


async def _command_line(work: Path) -> str:
    return outside.command_line()


async def _description(work: Path) -> str:
    return await outside.description()


TEXTS: dict[str, Callable[[Path], Coroutine[None, None, str]]] = {
    "schema.sql": _schema,
    "journal.txt": _journal,
    "command_line.txt": _command_line,
    "openapi.json": _description,
    "directory.txt": _view,
    "served.txt": _served,
}


def bytes_of(subject: str) -> dict[str, bytes]:
    """The bytes of a subject's values, as the code makes them now."""
    return {name: case.encode(case.value) for name, case in values.SUBJECTS[subject].items()}


async def write_all(fixture: bool) -> None:
    """Write the golden files anew; the data directory only if that is wanted, or if there is none."""
    FILES.mkdir(exist_ok=True)
    for subject in values.SUBJECTS:
        (FILES / f"{subject}.toml").write_text(write_down(bytes_of(subject)), "utf-8")
    if fixture or not directory.FIXTURE.exists():
        await _write_fixture()
    for name, make in TEXTS.items():
        with TemporaryDirectory() as work:
            (FILES / name).write_text(await make(Path(work)), "utf-8")


async def _write_fixture() -> None:
    """The private key of the directory that is there is kept, so that tokens stay the same."""
    with TemporaryDirectory() as old, TemporaryDirectory() as new:
        keys = directory.unpack_fixture(Path(old)) if directory.FIXTURE.exists() else None
        await directory.write(Path(new), keys)
        directory.FIXTURE.write_bytes(directory.store_fixture(Path(new)))
