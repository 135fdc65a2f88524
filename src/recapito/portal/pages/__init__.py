"""The pages, one a file, and the paths that they are at. A resource's page has its resource id for a path."""

from collections.abc import Awaitable, Callable

from recapito.portal.page import Page
from recapito.portal.pages import (
    clock,
    dead_letter,
    delivery,
    explain,
    overview,
    resource,
    subscription_form,
    topic_form,
    topics,
)

PAGES: dict[str, Callable[[Page], Awaitable[None]]] = {
    "/": overview.build,
    "/topics": topics.build_topics,
    "/domains": topics.build_domains,
    "/system-topics": topics.build_system_topics,
    "/new-topic": topic_form.build_new,
    "/resource/{id:path}": resource.build,
    "/edit/{id:path}": resource.build_edit,
    "/new-subscription/{id:path}": subscription_form.build_new,
    "/deliveries": delivery.build,
    "/explain": explain.build,
    "/dead-letters": dead_letter.build_list,
    "/dead-letter/{name:path}": dead_letter.build_one,
    "/clock": clock.build,
}
