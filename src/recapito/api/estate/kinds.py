"""The kinds of resources in a document: read by the rules of requests, compared with the stored ones, put, deleted.

The target of an error is the path of the key in the document.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from recapito.api.arm.groups import read_group
from recapito.api.arm.storage_accounts import read_account
from recapito.api.estate.address import ResourceAddress, Stage, address_of
from recapito.api.estate.schema import names_of
from recapito.api.operate.connections import ConnectionBody
from recapito.api.wire.decode import UNKNOWN, decode, did_you_mean, full_target, invalid
from recapito.api.wire.options import read_options
from recapito.api.wire.subscription import read_subscription
from recapito.api.wire.topic import read_topic
from recapito.clock import Clock
from recapito.connections.keyring import Keyring
from recapito.domain import limits
from recapito.domain.connections.choice import Choice, choose
from recapito.domain.events.input_mapping import InputMapping
from recapito.domain.handshake.consent import shown
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.domain.resources.topic_type import STORAGE
from recapito.domain.templates.faults import DocumentFault
from recapito.domain.templates.template import Declared
from recapito.errors import CallerError, NotFound, SettingsError
from recapito.intake.resources.drafts import Keys, SubscriptionDraft, TopicDraft
from recapito.intake.resources.not_found import parent_missing
from recapito.intake.resources.storage_accounts import StorageAccount
from recapito.intake.resources.subscription_options import OpenOptions, SubscriptionOptions
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Topics, is_at
from recapito.intake.resources.validation import DEFAULT_LOCATION, build_subscription

_TYPE = re.compile(r"/providers/([^/]+(?:/[^/]+)?)", re.IGNORECASE)
_SERVED = (*(f"Microsoft.EventGrid/{kind}" for kind in (*TopicKind, "eventSubscriptions")), STORAGE.resource_type)
_TOPIC_FIELDS = (
    *("azure_subscription", "resource_group", "location", "tags", "input_schema", "mapping", "local_auth"),
    *("public_access", "ip_rules", "domain", "source", "kept"),
)
_SUBSCRIPTION_FIELDS = (
    *("destination", "delivery_schema", "attributes", "batching", "retry_policy", "dead_letter", "filter", "labels"),
    *("expires_at", "kept"),
)
_SHOWN = {"local_auth": "disableLocalAuth", "public_access": "publicNetworkAccess", "ip_rules": "inboundIpRules"}


class Parts(NamedTuple):
    """The services that hold resources. `wall` is the clock of real time, by which credentials expire."""

    topics: Topics
    subscriptions: Subscriptions
    options: SubscriptionOptions
    keyring: Keyring
    clock: Clock
    wall: Clock


class TopicWish(NamedTuple):
    """A topic with the keys that it shall have."""

    draft: TopicDraft
    keys: Keys


class SubscriptionWish(NamedTuple):
    """A subscription with the options that it shall have; None leaves them as they are."""

    draft: SubscriptionDraft
    options: OpenOptions | None


class Wish(NamedTuple):
    """One resource of a document, read."""

    address: ResourceAddress
    draft: Any
    declared: Declared


@contextmanager
def blamed_on(declared: Declared) -> Iterator[None]:
    """Errors inside name the key in the document."""
    try:
        yield
    except DocumentFault:
        raise
    except CallerError as error:
        within = full_target(error.target, flat=False) or ""
        if declared.flat:
            within = within.removeprefix("properties.")
        message = error.message.replace("'properties.", "'") if declared.flat else error.message
        if declared.flat and message.endswith(UNKNOWN) and "." not in within:
            message += did_you_mean(within, names_of(declared.path))
        place = f"{declared.path}.{within}" if within else declared.path
        raise DocumentFault(message, place, error.code) from None


def read_wish(declared: Declared) -> Wish:
    """Read a resource; DocumentFault if its type is not served here, or if its body is wrong."""
    with blamed_on(declared):
        address = address_of(declared.id)
        if address is None and "/eventsubscriptions/" in declared.id.lower():
            raise invalid("This server has no events of that scope, so it cannot have subscriptions.", "scope")
        if address is None:
            found = _TYPE.search(declared.id)
            type = found[1] if found else declared.id
            near = [one for one in _SERVED if one.partition("/")[0].lower() == type.partition("/")[0].lower()]
            raise invalid(f"'{type}' is not a type that is served here.{did_you_mean(type, near)}", "type")
        return Wish(address, _read(address, dict(declared.body)), declared)


def _read(address: ResourceAddress, body: dict[str, Any]) -> Any:
    place = address.azure_subscription, address.group
    match address.stage:
        case Stage.GROUP:
            return read_group(_json(body))
        case Stage.ACCOUNT:
            subscription, group = place
            empty = StorageAccount(
                name=address.name, azure_subscription=subscription, resource_group=group, location=DEFAULT_LOCATION
            )
            return read_account(empty, _json(body))
        case Stage.CONNECTION:
            sent = decode(_json(body), ConnectionBody)
            return choose(
                address.name,
                Choice(
                    sent.connection_string,
                    sent.sas_url,
                    sent.host_url,
                    bool(sent.default_credential),
                    bool(sent.azurite),
                    sent.endpoints,
                ),
            )
        case Stage.TOPIC:
            keys = _read_keys(body.pop("keys", None))
            if keys != Keys() and address.kind is TopicKind.SYSTEM:
                raise invalid("A system topic has no keys.", "keys")
            return TopicWish(read_topic(address.kind, _json(body), *place, address.name), keys)
        case Stage.DOMAIN_TOPIC:
            return None
        case Stage.SUBSCRIPTION:
            options = body.get("options")
            inner = _json({"properties": body.get("properties")})
            draft = read_subscription(inner, address.name, address.domain_topic)
            return SubscriptionWish(draft, None if options is None else read_options(options))


def _read_keys(given: Any) -> Keys:
    if given is None:
        return Keys()
    if not isinstance(given, dict) or not set(given) <= {"key1", "key2"}:
        raise invalid("'keys' may have key1 and key2.", "keys")
    for name, key in given.items():
        least, most = limits.PUBLISH_KEY_CHARS
        if not isinstance(key, str):
            message = f"'keys.{name}' must be a text, or where it is: {{env: NAME}} or {{file: PATH}}."
            raise invalid(message, f"keys.{name}")
        if not least <= len(key) <= most or not _is_base64(key):
            message = f"'keys.{name}' must be {least} to {most} characters in base64, as from: openssl rand -base64 32"
            raise invalid(message, f"keys.{name}")
    return Keys(given.get("key1"), given.get("key2"))


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _json(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body)


class Kinds:
    """Compares, puts and deletes resources of every kind.

    moves_groups: groups here are copies, which may differ in their location from the copy that clients see.
    """

    def __init__(self, parts: Parts, moves_groups: bool = False) -> None:
        self.parts = parts
        self._moves_groups = moves_groups

    async def changes(self, wish: Wish) -> list[str] | None:
        """The properties that differ from the stored resource; None if there is none."""
        topics, address, draft = self.parts.topics, wish.address, wish.draft
        match address.stage:
            case Stage.GROUP:
                group = await topics.groups.find(address.azure_subscription, address.group)
                if group is None:
                    return None
                stored = {"location": group.location, "tags": group.tags, "managedBy": group.managed_by}
                return [name for name, new in zip(stored, draft, strict=True) if new not in (None, stored[name])]
            case Stage.ACCOUNT:
                account = await topics.accounts.find(address.name)
                return None if account is None else _differing(replace(account, created_at=0), draft)
            case Stage.CONNECTION:
                connection = await self.parts.keyring.get(address.name)
                return None if connection is None else _differing(connection, draft)
            case Stage.TOPIC:
                topic = await topics.find(address.name, address.kind)
                return None if topic is None else _topic_changes(topic, draft)
            case Stage.DOMAIN_TOPIC:
                domain = await self._topic(address)
                found = None if domain is None else await topics.domain_topics.find(domain, address.name)
                return None if found is None else []
        topic = await self._topic(address)
        subscription = None if topic is None else await self.find_subscription(topic, address)
        if topic is None or subscription is None:
            return None
        return self._subscription_changes(topic, subscription, draft)

    async def put(self, wish: Wish) -> None:
        """Store a resource as the document wants it."""
        topics, address, draft = self.parts.topics, wish.address, wish.draft
        match address.stage:
            case Stage.GROUP:
                location, tags, managed_by = draft
                place = address.azure_subscription, address.group
                await topics.groups.put(*place, location, tags, managed_by, self._moves_groups)
            case Stage.ACCOUNT:
                await topics.put_account(draft)
            case Stage.CONNECTION:
                await self.parts.keyring.set(draft, self.parts.wall.now())
            case Stage.TOPIC:
                await topics.put(draft.draft, keys=draft.keys)
            case Stage.DOMAIN_TOPIC:
                await topics.put_domain_topic(await self._existing(address), address.name)
            case Stage.SUBSCRIPTION:
                topic = await self._existing(address)
                options = None if draft.options is None else self.parts.options.change_to(draft.options)
                try:
                    await self.parts.subscriptions.put(topic, draft.draft, options=options)
                except CallerError:
                    await topics.tidy_system_topic(topic)
                    raise

    async def delete(self, address: ResourceAddress) -> None:
        """Delete a resource with everything in it."""
        topics = self.parts.topics
        match address.stage:
            case Stage.GROUP:
                await topics.delete_group(await topics.groups.get(address.azure_subscription, address.group))
            case Stage.ACCOUNT:
                account = await topics.accounts.get(address.azure_subscription, address.group, address.name)
                await topics.delete_account(account)
            case Stage.CONNECTION:
                await self.parts.keyring.remove(address.name)
            case Stage.TOPIC:
                topic = await topics.get(address.azure_subscription, address.group, address.name, address.kind)
                await topics.delete(topic)
            case Stage.DOMAIN_TOPIC:
                await topics.delete_domain_topic(await self._existing(address), address.name)
            case Stage.SUBSCRIPTION:
                topic = await self._existing(address)
                await self.parts.subscriptions.delete(topic, address.name, address.domain_topic)

    async def find_subscription(self, topic: Topic, address: ResourceAddress) -> Subscription | None:
        try:
            return await self.parts.subscriptions.get(topic, address.name, address.domain_topic)
        except NotFound:
            return None

    async def _topic(self, address: ResourceAddress) -> Topic | None:
        """The topic of a domain topic or a subscription."""
        if address.account:
            return await self.parts.topics.system_topic_of(address.account)
        topic = await self.parts.topics.find(address.topic, address.kind)
        there = topic is not None and is_at(topic, address.azure_subscription, address.group)
        return topic if there else None

    async def _existing(self, address: ResourceAddress) -> Topic:
        """That topic, or NotFound; an account's system topic is made."""
        topic = await self._topic(address)
        if topic is None and address.account:
            name = address.account.rpartition("/")[2]
            account = await self.parts.topics.accounts.get(address.azure_subscription, address.group, name)
            topic = await self.parts.topics.system_topic_for(account, make=True)
        if topic is None:
            raise parent_missing(address.type, address.id.rpartition("/")[0].rpartition("/")[0])
        return topic

    def _subscription_changes(self, topic: Topic, subscription: Subscription, wish: SubscriptionWish) -> list[str]:
        now = self.parts.clock.now()
        wanted = build_subscription(topic, self.parts.topics.profile_of(topic), subscription, wish.draft, now)
        changed = _differing(shown(subscription), wanted, _SUBSCRIPTION_FIELDS)
        changed += self._option_changes(subscription, wish.options)
        waiting = subscription.handshake
        if not changed and waiting is not None and waiting.until <= now:
            return ["consent"]  # its endpoint did not consent in time, so it is asked once more
        return changed

    def _option_changes(self, subscription: Subscription, wanted: OpenOptions | None) -> list[str]:
        if wanted is None:
            return []
        try:
            stored = self.parts.options.open(subscription)
        except SettingsError:  # a secret cannot be decrypted, and is replaced
            return ["options"]
        names = ("signingSecrets", "maxRequests", "eventsPerSecond")
        return [f"options.{name}" for name, old, new in zip(names, stored, wanted, strict=True) if old != new]


def _topic_changes(topic: Topic, wish: TopicWish) -> list[str]:
    draft, wanted = wish.draft, wish.draft.wanted
    wanted = replace(
        wanted,
        location=topic.location if draft.location is None else _same(topic.location, draft.location),
        input_schema=draft.input_schema or topic.input_schema,
        azure_subscription=_same(topic.azure_subscription, wanted.azure_subscription),
        resource_group=_same(topic.resource_group, wanted.resource_group),
    )
    if wanted.mapping is None and topic.mapping == InputMapping():
        wanted = replace(wanted, mapping=topic.mapping)
    if topic.source is not None:
        source = wanted.source or topic.source
        wanted = replace(wanted, source=replace(source, implicit=topic.source.implicit))
    keys = [
        f"keys.{name}"
        for name, new, old in (("key1", wish.keys.key1, topic.key1), ("key2", wish.keys.key2, topic.key2))
        if new not in (None, old)
    ]
    return _differing(topic, wanted, _TOPIC_FIELDS) + keys


def _same(stored: str, wanted: str) -> str:
    """The stored spelling of a name that differs in case alone."""
    return stored if stored.lower() == wanted.lower() else wanted


def _differing(stored: Any, wanted: Any, fields: Sequence[str] = ()) -> list[str]:
    """The fields that differ, by their names over HTTP; without `fields`, all are compared."""
    names = fields or stored.__struct_fields__
    changed = [name for name in names if getattr(stored, name) != getattr(wanted, name)]
    return [_SHOWN.get(name, _camel(name)) for name in changed]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
