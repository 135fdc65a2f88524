"""A custom topic: where events are published to."""

from typing import Any

import msgspec


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. `id` is ours and never reused; `name` is unique, without regard to case, while the topic lives.

    `profile` names the topic's own behaviour profile, None is the server's; it comes from the tag
    `recapito-profile`. `version` changes with every put and is the ETag.
    """

    id: int = 0
    version: int = 0
    name: str
    azure_subscription: str
    resource_group: str
    location: str
    tags: dict[str, str] = {}
    profile: str | None = None
    key1: str
    key2: str
    created_at: int
    modified_at: int

    @property
    def resource_id(self) -> str:
        """The ARM id, which is also the `topic` of every event."""
        return (
            f"/subscriptions/{self.azure_subscription}/resourceGroups/{self.resource_group}"
            f"/providers/Microsoft.EventGrid/topics/{self.name}"
        )

    def __repr__(self) -> str:
        return f"<Topic {self.id} {self.name}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("id", self.id), ("name", self.name)]  # msgspec's own would show the keys in a pretty traceback
