"""The promises of every vault, held against each implementation; and those of the directory vault beyond them."""

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recapito.contracts.vault import Vault, VaultUnavailable
from recapito.vaults.blob import BlobVault
from recapito.vaults.directory import DirectoryVault
from recapito.vaults.memory import MemoryVault
from tests.azurite.place import new_container, reaching

PATH = "ORDERS-HOOK/2030/1/2/3/7d0c.json"


class World(NamedTuple):
    """A vault, what it calls the containers `orders` and `returns`, and a way to read what is in them."""

    vault: Vault
    orders: str
    returns: str
    read: Callable[[str, str], bytes]


def memory_world() -> World:
    vault = MemoryVault()
    return World(vault, "orders", "returns", lambda container, path: vault.files[container, path])


def directory_world(root: Path) -> World:
    return World(
        DirectoryVault(root), "orders", "returns", lambda container, path: (root / container / path).read_bytes()
    )


def blob_world(azurite: Any, storage_clients: Any) -> World:
    places = new_container(azurite), new_container(azurite)
    return World(
        BlobVault(storage_clients), *places, lambda container, path: azurite.read_blob(container.split("/")[-1], path)
    )


@pytest.fixture(params=["memory", "directory", pytest.param("blob", marks=pytest.mark.xdist_group("azurite"))])
def world(request: pytest.FixtureRequest, tmp_path: Path, run: Any) -> Iterator[World]:
    """A vault of each kind."""
    if request.param == "memory":
        yield memory_world()
    elif request.param == "directory":
        yield directory_world(tmp_path / "data" / "deadletters")
    else:
        azurite = request.getfixturevalue("azurite")
        storage_clients = reaching(azurite.connection)
        yield blob_world(azurite, storage_clients)
        run(storage_clients.close())


def test_what_was_written_is_there(world: World, run: Any) -> None:
    """A file is there, byte for byte, when the write returns."""
    for content in (b"", b"[]", bytes(range(256)) * 10_000):
        run(world.vault.write(world.orders, PATH, content))
        assert world.read(world.orders, PATH) == content


def test_a_repeated_write_replaces(world: World, run: Any) -> None:
    """A second write of one path leaves one file, the second one."""
    run(world.vault.write(world.orders, PATH, b"a longer first one"))
    run(world.vault.write(world.orders, PATH, b"second"))
    assert world.read(world.orders, PATH) == b"second"


def test_a_receipt_is_of_a_blob(world: World, run: Any) -> None:
    """Where a service has taken a blob it says which and under which tag; the URL has no signature."""
    receipt = run(world.vault.write(world.orders, PATH, b"[]"))
    if not isinstance(world.vault, BlobVault):
        assert receipt is None
        return
    assert receipt.url.endswith(f"/{world.orders.rpartition('/')[2]}/{PATH}") and "?" not in receipt.url
    assert re.fullmatch("0x[0-9A-F]+", receipt.etag) and receipt.request_id and receipt.client_request_id


def test_containers_and_paths_are_apart(world: World, run: Any) -> None:
    """One path in two containers is two files, and so are two paths in one."""
    files = {(world.orders, "a.json"): b"1", (world.returns, "a.json"): b"2", (world.orders, "A/a.json"): b"3"}
    for (container, path), content in files.items():
        run(world.vault.write(container, path, content))
    assert {name: world.read(*name) for name in files} == files


FILES = {
    "A/2030/1/2/3/b.json": b"1",
    "A/2030/1/2/3/a.json": b"2",
    "A/2030/10/2/3/a.json": b"3",
    "A-B/2030/1/2/3/a.json": b"4",
    "B/2030/1/2/3/a.json": b"5",
}


def test_files_are_found_in_their_order(world: World, run: Any) -> None:
    """Paths under a prefix are listed in their order, from any of them on, as many as wanted."""
    assert run(world.vault.paths(world.orders, "A/", "", 10)) == []
    for path, content in FILES.items():
        run(world.vault.write(world.orders, path, content))
    own = sorted(path for path in FILES if path.startswith("A/"))
    assert run(world.vault.paths(world.orders, "A/", "", 10)) == own
    assert run(world.vault.paths(world.orders, "A/", own[0], 10)) == own[1:]
    assert run(world.vault.paths(world.orders, "A/", "", 2)) == own[:2]
    assert run(world.vault.paths(world.orders, "A/", own[-1], 2)) == []
    assert run(world.vault.paths(world.returns, "A/", "", 10)) == []


def test_folders_are_what_paths_begin_with(world: World, run: Any) -> None:
    """The first step of every path is a folder, a file that lies in none is not; each container has its own."""
    assert run(world.vault.folders(world.orders)) == frozenset()
    for path, content in FILES.items():
        run(world.vault.write(world.orders, path, content))
    run(world.vault.write(world.orders, "C.json", b"6"))
    run(world.vault.write(world.returns, "D/2030/1/2/3/a.json", b"7"))
    assert run(world.vault.folders(world.orders)) == {"A", "A-B", "B"}


def test_files_are_read_again(world: World, run: Any) -> None:
    """A written file is read byte for byte; an absent one is None."""
    assert run(world.vault.read(world.orders, PATH)) is None
    for content in (b"", bytes(range(256)) * 10_000):
        run(world.vault.write(world.orders, PATH, content))
        assert run(world.vault.read(world.orders, PATH)) == content
    assert run(world.vault.read(world.returns, PATH)) is None


def test_files_are_removed_once_and_again(world: World, run: Any) -> None:
    """A removed file is gone, and removing it again is no failure; its neighbours stay."""
    other = PATH.replace("7d0c", "8e1d")
    for path in (PATH, other):
        run(world.vault.write(world.orders, path, b"[]"))
    for _ in range(2):
        run(world.vault.delete(world.orders, PATH))
    run(world.vault.delete(world.returns, "NOBODY/1/1/1/1/x.json"))
    assert run(world.vault.read(world.orders, PATH)) is None
    assert run(world.vault.paths(world.orders, "ORDERS-HOOK/", "", 10)) == [other]


def test_memory_vault_down() -> None:
    """A vault that is down says so, writes nothing, and works when it is back."""
    vault = MemoryVault()
    vault.down = True
    with pytest.raises(VaultUnavailable) as caught:
        asyncio.run(vault.write("orders", PATH, b"[]"))
    assert (caught.value.missing, vault.files) == (False, {})
    vault.down = False
    asyncio.run(vault.write("orders", PATH, b"[]"))
    assert list(vault.files) == [("orders", PATH)]


def test_memory_vault_without_a_container() -> None:
    """A missing container is told apart from a vault that is down."""
    vault = MemoryVault()
    vault.missing.add("orders")
    with pytest.raises(VaultUnavailable) as caught:
        asyncio.run(vault.write("orders", PATH, b"[]"))
    assert caught.value.missing


def files_in(directory: Path) -> set[str]:
    return {str(file.relative_to(directory)) for file in directory.rglob("*") if not file.is_dir()}


OUTSIDE = [
    *(
        ("..", "a.json"),
        (".", "a.json"),
        ("", "a.json"),
        ("a/b/c", "d.json"),
        ("a/..", "c.json"),
        ("a/", "c.json"),
        ("/tmp", "a.json"),
        ("a\\b", "c.json"),
    ),
    *(("orders", ""), ("orders", ".."), ("orders", "../a.json"), ("orders", "a/../../b.json"), ("orders", "/a.json")),
    *(("orders", "a//b.json"), ("orders", "a/"), ("orders", "./a"), ("orders", "a\\..\\b"), ("orders", "a\0b")),
    ("orders", "a\nb"),
]


@pytest.mark.parametrize(("container", "path"), OUTSIDE)
def test_nothing_outside_the_root(tmp_path: Path, container: str, path: str) -> None:
    """A container or a path that is not a plain relative one is refused, and nothing is written anywhere."""
    with pytest.raises(VaultUnavailable):
        asyncio.run(DirectoryVault(tmp_path / "root").write(container, path, b"x"))
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize("link", ["orders", "orders/ORDERS-HOOK"])
def test_no_symbolic_link_leads_out(tmp_path: Path, link: str) -> None:
    """A link below the root is not followed, wherever it points to."""
    outside = tmp_path / "outside"
    outside.mkdir()
    place = tmp_path / "root" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    with pytest.raises(VaultUnavailable):
        asyncio.run(DirectoryVault(tmp_path / "root").write("orders", PATH, b"x"))
    assert files_in(outside) == set()


def test_a_linked_file_is_replaced_not_followed(tmp_path: Path) -> None:
    """Where the file to be written is a link, the link goes and its target stays as it was."""
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "root" / "orders").mkdir(parents=True)
    (tmp_path / "root" / "orders" / "a.json").symlink_to(target)
    asyncio.run(DirectoryVault(tmp_path / "root").write("orders", "a.json", b"x"))
    assert target.read_bytes() == b"mine"
    assert (tmp_path / "root" / "orders" / "a.json").read_bytes() == b"x"


@pytest.mark.parametrize("blocked", ["root", "root/orders", "root/orders/ORDERS-HOOK"])
def test_an_error_of_the_file_system_is_unavailability(tmp_path: Path, blocked: str) -> None:
    """A file where a directory should be makes the vault unavailable, with the reason, until it is gone."""
    obstacle = tmp_path / blocked
    obstacle.parent.mkdir(parents=True, exist_ok=True)
    obstacle.write_bytes(b"")
    vault = DirectoryVault(tmp_path / "root")
    with pytest.raises(VaultUnavailable, match="could not write") as caught:
        asyncio.run(vault.write("orders", PATH, b"x"))
    assert not caught.value.missing
    obstacle.unlink()
    asyncio.run(vault.write("orders", PATH, b"x"))
    assert files_in(tmp_path / "root") == {f"orders/{PATH}"}


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    """When the file cannot be put in its place, no half of it stays, and no descriptor."""
    (tmp_path / "root" / "orders" / "a.json").mkdir(parents=True)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(VaultUnavailable):
        asyncio.run(DirectoryVault(tmp_path / "root").write("orders", "a.json", b"x"))
    assert files_in(tmp_path / "root") == set()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_container_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """A directory that was removed between two writes is made again."""
    vault = DirectoryVault(tmp_path / "root")
    asyncio.run(vault.write("orders", "a/b.json", b"1"))
    (tmp_path / "root/orders/a/b.json").unlink()
    (tmp_path / "root/orders/a").rmdir()
    asyncio.run(vault.write("orders", "a/b.json", b"2"))
    assert files_in(tmp_path / "root") == {"orders/a/b.json"}


WRITE_ONE = """
import asyncio, pathlib, sys
from recapito.vaults.blob import BlobVault
from recapito.vaults.directory import DirectoryVault
asyncio.run(DirectoryVault(pathlib.Path(sys.argv[1])).write("orders", "A/a.json", b"x"))
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_order_of_syncs(tmp_path: Path) -> None:
    """The content is synced before the file gets its name; each directory is synced after what changed in it."""
    watched = "trace=mkdir,mkdirat,rename,renameat,renameat2,fsync,fdatasync"
    command = ["strace", "-f", "-y", "-e", watched, sys.executable, "-c", WRITE_ONE, str(tmp_path / "root")]
    traced = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    calls = [line.replace(str(tmp_path), "").replace('"', "") for line in traced.splitlines() if str(tmp_path) in line]
    assert [re.sub(r"[0-9]+<(.*?)>", r"<\1>", call.partition(")")[0]) for call in calls] == [
        "mkdir(/root, 0777",
        "fsync(<>",
        "mkdirat(</root>, orders, 0777",
        "fsync(</root>",
        "mkdirat(</root/orders>, A, 0777",
        "fsync(</root/orders>",
        "fsync(</root/orders/A/.a.json.tmp>",
        "renameat(</root/orders/A>, .a.json.tmp, </root/orders/A>, a.json",
        "fsync(</root/orders/A>",
    ]
