"""Errors, split by whose fault they are: the caller's, ours, or the settings'.

A failed delivery is none of these: it is an `Outcome`, a value.
"""


class CallerError(Exception):
    """The request is wrong. `code` and the message are safe to show; `target` names the field."""

    def __init__(self, code: str, message: str, target: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.target = target


class InvalidInput(CallerError):
    """A field, a body or a setting of a resource is wrong."""


class NotFound(CallerError):
    """The named resource does not exist."""


class Gone(CallerError):
    """The named resource existed, and its time is over."""


class Conflict(CallerError):
    """The resource exists already, or changed since the caller read it."""


class PreconditionFailed(CallerError):
    """The resource is not in the state that the caller requires."""


class Unauthorized(CallerError):
    """The caller is unknown or has no right. One text for every reason."""


class TooLarge(CallerError):
    """The body, an event or the number of events is over its limit."""


class LoopDetected(CallerError):
    """Forwarded events came by this topic before."""


class Busy(Exception):
    """The server cannot take the request now; the caller should repeat it after `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s


class TooManyRequests(Busy):
    """The topic's rate is exceeded."""


class StoreFailed(Exception):
    """A commit failed. Whether its content was written is unknown."""


class AppendFailed(StoreFailed):
    """The commit of a publish failed: whether its events are stored is unknown."""


class StoreDamaged(StoreFailed):
    """A file of the store is damaged: trying again does not help."""


class RecordDamaged(StoreFailed):
    """The record of one topic, subscription or document is damaged, others are not. The message may be shown."""


class StoreLost(StoreFailed):
    """Another node owns the store now: nothing was written, and nothing can be written here before the next claim."""


class StoreStale(Exception):
    """A settlement carried an old version of its lane: another settlement came first."""


class SettingsError(Exception):
    """A setting is wrong or the machine lacks something; the message names the key or the path."""


class VolumeFull(SettingsError):
    """There is no room to open a file. Once there is, starting again helps."""


class PeersFailed(Exception):
    """The nodes of the cluster cannot be reached, or the outcome of a change is unknown."""


class ClusterUnreachable(SettingsError):
    """The servers of the cluster do not answer. Once they do, starting again helps."""
