"""The flags of event subscriptions, by az's names."""

from typing import Annotated

import typer

from recapito.cli.requests.subscription_body import ENDPOINT_TYPES
from recapito.cli.toolkit.az_flags import TRUTH

Source = Annotated[
    str | None,
    typer.Option("--source-resource-id", "--resource-id", help="Of what: the id of a topic, a domain, an account …"),
]
TopicName = Annotated[str | None, typer.Option("--topic-name", help="Of what: a topic, by its name.")]
DomainName = Annotated[str | None, typer.Option("--domain-name", help="Of what: a domain, by its name.")]
DomainTopic = Annotated[
    str | None, typer.Option("--domain-topic-name", help="Of what: a topic of the domain, by its name.")
]
SystemTopic = Annotated[str | None, typer.Option("--system-topic-name", help="Of what: a system topic, by its name.")]
Endpoint = Annotated[str | None, typer.Option(help="Where events go: a URL, or the id of an Azure resource.")]
EndpointType = Annotated[str | None, typer.Option(help=f"{', '.join(ENDPOINT_TYPES)}.", show_default="webhook")]
EventTypes = Annotated[
    list[str] | None, typer.Option("--included-event-types", metavar="TYPE...", help="Only events of these types.")
]
BeginsWith = Annotated[str | None, typer.Option("--subject-begins-with", help="Only events of such subjects.")]
EndsWith = Annotated[str | None, typer.Option("--subject-ends-with", help="Only events of such subjects.")]
CaseSensitive = Annotated[
    str | None, typer.Option("--subject-case-sensitive", metavar=TRUTH, help="Tell capitals in subjects apart.")
]
Advanced = Annotated[
    list[str] | None,
    typer.Option(
        "--advanced-filter",
        metavar="KEY OPERATOR VALUE...",
        help="Only events with such a value, for example data.color StringIn red blue; all that are given must hold.",
    ),
]
Arrays = Annotated[
    str | None,
    typer.Option(
        "--enable-advanced-filtering-on-arrays",
        "--enable-af-arr",
        metavar=TRUTH,
        help="Advanced filters look into arrays.",
    ),
]
MaxEvents = Annotated[int | None, typer.Option("--max-events-per-batch", help="1 to 5000.", show_default="1")]
Kilobytes = Annotated[
    int | None,
    typer.Option("--preferred-batch-size-in-kilobytes", "--pref-batch-size-kb", help="1 to 1024.", show_default="64"),
]
Attempts = Annotated[int | None, typer.Option("--max-delivery-attempts", help="1 to 30.", show_default="30")]
Ttl = Annotated[
    int | None,
    typer.Option("--event-ttl", help="Minutes after which an event is given up, 1 to 1440.", show_default="1440"),
]
DeadLetter = Annotated[
    str | None,
    typer.Option(
        "--deadletter-endpoint",
        help="Where dead letters go: the id of a blob container, or the name of a directory of the server.",
    ),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--delivery-attribute-mapping",
        "-d",
        metavar="NAME KIND VALUE...",
        help="A header of each delivery: NAME static VALUE [true, if secret], or NAME dynamic FIELD.",
    ),
]
Expiration = Annotated[str | None, typer.Option("--expiration-date", help="When it ends, like 2030-01-31T12:00:00Z.")]
Labels = Annotated[list[str] | None, typer.Option(metavar="LABEL...", help="Labels.")]
Schema = Annotated[
    str | None,
    typer.Option("--event-delivery-schema", help="eventgridschema, custominputschema or cloudeventschemav1_0."),
]
Tenant = Annotated[
    str | None,
    typer.Option("--azure-active-directory-tenant-id", "--aad-tenant-id", help="Who issues the webhook's tokens."),
]
Application = Annotated[
    str | None,
    typer.Option(
        "--azure-active-directory-application-id-or-uri", "--aad-app-id", help="For whom the webhook's tokens are."
    ),
]
QueueTtl = Annotated[
    int | None, typer.Option("--storage-queue-msg-ttl", "--qttl", help="Seconds that a message of a queue lives.")
]
FullUrl = Annotated[
    str | None,
    typer.Option("--include-full-endpoint-url", metavar=TRUTH, help="Show the whole URL, which may hold a secret."),
]
Secrets = Annotated[
    str | None,
    typer.Option(
        "--include-attrib-secret",
        "--include-static-delivery-attribute-secret",
        metavar=TRUTH,
        help="Show the values of secret attributes.",
    ),
]
Location = Annotated[str | None, typer.Option("--location", "-l", help="Only those of topics at this location.")]
TopicType = Annotated[str | None, typer.Option("--topic-type-name", help="Only those of topics of this type.")]
