"""The types of system topics: which Azure resources publish events by themselves, and which events those are."""

from typing import NamedTuple


class EventType(NamedTuple):
    """One type of event. A subscription that names no types gets it if `default` is true."""

    name: str
    title: str
    description: str
    default: bool = True


class TopicType(NamedTuple):
    """One type of system topic; `resource_type` is that of its sources."""

    name: str
    provider: str
    resource_type: str
    title: str
    description: str
    events: tuple[EventType, ...]


STORAGE = TopicType(
    "Microsoft.Storage.StorageAccounts",
    "Microsoft.Storage",
    "Microsoft.Storage/storageAccounts",
    "Storage Accounts",
    "Events of a storage account.",
    (
        EventType("Microsoft.Storage.BlobCreated", "Blob Created", "A blob was created or replaced."),
        EventType("Microsoft.Storage.BlobDeleted", "Blob Deleted", "A blob was deleted."),
        EventType("Microsoft.Storage.BlobRenamed", "Blob Renamed", "A blob was renamed.", False),
        EventType("Microsoft.Storage.BlobTierChanged", "Blob Tier Changed", "A blob moved to another tier.", False),
        EventType(
            "Microsoft.Storage.AsyncOperationInitiated",
            "Async Operation Initiated",
            "A blob began to move out of the archive.",
            False,
        ),
        EventType("Microsoft.Storage.DirectoryCreated", "Directory Created", "A directory was created.", False),
        EventType("Microsoft.Storage.DirectoryDeleted", "Directory Deleted", "A directory was deleted.", False),
        EventType("Microsoft.Storage.DirectoryRenamed", "Directory Renamed", "A directory was renamed.", False),
        EventType(
            "Microsoft.Storage.BlobInventoryPolicyCompleted",
            "Blob Inventory Completed",
            "A run of a blob inventory policy ended.",
            False,
        ),
        EventType(
            "Microsoft.Storage.LifecyclePolicyCompleted",
            "Lifecycle Policy Completed",
            "A run of a lifecycle policy ended.",
            False,
        ),
    ),
)
TOPIC_TYPES = (STORAGE,)


def topic_type(name: str) -> TopicType | None:
    """The type of that name, without regard to case."""
    return next((one for one in TOPIC_TYPES if one.name.lower() == name.lower()), None)
