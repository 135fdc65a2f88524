"""`recapito tls`: the commands by which clients come to trust the server's own certificate."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from recapito.composition.identity import prepare_tls, served_url
from recapito.errors import SettingsError
from recapito.identity.certificate import files_in
from recapito.settings import settings as settings_module


def tls(
    data: Annotated[str | None, typer.Option(help="Data directory of the server.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address that the server listens on.", show_default="that of the last run")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port that the server listens on.", show_default="that of the last run")
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="Settings file; see `recapito settings`.")] = None,
) -> None:
    """Print the exports that make clients trust `recapito serve --tls`."""
    flags = {"server.data": data, "server.host": host, "server.port": port, "tls.enabled": True}
    chosen = settings_module.load(settings, flags=flags)
    if chosen.tls.cert:
        raise SettingsError(f"tls.cert: the server has a certificate of yours, {chosen.tls.cert}; trust its issuer")
    if not chosen.data.is_dir():
        raise SettingsError(f"server.data: there is no directory {chosen.data}; `recapito serve --tls` makes it")
    prepare_tls(chosen)
    files = files_in(chosen.data.resolve() / "tls")
    authority, bundle = shlex.quote(str(files.authority)), shlex.quote(str(files.bundle))
    url = (served_url(chosen) if host is None and port is None else None) or chosen.public_url
    typer.echo(_TEXT.format(authority=authority, bundle=bundle, url=url))


_TEXT = """\
# The local authority is {authority}; the bundle has it behind the authorities that this machine trusts already.

# Python: requests, the Azure SDKs, az
export REQUESTS_CA_BUNDLE={bundle}
# Python: urllib, ssl; Go; curl --cacert takes the authority
export SSL_CERT_FILE={bundle}
# Node
export NODE_EXTRA_CA_CERTS={authority}

# azure-identity: `recapito serve --tls` prints AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET when it starts.
#   ClientSecretCredential(tenant, client, secret, authority="{url}", disable_instance_discovery=True)

# az: with those three variables set, in a directory of its own
export AZURE_CONFIG_DIR="$(mktemp -d)" AZURE_CORE_INSTANCE_DISCOVERY=false AZURE_CORE_COLLECT_TELEMETRY=no
az cloud register -n Recapito --endpoint-resource-manager {url}
az cloud set -n Recapito
az login --service-principal -u "$AZURE_CLIENT_ID" -p "$AZURE_CLIENT_SECRET" --tenant "$AZURE_TENANT_ID"
az eventgrid topic list"""
