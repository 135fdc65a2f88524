"""All dead letters, and the page of one."""

import json

from recapito.portal import format
from recapito.portal.layout import Crumb
from recapito.portal.page import Page
from recapito.portal.panels.attempts import utc
from recapito.portal.panels.dead_letters import DeadLetterList
from recapito.portal.urls import explain_path
from recapito.portal.widgets.pieces import Fact, bar, button, code, facts, panel


async def build_list(page: Page) -> None:
    """All dead letters of the server."""
    page.layout("Dead letters", "/dead-letters")
    with panel():
        letters = DeadLetterList(page)
    await page.soon(letters.refresh)


async def build_one(page: Page) -> None:
    """One dead letter, with its event as it was buried."""
    letter = await page.server.letter(page.request.path_params["name"])
    id = letter.get("eventId") or ""
    page.layout(f"Dead letter {id}", "/dead-letters", Crumb("Dead letters", "/dead-letters"))
    now = (await page.server.clock()).now

    async def redrive() -> None:
        done = await page.server.turn("redrive", {"name": letter["name"]})
        if done.done:
            page.say("Redriven: it is delivered to its subscription again.")
        else:
            page.complain("; ".join(done.problems))

    with panel("Letter"):
        facts(
            [
                Fact("Event", id, explain_path(id, letter["topic"]), copy=id),
                Fact("Type", letter["eventType"] or ""),
                Fact("Subject", letter["subject"] or ""),
                Fact("Subscription", f"{letter['topic']} / {letter['subscription']}"),
                Fact("Reason", letter["reason"] or ""),
                Fact("Attempts", str(letter["deliveryAttempts"])),
                Fact("Last outcome", letter["lastDeliveryOutcome"] or ""),
                Fact("Published", format.relative(letter["publishTime"], now), title=utc(letter["publishTime"])),
                Fact("Kept in", f"{letter['container']} / {letter['path']}"),
                _redriven(letter["redriven"], now),
            ]
        )
        if not letter["redriven"]:
            with bar("end"):
                button("Redrive", page.doing(redrive), "primary")
    with panel("As it was buried"):
        code(json.dumps(letter["record"], indent=2, ensure_ascii=False))


def _redriven(mark: dict[str, str] | None, now: str) -> Fact:
    if mark is None:
        return Fact("Redriven", "no")
    return Fact("Redriven", format.relative(mark["at"], now), title=utc(mark["at"]))
