"""Which names of a directory tree would outlive a power cut, read from the system calls of who made them.

A name that was made, renamed or linked is durable once its directory is synced; a name that was removed or renamed away
is gone for good only then.
"""

import re
from pathlib import Path

CALLS = "openat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,fsync,fdatasync"
_CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)\)\s+= (\d+)")
_PLACE = re.compile(r'(?:(?:AT_FDCWD|\d+)(?:<([^>]*)>)?, )?"([^"]*)"')
_SYNCED = re.compile(r"^\d+<([^>]*)>")


class Names:
    """The names below a root as a trace leaves them: those that are there, and those that a power cut would leave."""

    def __init__(self, root: Path, trace: str) -> None:
        self.live: set[Path] = set()
        self.durable: set[Path] = set()
        self._root = root
        for line in trace.splitlines():
            if call := _CALL.match(line):
                self._take(call[1], call[2])

    @property
    def in_doubt(self) -> set[str]:
        """The entries that may vanish, or come back."""
        return {str(path.relative_to(self._root)) for path in self.live ^ self.durable}

    def _take(self, call: str, arguments: str) -> None:
        places = [Path(inside or "/") / name for inside, name in _PLACE.findall(arguments)]
        if call in ("fsync", "fdatasync"):
            if synced := _SYNCED.match(arguments):
                self._sync(Path(synced[1]))
        elif call.startswith(("rename", "unlink")):
            self.live.discard(places[0])
        makes = (call == "openat" and "O_CREAT" in arguments) or call.startswith(("mkdir", "rename", "link"))
        if makes and self._root in places[-1].parents:
            self.live.add(places[-1])

    def _sync(self, directory: Path) -> None:
        self.durable = {name for name in self.durable if name.parent != directory}
        self.durable |= {name for name in self.live if name.parent == directory}
