"""Management: all resources under ARM's paths, with the statuses that the Azure SDKs accept."""

from recapito.api.arm import ArmRoute
from recapito.api.body import BodyReader
from recapito.api.manage_subscription import SubscriptionManagement
from recapito.api.manage_topic import TopicManagement
from recapito.api.services import Services


class Management:
    """Every part of the management API."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._parts = (TopicManagement(services, bodies), SubscriptionManagement(services, bodies))

    def routes(self) -> list[ArmRoute]:
        """Every path, with its methods. The paths of scopes match much, so they come last."""
        return [route for part in self._parts for route in part.routes()]
