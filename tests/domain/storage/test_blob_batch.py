"""Batches of the blob service: the changes in a request, and the results in its answer, told by Content-ID."""

import pytest

from recapito.domain.storage.blob_batch import BatchResult, is_batch, read_batch, read_results

HEADERS = {"host": "127.0.0.1:10000", "content-type": "multipart/mixed; boundary=batch_1"}


def batch(*parts: tuple[str, str], end: str = "\r\n") -> bytes:
    """A body with these parts: an id, and a message."""
    lines = [
        f"--batch_1{end}Content-Type: application/http{end}Content-ID: {id}{end}{end}{text}{end}{end}"
        for id, text in parts
    ]
    return ("".join(lines) + f"--batch_1--{end}").encode()


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_deletions_are_read(end: str) -> None:
    """Each deletion of a blob is a change of the account, whatever ends its lines; other requests are none."""
    body = batch(
        ("0", f"DELETE /account1/c/a%20b HTTP/1.1{end}x-ms-client-request-id: r-1{end}Content-Length: 0"),
        ("1", "DELETE /account1/c/x/y?timeout=30 HTTP/1.1"),
        ("2", "PUT /account1/c/z?comp=tier HTTP/1.1"),
        ("3", "nonsense"),
        end=end,
    )
    found = read_batch(HEADERS, body)
    assert {id: (change.blob, change.api) for id, change in found.items()} == {
        "0": ("a b", "DeleteBlob"),
        "1": ("x/y", "DeleteBlob"),
    }
    assert (found["0"].account, found["0"].host, found["0"].client_request_id) == ("account1", HEADERS["host"], "r-1")


def test_results_are_read() -> None:
    """Each part has its own status and headers; its body is left out."""
    body = batch(
        ("1", "HTTP/1.1 404 Not Found\r\nx-ms-error-code: BlobNotFound\r\n\r\n<Error>HTTP/1.1 202 no</Error>"),
        ("0", "HTTP/1.1 202 Accepted\r\nx-ms-request-id: r"),
    )
    assert read_results(HEADERS, body) == {
        "1": BatchResult(404, {"x-ms-error-code": "BlobNotFound"}),
        "0": BatchResult(202, {"x-ms-request-id": "r"}),
    }


@pytest.mark.parametrize("body", [b"", b"--batch_1", b"--batch_1\r\n\r\n\r\n", b"x" * 100, b"--batch_1--\r\n"])
def test_other_bodies_have_nothing(body: bytes) -> None:
    """A body that is no batch has no changes and no results."""
    assert read_batch(HEADERS, body) == {} == read_results({"content-type": "multipart/mixed"}, body)
    assert read_results(HEADERS, body) == {}


@pytest.mark.parametrize(
    ("method", "target", "found"),
    [
        ("POST", "/a?comp=batch", True),
        ("POST", "/a/c?restype=container&comp=batch", True),
        ("PUT", "/a?comp=batch", False),
    ],
)
def test_which_requests_are_batches(method: str, target: str, found: bool) -> None:
    """A POST with `comp=batch`, at the account or a container."""
    assert is_batch(method, target) is found
