"""The page of the server's clock; a manual one is moved here."""

from recapito.portal import format
from recapito.portal.page import Page
from recapito.portal.panels.clock import clock_panel
from recapito.portal.widgets.pieces import panel, text


async def build(page: Page) -> None:
    """Build the page."""
    page.layout("Clock", "/clock")
    clock = await page.server.clock()
    if clock.manual:
        show = clock_panel(page)
        await show()
        page.poll(show)
        return
    with panel():
        text("p", f"The clock is {clock.mode}: {format.instant(clock.now)} UTC.")
        text("p", "Start the server with --clock manual to move time by hand, for tests and rehearsals.", "muted")
