"""A folder in a blob container, named by its URL, and the connection that leads there.

The URL is that of Azure's portal, `https://ACCOUNT.blob.core.windows.net/CONTAINER/FOLDER`, or that of an Azurite, with
the account first in the path. It may end with a shared access signature, which no message and no `repr` repeats.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote

import msgspec

from recapito.domain.connections.connection import (
    AccountKey,
    AzureService,
    Connection,
    Credential,
    DefaultCredential,
    SharedAccess,
)
from recapito.domain.connections.parse_storage import (
    AZURITE_ACCOUNT,
    AZURITE_KEY,
    SERVICE_HOST,
    invalid_connection,
    read_endpoint,
    root_of,
    shared_access,
)
from recapito.domain.resources.resource_id import STORAGE_ACCOUNT, ResourceId, container_id, parse_resource_id

_WHAT = "The container's URL"
_CONTAINER_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}")


class ContainerFolder(msgspec.Struct, frozen=True):
    """A folder of a container; `name` is empty for the container itself, and has slashes for a folder in a folder."""

    account_url: str
    account: str
    container: str
    name: str = ""
    signature: SharedAccess | None = None

    @property
    def url(self) -> str:
        """The URL without the signature."""
        return "/".join(part for part in (self.account_url, self.container, self.name) if part)

    @property
    def resource(self) -> ResourceId:
        """The container, in a subscription and a group that its URL does not tell."""
        group = "/subscriptions/-/resourceGroups/-"
        account = f"{group}/providers/Microsoft.Storage/storageAccounts/{self.account}"
        return parse_resource_id(container_id(account, self.container))

    def path_of(self, file: str) -> str:
        """The name of the blob that is this file of the folder."""
        return f"{self.name}/{file}" if self.name else file


def parse_container_folder(url: str) -> ContainerFolder:
    """Parse the URL of a container or of a folder in it, with or without a signature."""
    base, mark, query = url.strip().partition("?")
    endpoint = read_endpoint(base, _WHAT)
    root, steps = root_of(endpoint), [unquote(step) for step in endpoint.target.split("/") if step]
    host = SERVICE_HOST.fullmatch(endpoint.host)
    if host is None:
        account, steps = (steps or [""])[0], steps[1:]
        root = f"{root}/{account}"
    else:
        account = host[1]
    if not steps or (host is not None and host[2] != AzureService.BLOB):
        raise invalid_connection(
            f"{_WHAT} must be https://ACCOUNT.blob.core.windows.net/CONTAINER/FOLDER, or http://HOST:PORT/ACCOUNT/"
            "CONTAINER/FOLDER for an Azurite."
        )
    container, *folders = steps
    if not _CONTAINER_NAME.fullmatch(container):
        raise invalid_connection(
            f"{_WHAT} has '{container}' in the place of the container: its name has 3 to 63 lower-case letters, digits "
            "and single hyphens."
        )
    if any(step in (".", "..") or not step.isprintable() or "/" in step or "\\" in step for step in folders):
        raise invalid_connection(f"{_WHAT} has a folder that cannot be one: '.', '..', a slash or a backslash.")
    return ContainerFolder(root, account, container, "/".join(folders), shared_access(query) if mark else None)


def connection_to(folder: ContainerFolder, known: Iterable[Connection]) -> Connection:
    """The connection to a folder: by its signature, by one of the known connections, or by one's own identity.

    A connection is known by the address of its blob service. That of the container goes before that of its account.
    An Azurite needs none: its key is printed in its manual.
    """
    return Connection(
        resource_id=folder.resource.text,
        endpoints={AzureService.BLOB: folder.account_url},
        credential=folder.signature or _known_credential(folder, known) or _own(folder),
    )


def _known_credential(folder: ContainerFolder, known: Iterable[Connection]) -> Credential | None:
    found: dict[bool, Credential] = {}
    for connection in known:
        resource = parse_resource_id(connection.resource_id)
        whole = resource.kind == STORAGE_ACCOUNT
        if connection.endpoints.get(AzureService.BLOB) == folder.account_url and (
            whole or resource.name.lower() == folder.container
        ):
            found[whole] = connection.credential
    return found.get(False) or found.get(True)


def _own(folder: ContainerFolder) -> Credential:
    if folder.account == AZURITE_ACCOUNT:
        return AccountKey(AZURITE_ACCOUNT, AZURITE_KEY)
    if not folder.account_url.startswith("https://"):
        raise invalid_connection(
            f"There is no key to {folder.url}: give its URL with a signature, or put a connection to the account into "
            "the settings (connection.resources)."
        )
    return DefaultCredential()
