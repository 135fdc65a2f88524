"""`recapito topic`: topics and their keys."""

from typing import Any

from recapito.cli import option
from recapito.cli.lazy import commands
from recapito.cli.resource import Resources, Subscribed
from recapito.cli.topic_body import topic_body, topic_change
from recapito.cli.verb import Noun, Session

app = commands("Manage topics and their keys.", Subscribed)
keys = commands("Manage the keys of a topic.")
app.add_typer(keys, name="key")
noun, key = Noun(app), Noun(keys)
topics = Resources("topics")


@noun.verb("create")
def create(
    session: Session,
    name: option.Name = None,
    group: option.Group = None,
    location: option.Location = None,
    tags: option.Tags = None,
    input_schema: option.InputSchema = None,
    mapping_fields: option.MappingFields = None,
    mapping_defaults: option.MappingDefaults = None,
    ip_rules: option.IpRules = None,
    public_access: option.PublicAccess = None,
    no_local_auth: option.NoLocalAuth = None,
    no_wait: option.NoWait = False,
) -> Any:
    """Create a topic, or replace its settings."""
    body = topic_body(
        location, tags, input_schema, mapping_fields, mapping_defaults, ip_rules, public_access, no_local_auth
    )
    return topics.put(session, name, group, body, no_wait)


@noun.verb("update")
def update(
    session: Session,
    name: option.NameOrId = None,
    group: option.Group = None,
    tags: option.Tags = None,
    ip_rules: option.IpRules = None,
    public_access: option.PublicAccess = None,
    no_local_auth: option.NoLocalAuth = None,
    no_wait: option.NoWait = False,
) -> Any:
    """Change what is named; the rest stays as it is."""
    return topics.patch(session, name, group, topic_change(tags, ip_rules, public_access, no_local_auth), no_wait)


topics.add_verbs(noun, "topic")
topics.add_key_verbs(key)
