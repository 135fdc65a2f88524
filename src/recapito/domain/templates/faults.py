"""The one error of templates and estate files. Its target is the path of a key in the document."""

from difflib import get_close_matches

from recapito.errors import InvalidInput


class DocumentFault(InvalidInput):
    """A document is wrong at `target`, a path such as `topics[0].subscriptions[1].endpoint`; the whole is refused."""

    def __init__(self, message: str, target: str, code: str = "InvalidTemplate") -> None:
        super().__init__(code, message, target)

    @property
    def path(self) -> str:
        return self.target or ""


class ReferenceNeeded(Exception):
    """An expression asks for the state of a resource that the caller has not supplied yet."""

    def __init__(self, resource_id: str, verb: str) -> None:
        super().__init__(f"{verb} of {resource_id}")
        self.resource_id = resource_id
        self.verb = verb


def at(path: str, key: str | int) -> str:
    """The path of a member."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def nearest(name: str, known: list[str]) -> str:
    """A hint at the known name that was probably meant, or at all of them."""
    lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), list(lower), 1)
    return f"Did you mean '{lower[close[0]]}'?" if close else f"Known: {', '.join(sorted(known))}."
