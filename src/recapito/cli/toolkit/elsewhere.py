"""Words in the wrong place of a command line: flags in front of the command, and commands that are elsewhere."""

from collections.abc import Container, Sequence

ELSEWHERE = {
    "advance": "clock advance",
    "purge": "deadletter purge",
    "redrive": "deadletter redrive",
    "replay": "deadletter redrive",
    "resend": "deadletter redrive",
    "retry": "deadletter redrive",
    "run": "serve",
    "start": "serve",
    "status": "doctor",
    "subscription": "event-subscription",
    "until-idle": "clock until-idle",
}
"""Words that people try as commands, and the command that they mean."""


def place_of(word: str, group: str, top: Container[str]) -> str | None:
    """The remedy for a word that is no command of a group; None if there is none. `top` are the commands of all."""
    if word in ("az", "eventgrid"):
        return "Leave out `az eventgrid`: `recapito topic list` is `az eventgrid topic list`."
    if group and word in top:
        return f"Run `recapito {word}`."
    return f"Run `recapito {ELSEWHERE[word]}`." if word in ELSEWHERE else None


def put_flags_last(words: Sequence[str], valued: Container[str], switches: Container[str]) -> list[str]:
    """The words with the common flags that stand before the command behind it, where its own flags are.

    `valued` are those that have a value. What follows `--` stays last.
    """
    moved: list[str] = []
    rest = list(words)
    while rest:
        name, equals, _ = rest[0].partition("=")
        if name in switches or (name in valued and equals):
            moved.append(rest.pop(0))
        elif name in valued and len(rest) > 1:
            moved += [rest.pop(0), rest.pop(0)]
        else:
            break
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *moved, *rest[end:]]
