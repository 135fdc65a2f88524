"""A wrong name in the words of an error: the known name that is most like it, or all known names."""

from collections.abc import Iterable


def nearest(wrong: str, known: Iterable[str], form: str = "{}") -> str:
    """The end of an error about a wrong name."""
    from difflib import get_close_matches  # commands start without it

    names = list(known)
    found = get_close_matches(wrong, names, 1)
    if found:
        return f"; did you mean {form.format(found[0])}?"
    return f"; known: {', '.join(names)}"
