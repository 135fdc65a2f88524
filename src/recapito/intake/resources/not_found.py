"""Errors for resources that do not exist, in the words that ARM's clients know."""

from recapito.errors import NotFound

_CHARS = 100


def group_missing(name: str) -> NotFound:
    return NotFound("ResourceGroupNotFound", f"Resource group '{name[:_CHARS]}' could not be found.")


def resource_missing(type: str, name: str, group: str) -> NotFound:
    """The error for a resource that does not exist in an existing group."""
    return NotFound(
        "ResourceNotFound",
        f"The Resource '{type}/{name[:_CHARS]}' under resource group '{group[:_CHARS]}' was not found.",
    )


def parent_missing(type: str, parent: str) -> NotFound:
    """The error for a resource whose parent does not exist."""
    return NotFound(
        "ParentResourceNotFound",
        f"Cannot find or create a resource of type '{type}': its parent resource '{parent[: 4 * _CHARS]}' "
        "could not be found.",
    )


def subscription_missing(name: str) -> NotFound:
    """The error for an event subscription that does not exist on an existing topic."""
    return NotFound("ResourceNotFound", f"Event subscription '{name[:_CHARS]}' was not found.")
