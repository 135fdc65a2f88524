"""The server's own identity at Azure. Loaded only by who has no other credential."""

from azure.core.credentials_async import AsyncTokenCredential


def default_credential() -> AsyncTokenCredential:
    """Whoever this server is to Azure: its environment, its managed identity, or the developer who is signed in."""
    from azure.identity.aio import DefaultAzureCredential

    return DefaultAzureCredential()
