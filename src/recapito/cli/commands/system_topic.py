"""`recapito system-topic`: topics whose events come from an Azure resource."""

from typing import Annotated, Any

import typer

from recapito.cli.requests.topic_body import given
from recapito.cli.toolkit import flags
from recapito.cli.toolkit.defaults import choose
from recapito.cli.toolkit.flags import pairs
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.resource_commands import Resources, Subscribed
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands("Manage system topics.", Subscribed)
keys = commands("Manage the keys of a system topic.")
app.add_typer(keys, name="key")
noun, key = Noun(app), Noun(keys)
system_topics = Resources("systemTopics")


@noun.verb("create")
def create(
    session: CommandSession,
    topic_type: Annotated[str, typer.Option(help="Type of the topic, such as Microsoft.Storage.StorageAccounts.")],
    source: Annotated[str, typer.Option(help="Id of the resource whose events it carries.")],
    name: flags.Name = None,
    group: flags.Group = None,
    location: flags.Location = None,
    tags: flags.Tags = None,
    no_wait: flags.NoWait = False,
) -> Any:
    """Create a system topic."""
    properties = {"source": source, "topicType": topic_type}
    body = {"location": choose("location", location), "tags": pairs(tags, "--tags"), "properties": properties}
    return system_topics.put(session, name, group, given(body), no_wait)


@noun.verb("update")
def update(
    session: CommandSession,
    name: flags.NameOrId = None,
    group: flags.Group = None,
    tags: flags.Tags = None,
    no_wait: flags.NoWait = False,
) -> Any:
    """Change the tags of a system topic."""
    return system_topics.patch(session, name, group, given({"tags": pairs(tags, "--tags")}), no_wait)


system_topics.add_verbs(noun, "system topic")
system_topics.add_key_verbs(key)
