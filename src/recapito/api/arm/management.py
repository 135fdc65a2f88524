"""Management: all resources under ARM's paths, with the statuses that the Azure SDKs accept."""

from recapito.api.arm.catalog_routes import CatalogManagement
from recapito.api.arm.domain_topics import DomainTopicManagement
from recapito.api.arm.groups import GroupManagement
from recapito.api.arm.resources import ResourceList
from recapito.api.arm.routing import ArmRoute
from recapito.api.arm.storage_accounts import StorageManagement
from recapito.api.arm.subscription_lists import SubscriptionLists
from recapito.api.arm.subscriptions import SubscriptionManagement
from recapito.api.arm.topics import TopicManagement
from recapito.api.body import BodyReader
from recapito.api.services import Services

# The paths of scopes match much, so they come last.
_PARTS = (
    GroupManagement,
    TopicManagement,
    DomainTopicManagement,
    StorageManagement,
    ResourceList,
    SubscriptionLists,
    CatalogManagement,
    SubscriptionManagement,
)


class Management:
    """Every part of the management API."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._parts = [part(services, bodies) for part in _PARTS]

    def routes(self) -> list[ArmRoute]:
        """Every path, with its methods."""
        return [route for part in self._parts for route in part.routes()]
