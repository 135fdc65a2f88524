"""If-Match and If-None-Match: in which state a caller wants to change a resource. A resource's ETag is its version."""

from typing import NamedTuple

from recapito.errors import PreconditionFailed

ANY = "*"


class Precondition(NamedTuple):
    """What the caller demands: one of these tags, or none of those. Nothing demanded always holds."""

    match: tuple[str, ...] = ()
    none_match: tuple[str, ...] = ()

    def check(self, version: int | None) -> None:
        """Raise PreconditionFailed unless the resource is in the wanted state; None is a resource that is not there."""
        if self.match and not _is_among(version, self.match):
            raise PreconditionFailed(
                "PreconditionFailed", "The resource is not there, or changed since it was read.", "If-Match"
            )
        if self.none_match and _is_among(version, self.none_match):
            raise PreconditionFailed("PreconditionFailed", "The resource exists already.", "If-None-Match")


UNCONDITIONAL = Precondition()


def _is_among(version: int | None, tags: tuple[str, ...]) -> bool:
    return version is not None and (ANY in tags or str(version) in tags)
