"""versitygw: a real S3 gateway that checks signatures, built by go into a cache outside the checkout."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.process import build, cache_folder, free_port, running

VERSION = "1.8.0"
BUCKET = "bucket"
ACCESS_KEY = "AKVERSITYVERSITYGW"
SECRET_KEY = "the/secret+of=versity"


def binary() -> Path:
    """The gateway. Skips where there is no go."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("versitygw needs go, which is not installed")
    install = [go, "install", "-ldflags=-s -w", f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"]
    return build(
        cache_folder(f"versitygw-{VERSION}"),
        "versitygw",
        lambda folder: (install, {"GOBIN": str(folder), "CGO_ENABLED": "0"}),
    )


@contextlib.contextmanager
def gateway(folder: Path, port: int | None = None) -> Iterator[tuple[dict[str, str], subprocess.Popen[bytes]]]:
    """The options that reach a gateway to `folder`, and its process. Any number may serve one folder."""
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    command = [binary(), "--port", f"127.0.0.1:{port}", "--access", ACCESS_KEY, "--secret", SECRET_KEY]
    with running([*command, "--quiet", "posix", folder], port=port) as process:
        yield settings(port), process


def settings(port: int) -> dict[str, str]:
    return {
        "storage.endpoint": f"http://127.0.0.1:{port}",
        "storage.region": "us-east-1",
        "storage.accessKey": ACCESS_KEY,
        "storage.secretKey": SECRET_KEY,
    }
