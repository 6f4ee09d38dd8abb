"""azurite: Azure's own emulator, installed by npm into a cache outside the checkout."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import shutil
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.servers.process import build, cache_folder, free_port, running

VERSION = "3.35.0"
CONTAINER = "container"
ACCOUNT = "devstoreaccount1"
# The published key of every azurite.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextlib.contextmanager
def azurite() -> Iterator[dict[str, str]]:
    """The options that reach a fresh server with one container, `CONTAINER`. Skips where there is no npm."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("azurite needs node and npm, which are not installed")
    install = [npm, "install", "--no-audit", "--no-fund", f"azurite@{VERSION}", "--prefix"]
    script = build(
        cache_folder(f"azurite-{VERSION}"),
        "node_modules/azurite/dist/src/blob/main.js",
        lambda folder: ([*install, folder], {}),
    )
    port = free_port()
    # By itself it closes connections that rested for five seconds. A request may be on its way just then, on a busy
    # machine at least, and the answer to a conditional put is unknown.
    resting = Path(__file__).with_name("resting.cjs")
    command = [node, "--require", resting, script, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    options = ["--inMemoryPersistence", "--disableTelemetry", "--silent", "--skipApiVersionCheck"]
    with running([*command, *options], port=port):
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _make_container(endpoint)
        yield {
            "storage.endpoint": endpoint,
            "storage.azure.account": ACCOUNT,
            "storage.azure.accountKey": ACCOUNT_KEY,
        }


def _make_container(endpoint: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    # Method, eleven empty standard headers, our headers, then the resource with the account twice, as azurite has it.
    text = (
        "PUT"
        + "\n" * 12
        + "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        + f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    )
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{endpoint}/{CONTAINER}?restype=container"
    made = urllib.request.Request(url, method="PUT", headers=headers)  # noqa: S310 - loopback
    with urllib.request.urlopen(made, timeout=300):  # noqa: S310 - loopback
        pass
