"""`recapito domain`: domains, their topics and their keys."""

from typing import Annotated, Any

import typer

from recapito.cli.requests.topic_body import given, topic_body, topic_change
from recapito.cli.toolkit import flags
from recapito.cli.toolkit.flags import TRUTH, truth
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.resource_commands import Resources, Subscribed
from recapito.cli.toolkit.session import part
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands("Manage domains, their topics and their keys.", Subscribed)
topics = commands("Manage the topics of a domain.", Subscribed)
keys = commands("Manage the keys of a domain.")
app.add_typer(topics, name="topic")
app.add_typer(keys, name="key")
noun, topic, key = Noun(app), Noun(topics), Noun(keys)
domains = Resources("domains")

AutoCreate = Annotated[
    str | None,
    typer.Option(
        "--auto-create-topic-with-first-subscription",
        metavar=TRUTH,
        help="Create a topic with its first event subscription.",
    ),
]
AutoDelete = Annotated[
    str | None,
    typer.Option(
        "--auto-delete-topic-with-last-subscription",
        metavar=TRUTH,
        help="Delete such a topic with its last event subscription.",
    ),
]
DomainName = Annotated[str, typer.Option("--domain-name", help="Name of the domain.")]


@noun.verb("create")
def create(
    session: CommandSession,
    name: flags.Name = None,
    group: flags.Group = None,
    location: flags.Location = None,
    tags: flags.Tags = None,
    input_schema: flags.InputSchema = None,
    mapping_fields: flags.MappingFields = None,
    mapping_defaults: flags.MappingDefaults = None,
    ip_rules: flags.IpRules = None,
    public_access: flags.PublicAccess = None,
    no_local_auth: flags.NoLocalAuth = None,
    auto_create: AutoCreate = None,
    auto_delete: AutoDelete = None,
    no_wait: flags.NoWait = False,
) -> Any:
    """Create a domain, or replace its settings."""
    body = topic_body(
        location, tags, input_schema, mapping_fields, mapping_defaults, ip_rules, public_access, no_local_auth
    )
    return domains.put(session, name, group, _with_flags(body, auto_create, auto_delete), no_wait)


@noun.verb("update")
def update(
    session: CommandSession,
    name: flags.NameOrId = None,
    group: flags.Group = None,
    tags: flags.Tags = None,
    ip_rules: flags.IpRules = None,
    public_access: flags.PublicAccess = None,
    no_local_auth: flags.NoLocalAuth = None,
    auto_create: AutoCreate = None,
    auto_delete: AutoDelete = None,
    no_wait: flags.NoWait = False,
) -> Any:
    """Change the given properties; the others stay as they are."""
    body = topic_change(tags, ip_rules, public_access, no_local_auth)
    return domains.patch(session, name, group, _with_flags(body, auto_create, auto_delete), no_wait)


domains.add_verbs(noun, "domain")
domains.add_key_verbs(key)


@topic.verb("create")
def create_topic(
    session: CommandSession, domain_name: DomainName, name: flags.Name = None, group: flags.Group = None
) -> Any:
    """Create a topic of a domain."""
    return session.put(_topic_path(session, domain_name, name, group), {})


@topic.verb("show")
def show_topic(
    session: CommandSession, domain_name: DomainName, name: flags.Name = None, group: flags.Group = None
) -> Any:
    """Show a topic of a domain."""
    return session.client.arm("GET", _topic_path(session, domain_name, name, group))


@topic.verb("list")
def list_topics(
    session: CommandSession, domain_name: DomainName, group: flags.Group = None, filter: flags.Filter = None
) -> Any:
    """List the topics of a domain."""
    return session.client.list(f"{domains.path(session, domain_name, group)}/topics", filter)


@topic.verb("delete")
def delete_topic(
    session: CommandSession, domain_name: DomainName, name: flags.Name = None, group: flags.Group = None
) -> Any:
    """Delete a topic of a domain and its event subscriptions."""
    return session.client.arm("DELETE", _topic_path(session, domain_name, name, group))


def _topic_path(session: CommandSession, domain_name: str, name: str | None, group: str | None) -> str:
    return f"{domains.path(session, domain_name, group)}/topics/{part(name or '')}"


def _with_flags(body: dict[str, Any], auto_create: str | None, auto_delete: str | None) -> dict[str, Any]:
    flags = {
        "autoCreateTopicWithFirstSubscription": truth(auto_create, "--auto-create-topic-with-first-subscription"),
        "autoDeleteTopicWithLastSubscription": truth(auto_delete, "--auto-delete-topic-with-last-subscription"),
    }
    return given({**body, "properties": {**body.get("properties", {}), **given(flags)} or None})
