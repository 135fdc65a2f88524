"""The name of an Azure resource as Azure Resource Manager writes it; two that differ in case alone are one."""

import re
from typing import NamedTuple

from recapito.domain import limits
from recapito.errors import InvalidInput

_SHAPE = re.compile(
    r"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/([^/]+)((?:/[^/]+/[^/]+)+)/?", re.IGNORECASE
)
_NEVER = re.compile(r"[\s?#%\\\x00-\x1f\x7f]")
EXAMPLE = "/subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Storage/storageAccounts/<name>"

STORAGE_ACCOUNT = "microsoft.storage/storageaccounts"
BLOB_CONTAINER = f"{STORAGE_ACCOUNT}/blobservices/containers"
QUEUE = f"{STORAGE_ACCOUNT}/queueservices/queues"
FUNCTION_APP = "microsoft.web/sites"
FUNCTION = f"{FUNCTION_APP}/functions"
RELAY_NAMESPACE = "microsoft.relay/namespaces"
HYBRID_CONNECTION = f"{RELAY_NAMESPACE}/hybridconnections"
SERVICE_BUS_NAMESPACE = "microsoft.servicebus/namespaces"
SERVICE_BUS_QUEUE = f"{SERVICE_BUS_NAMESPACE}/queues"
SERVICE_BUS_TOPIC = f"{SERVICE_BUS_NAMESPACE}/topics"
EVENT_HUBS_NAMESPACE = "microsoft.eventhub/namespaces"
EVENT_HUB = f"{EVENT_HUBS_NAMESPACE}/eventhubs"
EVENT_GRID_TOPIC = "microsoft.eventgrid/topics"
EVENT_GRID_DOMAIN = "microsoft.eventgrid/domains"
EVENT_GRID_DOMAIN_TOPIC = f"{EVENT_GRID_DOMAIN}/topics"
EVENT_GRID_NAMESPACE = "microsoft.eventgrid/namespaces"
EVENT_GRID_NAMESPACE_TOPIC = f"{EVENT_GRID_NAMESPACE}/topics"


class ResourceId(NamedTuple):
    """A parsed resource id: `kind` is the provider and the types on the way, in lower case."""

    text: str
    kind: str
    names: tuple[str, ...]

    @property
    def key(self) -> str:
        """The key by which resources are compared."""
        return self.text.lower()

    @property
    def name(self) -> str:
        """The last name in it."""
        return self.names[-1]

    @property
    def top(self) -> "ResourceId":
        """The resource directly in the group, of which this is a part: an account or a namespace."""
        head, _, provider = self.text.lower().partition("/providers/")
        depth = len(head) + len("/providers/") + len("/".join(provider.split("/")[:3]))
        return ResourceId(self.text[:depth], "/".join(self.kind.split("/")[:2]), self.names[:1])


def parse_resource_id(text: str, target: str = "resourceId") -> ResourceId:
    """The resource that a text names; InvalidInput if the text is no resource id."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or len(text) > limits.RESOURCE_ID_CHARS or _NEVER.search(text):
        raise InvalidInput(
            "InvalidRequest", f"'{target}' is not the id of an Azure resource; one looks like {EXAMPLE}.", target
        )
    steps = shape[4].strip("/").split("/")
    return ResourceId(text.rstrip("/"), "/".join([shape[3], *steps[::2]]).lower(), tuple(steps[1::2]))


def container_id(account: str, container: str) -> str:
    """The id of a blob container of a storage account."""
    return f"{account}/blobServices/default/containers/{container}"


def queue_id(account: str, queue: str) -> str:
    """The id of a queue of a storage account."""
    return f"{account}/queueServices/default/queues/{queue}"
