"""The identity of a server: made once, kept for its owner alone, and noticed when it is damaged."""

from pathlib import Path

import pytest

from recapito.errors import SettingsError
from recapito.identity import server_identity


def test_made_once_and_kept(tmp_path: Path) -> None:
    """A second start finds the same key, tenant and principal, in files that only their owner reads."""
    directory = tmp_path / "data" / "identity"
    first, second = (server_identity.prepare(directory, "", for_development=True) for _ in range(2))
    assert first.key.private_numbers() == second.key.private_numbers()
    assert first.development == second.development is not None
    assert first.development is not None and first.tenant == first.development.tenant
    assert {file.name: file.stat().st_mode & 0o777 for file in directory.iterdir()} == {
        "signing-key.pem": 0o600,
        "development.json": 0o600,
    }
    assert directory.stat().st_mode & 0o777 == 0o700


def test_without_a_directory_nothing_is_kept() -> None:
    """In memory each start has an identity of its own."""
    first, second = (server_identity.prepare(None, "", for_development=True) for _ in range(2))
    assert first.key.private_numbers() != second.key.private_numbers()
    assert first.development != second.development


def test_a_tenant_of_ones_own_and_no_development(tmp_path: Path) -> None:
    """The settings may name the tenant; off loopback there is no principal for development."""
    assert server_identity.prepare(tmp_path, "mine", for_development=False)[1:] == ("mine", None)
    development = server_identity.prepare(tmp_path, "mine", for_development=True).development
    assert development is not None and development.tenant == "mine"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("signing-key.pem", b"nonsense", "signing-key.pem is not a private key"),
        ("development.json", b"{}", "development.json is damaged"),
        ("development.json", b"\xff", "development.json is damaged"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    """A file that is not what it should be stops the start, with its path and what to do; it is not overwritten."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError, match=said):
        server_identity.prepare(tmp_path, "", for_development=True)
    assert (tmp_path / name).read_bytes() == content


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    """A path that cannot be written is named."""
    (tmp_path / "identity").write_text("x")
    with pytest.raises(SettingsError, match=r"identity/development\.json cannot be"):
        server_identity.prepare(tmp_path / "identity", "", for_development=True)


def test_no_secret_is_shown() -> None:
    """The representation of an identity may be logged."""
    made = server_identity.prepare(None, "", for_development=True)
    assert made.development is not None
    assert made.development.client_secret not in repr(made)
