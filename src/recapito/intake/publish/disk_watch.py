"""Free space of the store: intake closes before its volume is full, so that dispatch can go on draining.

Before each commit intake asks whether it fits. Written bytes take room twice for a while: in the WAL and, once that is
copied, in the file, unless the file has free pages for them. On a cluster the stream of the log has a bound of its own,
which is judged apart: it says nothing about the disk.
"""

from collections.abc import Callable

from recapito.domain import limits
from recapito.domain.capacity import Space, share_out
from recapito.observability.journal import Journal, silent

WARN_FRACTION = 0.20


class DiskWatch:
    """Opens and closes intake by the free space.

    space: measures the volume and checks the files for loss and damage.
    close_fraction, close_bytes: intake closes when less than this is free; the stricter one counts.
    journal: gets one line for each change.
    measure: a cheaper `space` for each commit, without the check of the files.
    """

    def __init__(
        self,
        space: Callable[[], Space],
        close_fraction: float = limits.DISK_STOP_FRACTION,
        close_bytes: int = limits.DISK_STOP_BYTES,
        journal: Journal = silent,
        measure: Callable[[], Space] | None = None,
    ) -> None:
        self._space = space
        self._measure = measure or space
        self._harmed = False
        self._close_fraction = close_fraction
        self._close_bytes = close_bytes
        self._journal = journal
        self._low = self._stream_low = False
        self._by_stream = False
        self._reason: str | None = None

    def reason(self) -> str | None:
        """The reason why intake is closed, as of the last look; None while it is open."""
        return self._reason

    def reserve(self, size: int) -> str | None:
        """The reason why N bytes may not be written now; None if they may. A refusal closes intake."""
        if not self._harmed:
            self._judge(self._measure(), size)
        return self._reason

    def look(self) -> None:
        """Measure; close below the limit, reopen only well above it, and write each change to the journal."""
        space = self._space()
        self._harmed = bool(space.lost or space.damage)
        self._judge(space)
        low = space.usable < space.total * WARN_FRACTION
        if low and not self._low:
            self._journal("disk.low", free=space.free, total=space.total)
        self._low = low
        stream = space.stream
        stream_low = stream is not None and stream.left < stream.bound * WARN_FRACTION
        if stream is not None and stream_low and not self._stream_low:
            self._journal("stream.low", stream=stream.stream, left=stream.left, bound=stream.bound)
        self._stream_low = stream_low

    def _judge(self, space: Space, size: int = 0) -> None:
        shares, stream = share_out(space.total, self._close_fraction, self._close_bytes), space.stream
        if space.lost:
            self._lose(space.lost)
        elif space.damage:
            self._reason = space.damage
        elif self._reason is not None:
            enough = stream is None or stream.fits(max(size, stream.bound // 32))
            if enough and space.fits(max(size, shares.stop // 8), shares):
                self._reason = None
                self._tell_reopened(space, shares.stop)
        elif not space.fits(size, shares):
            self._by_stream = False
            self._reason = f"The disk is nearly full: {space.free // limits.MB} MB are free."
            self._journal("disk.full", free=space.free, total=space.total, limit=shares.stop, wanted=size)
        elif stream is not None and not stream.fits(size):
            self._by_stream = True
            self._reason = (
                f"Stream {stream.stream} is nearly full: edit it to have a larger max_bytes, on servers with room."
            )
            self._journal("stream.full", stream=stream.stream, left=stream.left, bound=stream.bound, wanted=size)

    def _tell_reopened(self, space: Space, limit: int) -> None:
        if self._by_stream and space.stream is not None:
            self._journal("stream.reopened", stream=space.stream.stream, left=space.stream.left)
        else:
            self._journal("disk.reopened", free=space.free, total=space.total, limit=limit)

    def _lose(self, file: str) -> None:
        """A file without a name disappears with the process, and its contents with it: nothing more is accepted."""
        reason = f"{file} was removed from the data directory: put it back, or stop the server and restore a backup."
        if reason != self._reason:
            self._journal("store.lost", file=file)
        self._reason = reason
