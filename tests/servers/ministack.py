"""ministack: the dialect of S3 as somebody else understands it."""

from __future__ import annotations

import contextlib
import sys
import urllib.request
from collections.abc import Iterator

from tests.servers.process import free_port, running

BUCKET = "bucket"


@contextlib.contextmanager
def ministack() -> Iterator[dict[str, str]]:
    """The options that reach a fresh server with one bucket, `BUCKET`."""
    port = free_port()
    environment = {
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3",
        "LOG_LEVEL": "WARNING",
    }
    with running([sys.executable, "-m", "ministack"], port=port, env=environment):
        endpoint = f"http://127.0.0.1:{port}"
        made = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")  # noqa: S310 - loopback
        with urllib.request.urlopen(made, timeout=300):  # noqa: S310 - loopback
            pass
        yield {
            "storage.endpoint": endpoint,
            "storage.region": "us-east-1",
            "storage.accessKey": "test",
            "storage.secretKey": "test-secret",
        }
