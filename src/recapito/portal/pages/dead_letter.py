"""All dead letters, and the page of one."""

import json

from recapito.portal import format
from recapito.portal.layout import Crumb
from recapito.portal.page import Page
from recapito.portal.panels.dead_letters import DeadLetterList
from recapito.portal.urls import explain_path
from recapito.portal.widgets.pieces import Fact, code, facts, panel


async def build_list(page: Page) -> None:
    """All dead letters of the server."""
    page.layout("Dead letters", "/dead-letters")
    with panel():
        letters = DeadLetterList(page)
    await letters.listing.refresh()


async def build_one(page: Page) -> None:
    """One dead letter, with its event as it was buried."""
    letter = await page.server.letter(page.request.path_params["name"])
    id = letter.get("eventId") or ""
    page.layout(f"Dead letter {id}", "/dead-letters", Crumb("Dead letters", "/dead-letters"))
    with panel("Letter"):
        facts(
            [
                Fact("Event", id, explain_path(id, letter["topic"])),
                Fact("Subscription", f"{letter['topic']} / {letter['subscription']}"),
                Fact("Reason", letter["reason"] or ""),
                Fact("Attempts", str(letter["deliveryAttempts"])),
                Fact("Last outcome", letter["lastDeliveryOutcome"] or ""),
                Fact("Published", format.instant(letter["publishTime"])),
                Fact("Kept in", f"{letter['container']} / {letter['path']}"),
                Fact("Redriven", format.instant(letter["redriven"]["at"]) if letter["redriven"] else "no"),
            ]
        )
    with panel("As it was buried"):
        code(json.dumps(letter["record"], indent=2, ensure_ascii=False))
