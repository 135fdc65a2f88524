"""The extras of the package: parts that need libraries which the core does not bring (decision 32).

A part that is missing is named where it is used, with the command that installs it.
"""

from collections.abc import Callable
from importlib.util import find_spec

from recapito.errors import SettingsError

LIBRARIES = {
    "portal": ("aiohttp", "nicegui"),
    "azure": ("aiohttp", "azure.eventhub", "azure.identity", "azure.servicebus", "azure.storage.blob"),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "cluster": ("aiohttp", "nats", "zstandard"),
}
"""A module of each library that an extra brings. The extra `fast` has none: the server runs as well without it."""


class MissingExtra(SettingsError):
    """A part of Recapito is not installed; the message names the command that installs it."""


def require(extra: str, consequence: str, find: Callable[[str], object | None] = find_spec) -> None:
    """Raise MissingExtra unless the libraries of an extra are installed. They are not loaded.

    consequence: what does not work without them, as a sentence without its full stop.
    """
    if not all(_is_installed(module, find) for module in LIBRARIES[extra]):
        raise MissingExtra(
            f"{consequence}: the extra '{extra}' is not installed. Install it with `pip install 'recapito[{extra}]'`."
        )


def _is_installed(module: str, find: Callable[[str], object | None]) -> bool:
    try:
        return find(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False
