"""The way to a folder of a blob container, which holds a backup: by the connections and egress rules of the settings.

The folder holds the files of a directory; they are gathered and checked in a temporary one, which `TMPDIR` places.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from recapito.azure.access import AzureAccess
from recapito.connections.configured import read_configured
from recapito.domain.connections.connection import Connection
from recapito.domain.connections.container_folder import connection_to, parse_container_folder
from recapito.errors import SettingsError
from recapito.extras import require
from recapito.senders.http.resolver import Resolver
from recapito.settings.settings import Settings

if TYPE_CHECKING:
    from recapito.azure.container_files import ContainerFiles


@asynccontextmanager
async def open_container(settings: Settings, url: str) -> "AsyncIterator[ContainerFiles]":
    """The folder that a URL names. CallerError: it names none. MissingExtra: Microsoft's libraries are not there."""
    folder = parse_container_folder(url)
    require("azure", f"{folder.url} cannot be reached")
    connection = connection_to(folder, read_configured(settings.connection.resources, os.environ).values())
    from recapito.azure.container_files import ContainerFiles
    from recapito.azure.storage import StorageOpener

    async def find(resource_id: str) -> Connection:
        return connection

    access = AzureAccess(find, Resolver(), settings.delivery.egress, settings.delivery.ca_file or None)
    opener = StorageOpener(access)
    try:
        yield ContainerFiles(opener, folder, connection)
    finally:
        await opener.close()


@contextmanager
def gathered(folder: "ContainerFiles") -> Iterator[Path]:
    """A temporary directory for the files of a folder; errors about them name the folder."""
    with TemporaryDirectory(prefix="recapito-") as inside:
        try:
            yield Path(inside)
        except SettingsError as error:
            if inside not in str(error):
                raise
            raise type(error)(str(error).replace(inside, folder.url)) from error


async def send(folder: "ContainerFiles", copy: Path, files: Iterable[str], progress: Callable[[str], None]) -> None:
    """Store files of a directory, in this order."""
    for file in files:
        await folder.put(copy / file, file, progress)


async def fetch(folder: "ContainerFiles", copy: Path, files: Iterable[str], progress: Callable[[str], None]) -> None:
    """Fetch files into a directory."""
    for file in files:
        (copy / file).parent.mkdir(exist_ok=True)
        await folder.get(file, copy / file, progress)
