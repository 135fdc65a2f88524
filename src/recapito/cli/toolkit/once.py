"""What a user is told once: who was told is remembered beside the file of defaults."""

from pathlib import Path

from recapito.cli.toolkit.defaults import file_path
from recapito.cli.toolkit.session import Session


def say_once(session: Session, name: str, text: str) -> None:
    """Say it, unless this user was told before. Who wants to hear errors only is not told, and may be later."""
    path = _path()
    told = _read(path)
    if name in told or session.quiet:
        return
    session.note(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{one}\n" for one in [*told, name]), "utf-8")
    except OSError:
        return  # then it is said again


def _path() -> Path:
    return file_path().with_name("told")


def _read(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").split()
    except OSError:
        return []
