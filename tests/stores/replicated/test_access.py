"""TLS and credentials to NATS, on servers that demand them: what lets a node in, and what refuses it in which words."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from recapito.contracts.stream import StreamUnknown
from recapito.errors import ClusterUnreachable, SettingsError
from recapito.stores.jetstream.client import JetStreamOptions, NatsClient, open_client
from recapito.stores.jetstream.link import Link
from recapito.stores.jetstream.streams import connect, connect_all, create
from tests.kit.nats_access import Authority, NatsOperator, Nkey
from tests.kit.nats_cluster import NatsCluster, running, single

pytestmark = pytest.mark.xdist_group("nats")
PASSWORD = "a-password-that-never-shows"
MB = 1 << 20
PATIENCE_S = 20.0


class Secured(NamedTuple):
    """Servers with TLS and two users, and the files of their clients."""

    nats: NatsCluster
    authority: Authority
    directory: Path
    user: Nkey

    def config(self, certificate: str = "server", users: bool = True, verify: bool = False) -> str:
        return configured(self.directory, self.user, certificate, users, verify)


def configured(directory: Path, user: Nkey, certificate: str, users: bool = True, verify: bool = False) -> str:
    cert, key, ca = (directory / name for name in (f"{certificate}.pem", f"{certificate}.key", "ca.pem"))
    known = (
        f'{{user: recapito, password: "{PASSWORD}"}}, {{nkey: {user.public}}}' if users else "{user: x, password: x}"
    )
    tls = f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{ca}", verify: {str(verify).lower()} }}'
    return f"{tls}\nauthorization {{ users: [{known}] }}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Three servers; a test that changes their configuration puts it back."""
    directory = tmp_path_factory.mktemp("access")
    authority, user = Authority(directory), Nkey()
    authority.issue("server")
    authority.issue("expired", days=-1)
    authority.issue("node")
    password = directory / "password"
    password.write_text(f"{PASSWORD}\n")
    (directory / "nkey").write_bytes(user.seed)
    access = {"user": "recapito", "password_file": password, "ca": authority.file}
    with running(tmp_path_factory.mktemp("nats"), configured(directory, user, "server"), **access) as nats:
        yield Secured(nats, authority, directory, user)


def refused(options: JetStreamOptions) -> str:
    """The message to an operator whose node is not let in; it holds no secret."""
    with pytest.raises(SettingsError) as refusal:
        asyncio.run(_open_and_close(options))
    assert PASSWORD not in str(refusal.value)
    return str(refusal.value)


async def _open_and_close(options: JetStreamOptions) -> None:
    await (await open_client(options)).close()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that servers do in their own time."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.sleep(0.05)


def test_a_password_and_an_nkey_let_in(secured: Secured) -> None:
    """Streams are made and used over TLS by the user with a password, and by the one with an nkey."""
    options = secured.nats.options("access")
    create(options, "id", MB, MB)
    for way in (options, options._replace(user="", nkey=secured.directory / "nkey")):
        streams = connect(way)
        last = streams.log.state().last
        assert streams.log.publish(b"body", last) == last + 1
        streams.close()


def test_wrong_credentials_are_refused_with_the_servers_names(secured: Secured) -> None:
    """A wrong password, an unknown nkey and none at all: each server is named, with the remedy."""
    options = secured.nats.options()
    (secured.directory / "other").write_bytes(Nkey().seed)
    for wrong in (
        options._replace(password_file=None, password="wrong"),
        options._replace(user="", nkey=secured.directory / "other"),
        options._replace(user=""),
    ):
        said = refused(wrong)
        servers = ", ".join(sorted(f"127.0.0.1:{port}" for port in secured.nats.ports.values()))
        assert f"{servers}: it refuses the credentials" in said
        assert "correct the user, nkey or credentials under [cluster]" in said


def test_files_without_credentials_are_refused_by_name(secured: Secured) -> None:
    """An nkey file or credentials with something else in them; nothing is asked of a server."""
    junk = secured.directory / "junk"
    junk.write_text("no credentials")
    options = secured.nats.options(user="")
    assert "cluster.nkey_file" in refused(options._replace(nkey=junk)) and str(junk) in refused(
        options._replace(nkey=junk)
    )
    assert "cluster.creds_file" in refused(options._replace(creds=junk))


def test_certificates_that_are_not_trusted(secured: Secured, tmp_path: Path) -> None:
    """Another authority, and the system's, do not vouch for the servers."""
    options = secured.nats.options()
    for ca in (Authority(tmp_path).file, None):
        said = refused(options._replace(ca=ca))
        assert "its certificate is not trusted" in said and "cluster.ca_file" in said


def test_an_expired_certificate(secured: Secured) -> None:
    """Servers whose certificate has expired are named, and connections from before go on."""
    link = Link(secured.nats.options())
    secured.nats.reload(secured.config("expired"))
    try:
        expired = "its certificate is not trusted (certificate has expired): renew it"

        async def seen() -> bool:
            return expired in await asyncio.to_thread(_try, secured.nats.options())

        asyncio.run(until(seen))
        assert link.request("$JS.API.INFO", b"")
    finally:
        secured.nats.reload(secured.config())
        link.close()


def test_a_certificate_of_the_node_is_demanded(secured: Secured) -> None:
    """Without one it is refused with the names of the settings; with one it is let in."""
    secured.nats.reload(secured.config(verify=True))
    try:

        async def seen() -> bool:
            return "cluster.cert_file and cluster.key_file" in await asyncio.to_thread(_try, secured.nats.options())

        asyncio.run(until(seen))
        certificate, key = (secured.directory / f"node.{kind}" for kind in ("pem", "key"))
        Link(secured.nats.options(certificate=certificate, key=key)).close()
    finally:
        secured.nats.reload(secured.config())


def _try(options: JetStreamOptions) -> str:
    try:
        Link(options).close()
    except SettingsError as error:
        return str(error)
    return ""


def test_a_server_without_tls_gets_no_password(nats: NatsCluster, secured: Secured) -> None:
    """A client that wants TLS says nothing to a server that offers none."""
    options = nats.options(user="recapito", password=PASSWORD, ca=secured.authority.file)
    assert "it offers no TLS: set `tls`" in refused(options)


def test_revoked_credentials_are_reported_and_restored_ones_taken(secured: Secured) -> None:
    """The verbs of a running client fail with the servers' names, and succeed again when the user is known again."""
    link = Link(secured.nats.options())
    secured.nats.reload(secured.config(users=False))

    async def told() -> bool:
        with suppress(StreamUnknown):
            await asyncio.to_thread(link.request, "$JS.API.INFO", b"")
            return False
        return "it refuses the credentials" in link.why and PASSWORD not in link.why

    async def answers() -> bool:
        with suppress(StreamUnknown):
            return bool(await asyncio.to_thread(link.request, "$JS.API.INFO", b""))
        return False

    try:
        asyncio.run(until(told))
        with pytest.raises(StreamUnknown, match=r"127\.0\.0\.1:\d+: it refuses"):
            link.request("$JS.API.INFO", b"")
    finally:
        secured.nats.reload(secured.config())
    asyncio.run(until(answers))
    assert link.why == ""
    link.close()


def test_credentials_that_expire_are_replaced_in_their_file(tmp_path: Path) -> None:
    """An operator's server ends the connection of a user whose time is over; new credentials are read from the file."""
    operator, creds = NatsOperator(), tmp_path / "user.creds"
    operator.write_creds(creds, lives_s=2)

    async def story(port: int) -> None:
        client: NatsClient = await open_client(JetStreamOptions((f"nats://127.0.0.1:{port}",), creds=creds))

        async def expired() -> bool:
            return "it refuses the credentials" in client.why

        async def back() -> bool:
            return client.is_connected and not client.why

        await until(expired)
        assert f"127.0.0.1:{port}" in client.why
        creds.write_text("half written")
        await asyncio.sleep(0)
        operator.write_creds(creds)
        await until(back)
        await client.flush()
        await client.close()

    with single(tmp_path, operator.config) as (port, _):
        asyncio.run(story(port))


def test_a_lone_server_that_does_not_sync_is_refused(tmp_path: Path) -> None:
    """Both faults are named in one message, with the name of the server."""
    with single(tmp_path, f'jetstream {{ store_dir: "{tmp_path}/js" }}') as (port, monitor):
        options = JetStreamOptions((f"nats://127.0.0.1:{port}",), monitors=(monitor,))
        with pytest.raises(SettingsError) as refusal:
            create(options, "id", MB, MB)
    assert "Single does not sync each message: set `jetstream { sync_interval: always }`" in str(refusal.value)
    assert "Single is not part of a cluster" in str(refusal.value)


def test_servers_that_do_not_answer_for_a_stream_are_no_wrong_setting(tmp_path: Path) -> None:
    """A node that starts before its servers have a leader is told to try again, and its supervisor starts it again."""
    with single(tmp_path, "") as (port, _):
        options = JetStreamOptions((f"nats://127.0.0.1:{port}",), unchecked=True)
        with pytest.raises(ClusterUnreachable, match=r"recapito_LOG_0 does not answer .*: wait until most of"):
            connect_all(options)


def test_an_old_server_is_refused() -> None:
    """A server that says it is 2.9 is named, with the version to install."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_pose_as_old, args=(listener,), daemon=True).start()
        options = JetStreamOptions((f"nats://127.0.0.1:{listener.getsockname()[1]}",), unchecked=True)
        with pytest.raises(SettingsError, match=r"127\.0\.0\.1:\d+ is nats-server 2\.9\.25: install 2\.12 or newer"):
            create(options, "id", MB, MB)


def _pose_as_old(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb", buffering=0) as stream:
        stream.write(b'INFO {"server_id":"x","version":"2.9.25","max_payload":1048576,"headers":true}\r\n')
        for line in stream:
            if line.startswith(b"PING"):
                stream.write(b"PONG\r\n")


def test_streams_that_an_operator_has_changed(nats: NatsCluster) -> None:
    """One replica, or sealed against writes: refused with the name of the stream and the remedy."""
    options = nats.options("edited")
    create(options, "id", MB, MB)
    streams = connect(options)
    nats.change(streams.log, num_replicas=1)
    nats.change(streams.lanes, sealed=True)
    streams.close()
    with pytest.raises(SettingsError) as refusal:
        connect(options)
    assert "edited_LOG_0 has 1 replica: edit it to have 3" in str(refusal.value)
    assert "edited_LANES_0 is sealed, which cannot be undone: restore a backup" in str(refusal.value)
