"""What all pages are made from."""

from typing import NamedTuple

from recapito.portal.client import Wire
from recapito.portal.session import Sessions
from recapito.settings.settings import Settings


class Dependencies(NamedTuple):
    """The settings, the way to the server, and who is signed in; None where nobody has to."""

    settings: Settings
    wire: Wire
    sessions: Sessions | None
