"""Management: all resources under ARM's paths, with the statuses that the Azure SDKs accept."""

from recapito.api.arm import ArmRoute
from recapito.api.body import BodyReader
from recapito.api.manage_catalog import CatalogManagement
from recapito.api.manage_domain_topic import DomainTopicManagement
from recapito.api.manage_group import GroupManagement
from recapito.api.manage_list import SubscriptionLists
from recapito.api.manage_resource import ResourceList
from recapito.api.manage_storage import StorageManagement
from recapito.api.manage_subscription import SubscriptionManagement
from recapito.api.manage_topic import TopicManagement
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
