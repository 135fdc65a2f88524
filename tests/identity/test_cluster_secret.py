"""The secret of a cluster: signed addresses of clients, sealed papers, and its file."""

from pathlib import Path

import pytest

from recapito.errors import SettingsError
from recapito.identity.cluster_secret import ClusterSecret


def test_another_node_knows_the_address() -> None:
    """A node with the same secret reads the address; one with another secret does not."""
    secret = ClusterSecret.new()
    value = secret.sign("10.0.0.9", 1000)
    assert ClusterSecret.from_text(secret.text, "here").verify(value, 1003) == "10.0.0.9"
    assert ClusterSecret.new().verify(value, 1003) is None


@pytest.mark.parametrize(
    "change", [b"127.0.0.1 1000 ", b"", b"x", b"10.0.0.9 1000", b"10.0.0.9 -1 00", b"\xff \xff \xff"]
)
def test_a_made_up_value_is_worth_nothing(change: bytes) -> None:
    """Whatever a client sends, without the secret it is no address."""
    secret = ClusterSecret.new()
    forged = change + secret.sign("10.0.0.9", 1000).rpartition(b" ")[2] if change.endswith(b" ") else change
    assert secret.verify(forged, 1000) is None


def test_a_signature_ends() -> None:
    """Within ten seconds the bytes are the same; after a minute they are worth nothing, known or not."""
    secret = ClusterSecret.new()
    value = secret.sign("::1", 1000)
    assert secret.sign("::1", 1009) == value
    assert secret.sign("::1", 1010) != value
    assert secret.verify(value, 1060) == "::1"
    assert secret.verify(value, 1061) is None
    assert secret.verify(value, 939) is None


def test_papers_are_sealed() -> None:
    """Papers open under the same secret and name only, and show nothing."""
    secret = ClusterSecret.new()
    sealed = secret.seal("keys", {"connection.key": b"do not show"})
    assert b"do not show" not in sealed
    assert secret.unseal("keys", sealed) == {"connection.key": b"do not show"}
    assert secret.unseal("other", sealed) is None
    assert ClusterSecret.new().unseal("keys", sealed) is None


def test_the_file_is_its_owners(tmp_path: Path) -> None:
    """A missing file names the commands, an open one the remedy, a wrong one the file."""
    path = tmp_path / "cluster.secret"
    with pytest.raises(SettingsError, match="cluster join"):
        ClusterSecret.in_file(path)
    secret = ClusterSecret.new()
    secret.write(path)
    assert ClusterSecret.in_file(path).text == secret.text
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        ClusterSecret.in_file(path)
    path.write_text("nonsense\n")
    path.chmod(0o600)
    with pytest.raises(SettingsError, match=r"cluster\.secret: this is not the secret"):
        ClusterSecret.in_file(path)
    assert secret.text not in repr(secret)
