"""fake-gcs-server with a shim before it that speaks the XML dialect in which the native client writes."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

from tests.servers.process import build, cache_folder, free_port, running

VERSION = "1.56.1"
BUCKET = "bucket"


@contextlib.contextmanager
def fake_gcs() -> Iterator[dict[str, str]]:
    """The options that reach a fresh server with one bucket, `BUCKET`. Skips where there is no go."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("fake-gcs-server needs go, which is not installed")
    folder = cache_folder(f"fakegcs-{VERSION}")
    module = f"github.com/fsouza/fake-gcs-server@v{VERSION}"
    environment = {"GOBIN": str(folder), "CGO_ENABLED": "0"}
    program: Path = build(folder, "fake-gcs-server", [go, "install", "-ldflags=-s -w", module], environment)
    port = free_port()
    with _shim(port) as address:
        command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
        with running([*command, "-public-host", address], port=port):
            body = json.dumps({"name": BUCKET}).encode()
            made = urllib.request.Request(
                f"http://127.0.0.1:{port}/storage/v1/b?project=test",
                data=body,
                method="POST",
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(made, timeout=30):  # noqa: S310 - loopback
                pass
            yield {"storage.endpoint": f"http://{address}", "storage.gcs.bearerToken": "token-of-the-test"}


@contextlib.contextmanager
def _shim(port: int) -> Iterator[str]:
    """A proxy to the server on `port`. It adds no lock: who wins a race is the server's decision."""
    handler = type("Handler", (_Shim,), {"upstream": port})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Shim(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream = 0

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        method, path = self.command, self.path
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        is_put = method == "PUT" and not urlsplit(path).query
        if is_put:
            bucket, _, key = unquote(urlsplit(path).path).lstrip("/").partition("/")
            path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
            condition = self.headers.get("x-goog-if-generation-match")
            if condition is not None:
                path += f"&ifGenerationMatch={condition}"
            method = "POST"
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        if is_put and answer.status == 200:
            made = json.loads(data)
            self.send_header("ETag", f'"{made["etag"]}"')
            self.send_header("x-goog-generation", str(made["generation"]))
        length = answer.getheader("Content-Length") if method == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if method != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward
