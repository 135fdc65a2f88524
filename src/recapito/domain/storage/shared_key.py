"""The signature of a request for the properties of a blob, by the key of its storage account."""

from base64 import b64decode, b64encode
from hashlib import sha256
from hmac import digest

VERSION = "2021-12-02"


def sign_head(account: str, key: str, path: str, date: str) -> dict[str, str]:
    """The headers of a HEAD request for `path`, as the URL has it, at an HTTP date."""
    headers = {"x-ms-date": date, "x-ms-version": VERSION}
    signed = "HEAD" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in headers.items()) + f"/{account}{path}"
    signature = b64encode(digest(b64decode(key), signed.encode(), sha256)).decode()
    return {**headers, "Authorization": f"SharedKey {account}:{signature}"}
