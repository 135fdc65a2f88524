"""One service, one webhook and one signed-in set of clients for all the tests of a worker."""

from collections.abc import Iterator

import pytest
from azure.identity import ClientSecretCredential
from azure.mgmt.eventgrid import EventGridManagementClient

from tests.clients.az import Az
from tests.clients.javascript import Node
from tests.clients.service import SUBSCRIPTION, Service, service
from tests.clients.webhook import Webhook, webhook


@pytest.fixture(scope="session")
def hook() -> Iterator[Webhook]:
    """A webhook that takes everything."""
    with webhook() as it:
        yield it


@pytest.fixture(scope="session")
def recapito(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service, trusted by Microsoft's clients of this process as `recapito tls` says."""
    with (
        service(tmp_path_factory.mktemp("clients") / "data", "--azurite") as it,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in it.trust.items():
            environment.setenv(name, value)
        yield it


@pytest.fixture(scope="session")
def credential(recapito: Service) -> Iterator[ClientSecretCredential]:
    """A token credential of azure-identity, with the service as its authority."""
    with ClientSecretCredential(*recapito.principal, authority=recapito.url, disable_instance_discovery=True) as it:
        yield it


@pytest.fixture(scope="session")
def management(recapito: Service, credential: ClientSecretCredential) -> Iterator[EventGridManagementClient]:
    """Microsoft's management client for Python."""
    scopes = [f"{recapito.url}/.default"]
    with EventGridManagementClient(credential, SUBSCRIPTION, base_url=recapito.url, credential_scopes=scopes) as it:
        yield it


@pytest.fixture(scope="session")
def az(recapito: Service, tmp_path_factory: pytest.TempPathFactory) -> Az:
    """The az command line in its own environment. `signed_in` is the one that registers the cloud there."""
    return Az(recapito, tmp_path_factory.mktemp("az"))


@pytest.fixture(scope="session")
def signed_in(az: Az, recapito: Service) -> Az:
    """az, signed in as the README tells a user to, once for all modules of a worker: a cloud is registered once."""
    az("cloud register -n Recapito --endpoint-resource-manager {}", recapito.url)
    az("cloud set -n Recapito")
    tenant, client, secret = recapito.principal
    [account] = az("login --service-principal -u {} -p {} --tenant {}", client, secret, tenant)
    assert account["id"] == SUBSCRIPTION
    assert account["tenantId"] == tenant
    assert account["state"] == "Enabled"
    group = az("group create -n az-group -l local")
    assert group["name"] == "az-group"
    assert group["properties"]["provisioningState"] == "Succeeded"
    return az


@pytest.fixture(scope="session")
def node(recapito: Service) -> Node:
    """Node, with Microsoft's clients for it."""
    given = {"url": recapito.url, "subscription": SUBSCRIPTION, **recapito.principal._asdict()}
    return Node(given, recapito.trust)
