"""`recapito topic`: topics and their keys."""

from typing import Any

from recapito.cli.requests.topic_body import topic_body, topic_change
from recapito.cli.toolkit import flags
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.resource_commands import Resources, Subscribed
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands("Manage topics and their keys.", Subscribed)
keys = commands("Manage the keys of a topic.")
app.add_typer(keys, name="key")
noun, key = Noun(app), Noun(keys)
topics = Resources("topics")


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
    no_wait: flags.NoWait = False,
) -> Any:
    """Create a topic, or replace its settings."""
    body = topic_body(
        location, tags, input_schema, mapping_fields, mapping_defaults, ip_rules, public_access, no_local_auth
    )
    return topics.put(session, name, group, body, no_wait)


@noun.verb("update")
def update(
    session: CommandSession,
    name: flags.NameOrId = None,
    group: flags.Group = None,
    tags: flags.Tags = None,
    ip_rules: flags.IpRules = None,
    public_access: flags.PublicAccess = None,
    no_local_auth: flags.NoLocalAuth = None,
    no_wait: flags.NoWait = False,
) -> Any:
    """Change the given properties; the others stay as they are."""
    return topics.patch(session, name, group, topic_change(tags, ip_rules, public_access, no_local_auth), no_wait)


topics.add_verbs(noun, "topic")
topics.add_key_verbs(key)
