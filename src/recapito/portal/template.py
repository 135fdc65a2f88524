"""NiceGUI's page template with a nonce on the scripts that are written in it, and on nothing that is put into it.

The source of the template is changed, before any text from outside is in it; a rendered page never is.
"""

from collections.abc import Callable

from jinja2 import BaseLoader, Environment
from nicegui.client import templates

from recapito.portal.guard import NONCE

_STAMPED = f"<script nonce=\"{{{{ request.scope['{NONCE}'] }}}}\""


class NonceLoader(BaseLoader):
    """Loads the sources of another loader; each script in them gets the nonce of the request."""

    def __init__(self, found_by: BaseLoader) -> None:
        self._found_by = found_by

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        """The source of a template."""
        source, path, is_current = self._found_by.get_source(environment, template)
        return source.replace("<script", _STAMPED), path, is_current


def stamp_templates() -> None:
    """Have NiceGUI's scripts carry the nonce of their page. A second call changes nothing."""
    loader = templates.env.loader
    if loader is not None and not isinstance(loader, NonceLoader):
        templates.env.loader = NonceLoader(loader)
