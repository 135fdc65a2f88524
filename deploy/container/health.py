"""Whether the server in this container is ready: exit code 0 if it is. It asks itself, so any certificate will do."""

import os
import ssl
import sys
import urllib.request

PORT = os.environ.get("RECAPITO_SERVER_PORT", "8585")
ANY_CERTIFICATE = ssl.create_default_context()
ANY_CERTIFICATE.check_hostname = False
ANY_CERTIFICATE.verify_mode = ssl.CERT_NONE


def is_ready(scheme: str) -> bool:
    """Whether /readyz answers that all is well."""
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ANY_CERTIFICATE)
    )
    try:
        with opener.open(f"{scheme}://127.0.0.1:{PORT}/readyz", timeout=4) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(0 if is_ready("http") or is_ready("https") else 1)
