"""Dead letters as lines for people: a letter's name on a line of its own, to be copied, and its contents below.

All words of others, of events, names and answers, are shown as text.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from recapito.cli.text.terminal import bold, visible
from recapito.cli.text.time import show_moments

Wire = Mapping[str, Any]


def dead_letter_lines(letters: Any) -> Iterator[str]:
    """One letter after the other."""
    for letter in letters:
        yield bold(visible(letter["name"]))
        owner = f"{letter['topic']}/{letter['subscription']}"
        yield visible(f"  {owner}  {letter['eventType']}  {letter['subject']}  {letter['eventId']}")
        yield visible(f"  {_why(letter)}")
    if not letters:
        yield "There are no such dead letters."


def _why(letter: Wire) -> str:
    """Why it was given up, when it was published, and whether it was redriven since; others write letters without."""
    tried = letter["deliveryAttempts"]
    times = f"{tried} attempt{'' if tried == 1 else 's'}"
    published = show_moments(f", published {letter['publishTime']}") if letter["publishTime"] else ""
    redriven = show_moments(f", redriven {letter['redriven']['at']}") if letter["redriven"] else ""
    outcome = f": {letter['lastDeliveryOutcome']} after {times}" if tried else ""
    return f"{letter['reason'] or 'no reason is given'}{outcome}{published}{redriven}"
