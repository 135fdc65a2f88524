"""`recapito topic`: topics and their keys."""

from typing import Any

from recapito.cli.requests.topic_body import topic_body, topic_change
from recapito.cli.toolkit import common_flags
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.resource_commands import Resources, Subscribed
from recapito.cli.toolkit.verb import Noun, Session

app = commands("Manage topics and their keys.", Subscribed)
keys = commands("Manage the keys of a topic.")
app.add_typer(keys, name="key")
noun, key = Noun(app), Noun(keys)
topics = Resources("topics")


@noun.verb("create")
def create(
    session: Session,
    name: common_flags.Name = None,
    group: common_flags.Group = None,
    location: common_flags.Location = None,
    tags: common_flags.Tags = None,
    input_schema: common_flags.InputSchema = None,
    mapping_fields: common_flags.MappingFields = None,
    mapping_defaults: common_flags.MappingDefaults = None,
    ip_rules: common_flags.IpRules = None,
    public_access: common_flags.PublicAccess = None,
    no_local_auth: common_flags.NoLocalAuth = None,
    no_wait: common_flags.NoWait = False,
) -> Any:
    """Create a topic, or replace its settings."""
    body = topic_body(
        location, tags, input_schema, mapping_fields, mapping_defaults, ip_rules, public_access, no_local_auth
    )
    return topics.put(session, name, group, body, no_wait)


@noun.verb("update")
def update(
    session: Session,
    name: common_flags.NameOrId = None,
    group: common_flags.Group = None,
    tags: common_flags.Tags = None,
    ip_rules: common_flags.IpRules = None,
    public_access: common_flags.PublicAccess = None,
    no_local_auth: common_flags.NoLocalAuth = None,
    no_wait: common_flags.NoWait = False,
) -> Any:
    """Change what is named; the rest stays as it is."""
    return topics.patch(session, name, group, topic_change(tags, ip_rules, public_access, no_local_auth), no_wait)


topics.add_verbs(noun, "topic")
topics.add_key_verbs(key)
