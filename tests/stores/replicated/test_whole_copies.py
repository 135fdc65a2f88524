"""Whole copies of streams: a snapshot beside a running owner, and the upgrade of streams to a newer schema."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from recapito.domain.delivery.cursor import Cursor
from recapito.errors import SettingsError, StoreFailed
from recapito.stores.replicated.backend import ReplicatedBackend
from recapito.stores.replicated.convert import digests
from recapito.stores.replicated.database import ReplicatedDatabase
from recapito.stores.sqlite.backend import SqliteOptions
from recapito.stores.sqlite.files.backup import backup, check
from recapito.stores.sqlite.files.connection import DISPATCH, LOG, open_reader
from tests.kit.fake_stream import FakeServer, FakeStream, FakeStreams
from tests.kit.replicated import COPY, ReplicatedStores
from tests.stores.values import new_subscription, new_topic, segment, settlement

OLD = ((LOG, 2), (DISPATCH, 7))
ROWS = 8
INSERTS = {
    "log": "INSERT INTO document VALUES ('k', ?, randomblob(600))",
    "dispatch": "INSERT INTO notice VALUES (?, randomblob(600))",
}


class Cluster:
    """Two streams, and the nodes and commands that reach them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.servers = FakeServer("LOG", max_body=2048), FakeServer("LANES", max_body=2048)

    def backend(self, node: str) -> ReplicatedBackend:
        return ReplicatedBackend(SqliteOptions(self.directory / node, None), FakeStreams(*self.servers), node)

    def found_old(self) -> None:
        """Streams as an older version left them, with its node's directory."""
        (self.directory / "old").mkdir()
        for (kind, version), server in zip(OLD, self.servers, strict=True):
            path, stream = self.directory / "old" / kind.file, FakeStream(server)
            old = kind._replace(version=version)
            with closing(ReplicatedDatabase(path, old, stream, "old", COPY, threaded=False, founding=True)) as database:
                database.found()
                for number in range(ROWS):
                    database.write(lambda connection, n=number, k=kind: connection.execute(INSERTS[k.name], (n,)))

    def upgrade(self, directory: str, breaks_at: int = 0) -> dict[str, tuple[int, int]]:
        """Upgrade; the publish of this number is stored and gets no answer, and the servers are gone after it."""
        backend, published = self.backend(directory), 0

        def fault(verb: str) -> str:
            nonlocal published
            published += verb == "publish"
            for server in self.servers:
                server.missing = 0 < breaks_at < published
            return "lost answer" if published == breaks_at and verb == "publish" else ""

        backend._streams.log.fault = backend._streams.lanes.fault = fault  # type: ignore[attr-defined]
        return asyncio.run(backend.upgrade())


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def rows(directory: Path) -> list[int]:
    """The rows that the older version had written, as a directory of this version has them."""
    counts = []
    for kind, table in ((LOG, "document"), (DISPATCH, "notice")):
        with closing(open_reader(directory / kind.file, kind)) as connection:
            counts.append(connection.execute(f"SELECT count(*) FROM {table} WHERE checksum IS NULL").get)
    return counts


def test_a_snapshot_fits_together_while_the_owner_trims(cluster: Cluster) -> None:
    """The owner moves a cursor and trims behind it between the reads of both streams: they are read on."""
    stores = ReplicatedStores(cluster.directory, FakeStreams(*cluster.servers))
    run = asyncio.run
    run(stores.log.put_topic(new_topic()))
    run(stores.log.put_subscription(new_subscription(1)))
    run(stores.log.append([segment(1, b"event %d" % n) for n in range(5)]))
    lane = run(stores.ledger.open_lane(1, 1, stores.log.id, 2))
    snapshot, moves = cluster.backend("copy"), iter((4, 6))

    def trim_between(verb: str) -> str:
        nonlocal lane
        if verb == "state" and (position := next(moves, None)) is not None:
            run(stores.ledger.settle([settlement(lane, cursor=Cursor((position, 0)))]))
            (lane,) = run(stores.ledger.lanes())
            run(stores.log.trim(1, position))
        return ""

    snapshot._streams.log.fault = trim_between  # type: ignore[attr-defined]
    found = run(snapshot.snapshot())
    assert next(moves, None) is None
    assert found == digests(cluster.directory / "copy")
    check(cluster.directory / "copy")
    run(stores.log.append([segment(1)]))  # nothing was claimed
    run(stores.close())


def test_the_directory_of_a_node_is_not_backed_up_as_a_servers(cluster: Cluster) -> None:
    """Its files are copies, whose owner trims elsewhere."""
    asyncio.run(cluster.backend("node").found())
    with pytest.raises(SettingsError, match="use `recapito cluster backup`"):
        backup(cluster.directory / "node", cluster.directory / "target", print)


def test_an_older_schema_is_refused_and_upgraded(cluster: Cluster) -> None:
    """A node names the command; after it, new nodes and those with copies load everything, and the old is purged."""
    cluster.found_old()
    with pytest.raises(StoreFailed, match="run `recapito cluster upgrade`"):
        asyncio.run(cluster.backend("new").prepare())
    assert cluster.upgrade("beside") == {"log.db": (2, 3), "dispatch.db": (7, 8)}
    assert cluster.upgrade("again") == {"log.db": (3, 3), "dispatch.db": (8, 8)}
    for node in ("new", "old", "third"):
        asyncio.run(cluster.backend(node).prepare())
        assert rows(cluster.directory / node) == [ROWS, ROWS]
        assert digests(cluster.directory / node) == digests(cluster.directory / "new")
    assert asyncio.run(cluster.backend("old").claim()) > 1


def test_an_upgrade_that_breaks_off_is_run_again(cluster: Cluster, tmp_path: Path) -> None:
    """Wherever it stops, the next run finishes it and no row is missing."""
    breaks_at = 0
    while True:
        breaks_at += 1
        world = Cluster(tmp_path / f"at{breaks_at}")
        world.directory.mkdir()
        world.found_old()
        try:
            world.upgrade("broken", breaks_at)
            break
        except StoreFailed:
            pass
        world.upgrade("again")
        asyncio.run(world.backend("node").prepare())
        assert rows(world.directory / "node") == [ROWS, ROWS]
    assert breaks_at > 8
