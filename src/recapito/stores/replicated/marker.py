"""The marker of a node: a synced file with the facts about a stream that the node has seen.

Streams have vanished, or begun at 0 again, after two of three servers lost their disks. The marker outlives that: a
stream that is younger than it, or shorter, is refused, and never created anew.
"""

from pathlib import Path

import msgspec

from recapito.contracts.stream import StreamState
from recapito.errors import SettingsError, StoreDamaged, StoreFailed
from recapito.system import secret_file

REMEDY = "stop all nodes, do not create it anew, and restore the servers' data or a backup"


class Seen(msgspec.Struct, frozen=True):
    """A stream: its birth, the id of its log, and the last sequence that this node has published or read."""

    created: int
    log_id: str
    sequence: int = 0


_decode = msgspec.json.Decoder(Seen).decode


class Marker:
    """The marker of one stream, in the file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seen = _read(path)

    def check(self, name: str, state: StreamState) -> None:
        """Refuse a stream that is not the one that was seen; remember one that is seen for the first time.

        StoreFailed: it seems shorter, which a former leader may also report. StoreDamaged: it is another one.
        """
        if self.seen is None:
            self._write(Seen(state.created, state.log_id))
            return
        if (state.created, state.log_id) != (self.seen.created, self.seen.log_id):
            raise StoreDamaged(f"stream {name} is not the one that this node has seen, it was made again: {REMEDY}")
        if state.last < self.seen.sequence:
            why = f"it ends at {state.last}, and {self.seen.sequence} was acknowledged"
            raise StoreFailed(f"stream {name} is shorter than this node has seen: {why}. If that stays: {REMEDY}")

    def move(self, sequence: int) -> None:
        """Remember, durably, that the stream has reached a sequence."""
        if self.seen is not None and sequence > self.seen.sequence:
            self._write(msgspec.structs.replace(self.seen, sequence=sequence))

    def _write(self, seen: Seen) -> None:
        self.seen = seen
        secret_file.write(self._path, msgspec.json.encode(seen))


def _read(path: Path) -> Seen | None:
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError(
            f"{path} cannot be read: {error}. Without it a lost stream would not be noticed."
        ) from error
