"""The errors for what is not there, in the words that ARM's clients know."""

from recapito.errors import NotFound

_CHARS = 100


def group_missing(name: str) -> NotFound:
    """A resource group is not there."""
    return NotFound("ResourceGroupNotFound", f"Resource group '{name[:_CHARS]}' could not be found.")


def resource_missing(type: str, name: str, group: str) -> NotFound:
    """A resource is not there, though its group is."""
    return NotFound(
        "ResourceNotFound",
        f"The Resource '{type}/{name[:_CHARS]}' under resource group '{group[:_CHARS]}' was not found.",
    )


def parent_missing(type: str, parent: str) -> NotFound:
    """What a resource would belong to is not there."""
    return NotFound(
        "ParentResourceNotFound",
        f"Can not find or make a resource of type '{type}': its parent resource '{parent[: 4 * _CHARS]}' "
        "could not be found.",
    )


def subscription_missing(name: str) -> NotFound:
    """An event subscription is not there, though its topic is."""
    return NotFound("ResourceNotFound", f"Event subscription '{name[:_CHARS]}' was not found.")
