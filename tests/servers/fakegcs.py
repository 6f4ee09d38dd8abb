"""fake-gcs-server with a shim before it that speaks the XML dialect in which the native client writes."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

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
    install = [go, "install", "-ldflags=-s -w", f"github.com/fsouza/fake-gcs-server@v{VERSION}"]
    program = build(
        cache_folder(f"fakegcs-{VERSION}"),
        "fake-gcs-server",
        lambda folder: (install, {"GOBIN": str(folder), "CGO_ENABLED": "0"}),
    )
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
            with urllib.request.urlopen(made, timeout=300):  # noqa: S310 - loopback
                pass
            yield {"storage.endpoint": f"http://{address}", "storage.gcs.bearerToken": "token-of-the-test"}


@contextlib.contextmanager
def _shim(port: int) -> Iterator[str]:
    """A proxy to the server on `port`. It adds no lock: who wins a race is the server's decision."""
    handler = type("Handler", (_Shim,), {"upstream": port, "uploads": {}})
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
    uploads: ClassVar[dict[str, dict[int, bytes]]]

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        if "uploads" in query or "uploadId" in query:
            self._multipart(query, body)
        elif self.command == "PUT":
            self._upload(body)
        else:
            self._forward(self.command, self.path, body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def _multipart(self, query: dict[str, str], body: bytes) -> None:
        """The XML multipart upload, which the server does not know: parts are kept here and sent as one."""
        if "uploads" in query:
            name = uuid.uuid4().hex
            self.uploads[name] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, text.encode(), {})
        elif self.command == "PUT":
            self.uploads[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, b"", {"ETag": f'"{query["partNumber"]}"'})
        else:
            parts = self.uploads.pop(query["uploadId"])
            if self.command == "DELETE":
                self._answer(204, b"", {})
                return
            status, made = self._send_upload(b"".join(parts[number] for number in sorted(parts)))
            text = f"<CompleteMultipartUploadResult><ETag>{made['etag']}</ETag></CompleteMultipartUploadResult>"
            self._answer(status, text.encode(), _version(made))

    def _upload(self, body: bytes) -> None:
        status, made = self._send_upload(body)
        self._answer(status, b"", _version(made) if status == 200 else {})

    def _send_upload(self, body: bytes) -> tuple[int, dict[str, str]]:
        bucket, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        condition = self.headers.get("x-goog-if-generation-match")
        if condition is not None:
            path += f"&ifGenerationMatch={condition}"
        status, _, data = self._ask("POST", path, body)
        return status, json.loads(data)

    def _forward(self, method: str, path: str, body: bytes) -> None:
        status, headers, data = self._ask(method, path, body)
        self._answer(status, data, headers)

    def _ask(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        # With the Host as it came: the server serves objects by path only under its public name.
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        length = str(len(data))
        for name, value in headers.items():
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(data)


def _version(made: dict[str, str]) -> dict[str, str]:
    return {"ETag": f'"{made["etag"]}"', "x-goog-generation": str(made["generation"])}
