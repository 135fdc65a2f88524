"""The page of a resource; its id decides which page that is."""

from recapito.portal.client import RequestRefused
from recapito.portal.page import Page
from recapito.portal.pages import subscription, subscription_form, topic, topic_form
from recapito.portal.urls import read_id


async def build(page: Page) -> None:
    """Build the page of a topic or a subscription."""
    address = read_id("/" + page.request.path_params["id"])
    if address is None:
        raise RequestRefused(404, "NotFound", "This is not the id of a topic, a domain or an event subscription.", None)
    if address.subscription is not None:
        await subscription.build(page, address)
    else:
        await topic.build(page, address)


async def build_edit(page: Page) -> None:
    """Build the page on which a resource is changed."""
    address = read_id("/" + page.request.path_params["id"])
    if address is None or (address.subscription is None and address.kind != "topics"):
        raise RequestRefused(404, "NotFound", "This resource cannot be changed here.", None)
    if address.subscription is not None:
        await subscription_form.build_edit(page, address)
    else:
        await topic_form.build_edit(page, address)
