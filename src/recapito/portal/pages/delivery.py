"""Recent deliveries of all subscriptions."""

from recapito.portal.page import Page
from recapito.portal.panels.attempts import recent_deliveries
from recapito.portal.widgets.pieces import bar, link_button, panel, text


async def build(page: Page) -> None:
    """Build the page."""
    page.layout("Deliveries", "/deliveries", heading=False)
    with bar("head"):
        text("h1", "Deliveries")
        link_button("Explain an event", "/explain")
    with panel():
        listing = recent_deliveries(page)
    await listing.refresh()
    page.poll(listing.refresh)
