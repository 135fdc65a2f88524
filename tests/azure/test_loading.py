"""Microsoft's libraries cost nothing to a server that has no use for them."""

import subprocess
import sys

LOOK = """
import sys
import recapito.composition.dispatch, recapito.composition.intake
import recapito.senders.storage_queue, recapito.vaults.blob, recapito.vaults.routing
import recapito.azure.storage_clients, recapito.azure.amqp_clients, recapito.senders.broker, recapito.senders.routing
print([name for name in ("aiohttp", "azure", "msal") if name in sys.modules])
"""


def test_nothing_is_loaded_ahead() -> None:
    """Importing the vault, the sender and the way to Azure loads none of its libraries."""
    run = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
