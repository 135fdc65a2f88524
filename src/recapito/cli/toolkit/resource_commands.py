"""The verbs that topics, domains and system topics share: show, list, delete, and those of keys."""

from typing import Any, ClassVar

from recapito.cli.toolkit import flags
from recapito.cli.toolkit.lazy import LazyGroup, LazyTarget
from recapito.cli.toolkit.session import PROVIDER
from recapito.cli.toolkit.verb import CommandSession, Noun


class Subscribed(LazyGroup):
    """The commands of what can be subscribed to: az has those of event subscriptions below each such noun."""

    table: ClassVar = {"event-subscription": LazyTarget("event_subscription", "app", "Manage event subscriptions.")}


class Resources:
    """The resources of one kind, by the kind's name in a path."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def put(
        self, session: CommandSession, name: str | None, group: str | None, body: dict[str, Any], no_wait: bool
    ) -> Any:
        """Create or replace one."""
        return session.put(self.path(session, name, group), body, not no_wait)

    def patch(
        self, session: CommandSession, name: str | None, group: str | None, body: dict[str, Any], no_wait: bool
    ) -> Any:
        """Change one."""
        return session.patch(self.path(session, name, group), body, not no_wait)

    def path(self, session: CommandSession, name: str | None, group: str | None) -> str:
        """Where one is; that it has a name was checked with the flags."""
        return session.path(self._kind, name or "", group)

    def add_verbs(self, noun: Noun, title: str) -> None:
        """Add the verbs that are the same for every kind."""

        def show(session: CommandSession, name: flags.NameOrId = None, group: flags.Group = None) -> Any:
            return session.client.arm("GET", self.path(session, name, group))

        def list_all(session: CommandSession, group: flags.Group = None, filter: flags.Filter = None) -> Any:
            within = session.in_subscription if group is None else session.group(group)
            return session.client.list(f"{within}{PROVIDER}/{self._kind}", filter)

        def delete(session: CommandSession, name: flags.NameOrId = None, group: flags.Group = None) -> Any:
            return session.client.arm("DELETE", self.path(session, name, group))

        show.__doc__ = f"Show a {title}."
        list_all.__doc__ = f"List all {title}s, or those of a group."
        delete.__doc__ = f"Delete a {title} and all its event subscriptions."
        noun.verb("show")(show)
        noun.verb("list")(list_all)
        noun.verb("delete")(delete)

    def add_key_verbs(self, noun: Noun) -> None:
        """Add the verbs of keys."""

        def list_keys(session: CommandSession, name: flags.NameOrId = None, group: flags.Group = None) -> Any:
            """Show both keys."""
            return session.client.arm("POST", f"{self.path(session, name, group)}/listKeys")

        def regenerate(
            session: CommandSession,
            key_name: flags.KeyName,
            name: flags.NameOrId = None,
            group: flags.Group = None,
        ) -> Any:
            """Regenerate a key; the old one stops working at once."""
            path = f"{self.path(session, name, group)}/regenerateKey"
            return session.client.arm("POST", path, {"keyName": key_name})

        noun.verb("list")(list_keys)
        noun.verb("regenerate")(regenerate)
