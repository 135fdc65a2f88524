"""The flags that several commands have, by az's names."""

from typing import Annotated

import typer

from recapito.cli.toolkit.az_flags import TRUTH

Name = Annotated[str | None, typer.Option("--name", "-n", help="The name.")]
NameOrId = Annotated[str | None, typer.Option("--name", "-n", "--ids", help="The name, or the whole resource id.")]
Group = Annotated[str | None, typer.Option("--resource-group", "-g", help="The resource group.", show_default="local")]
Location = Annotated[str | None, typer.Option("--location", "-l", help="The location.", show_default="local")]
Tags = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE...", help="Tags; '' takes all away.")]
InputSchema = Annotated[
    str | None,
    typer.Option(
        help="What publishers send: eventgridschema, customeventschema or cloudeventschemav1_0.",
        show_default="eventgridschema",
    ),
]
MappingFields = Annotated[
    list[str] | None,
    typer.Option(
        "--input-mapping-fields",
        metavar="FIELD=SOURCE...",
        help="Where in a custom event id, topic, eventtime, subject, eventtype and dataversion are.",
    ),
]
MappingDefaults = Annotated[
    list[str] | None,
    typer.Option(
        "--input-mapping-default-values",
        metavar="FIELD=VALUE...",
        help="What subject, eventtype and dataversion are in a custom event that has none.",
    ),
]
IpRules = Annotated[
    list[str] | None,
    typer.Option("--inbound-ip-rules", metavar="CIDR...", help="Addresses that may publish, each followed by Allow."),
]
PublicAccess = Annotated[
    str | None, typer.Option("--public-network-access", help="enabled, or disabled: only this machine may publish.")
]
NoLocalAuth = Annotated[
    str | None, typer.Option("--disable-local-auth", metavar=TRUTH, help="Take tokens only, no keys.")
]
Filter = Annotated[str | None, typer.Option("--odata-query", help="A filter on names: contains(name, 'order').")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Print the first answer.")]
KeyName = Annotated[str, typer.Option("--key-name", help="key1 or key2.")]
