"""An S3 server of our own: every change under one lock, a log of all requests, and faults on demand.

In a test:

    with S3Server() as server:
        store = open_store(server.table_url("t"), server.options())
        server.inject(Fault(method="PUT", key=r"\\.json$", after=503))
        ...
        assert server.count("PUT") == 1

As a process of its own: `python -m tests.servers.s3 --fault-rate 0.05 --seed 1` prints its address and runs until its
standard input ends.
"""

from __future__ import annotations

import argparse
import base64
import bisect
import contextlib
import email.utils
import hashlib
import itertools
import random
import re
import socket
import struct
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from indextables.options import Options

PAGE = 1000
MOST_REQUESTS = 200_000

Answer = int | Literal["reset", "close", "truncate", "error in 200"]
"""A status, a connection that is reset or closed without an answer, a body that ends half way, or a lie."""


@dataclass
class Fault:
    """What shall happen to the next `times` requests that match.

    `before` answers without doing anything; `after` does what was asked and then answers so. `hook` runs before that
    and `hook_after` between effect and answer, in the server's thread: they may wait for the test.
    """

    method: str = ""
    key: str = ""
    query: str = ""
    before: Answer | None = None
    after: Answer | None = None
    hook: Callable[[], object] | None = None
    hook_after: Callable[[], object] | None = None
    times: int = 1
    code: str = "InjectedFault"

    def matches(self, request: Request) -> bool:
        return (
            self.times > 0
            and self.method in ("", request.method)
            and bool(re.search(self.key, request.key))
            and self.query in request.query
        )


@dataclass
class Request:
    method: str
    bucket: str
    key: str
    query: str
    headers: dict[str, str]
    body: bytes = b""
    status: int | str = 0


@dataclass
class Stored:
    data: bytes
    etag: str
    modified: float


@dataclass
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class S3Server:
    """All buckets exist. The flags plant what real stores get wrong."""

    bucket = "bucket"
    access_key = "AKTESTTESTTESTTESTTS"
    secret_key = "secret/of+the=test"

    def __init__(self, *, port: int = 0) -> None:
        self.ignores_conditions = False
        self.is_atomic = True
        self.clock_offset_s = 0.0
        self.shuffles_listings = False
        self.access_keys: set[str] | None = None
        self.echoes_requests = False
        self.undeletable = ""
        self.loses_page_tokens = False
        self.requests: list[Request] = []
        self.connections: set[socket.socket] = set()
        self.lock = threading.RLock()
        self._objects: dict[tuple[str, str], Stored] = {}
        self._order: list[tuple[str, str]] = []
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._faults: list[Fault] = []
        self._chaos: tuple[float, random.Random] | None = None
        self._ids = itertools.count(1)
        self._rendezvous = threading.Condition()
        self._checking: dict[tuple[str, str], int] = {}
        handler = type("Handler", (_Handler,), {"server_object": self})
        self._http = _HttpServer(("127.0.0.1", port), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        with self.lock:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def table_url(self, name: str) -> str:
        return f"s3://{self.bucket}/{name}"

    def settings(self) -> dict[str, str]:
        """The options that reach this server."""
        return {
            "storage.endpoint": self.endpoint,
            "storage.region": "us-east-1",
            "storage.accessKey": self.access_key,
            "storage.secretKey": self.secret_key,
        }

    def options(self, **more: str) -> Options:
        return Options(self.settings() | more, environ={})

    def inject(self, *faults: Fault) -> None:
        with self.lock:
            self._faults.extend(faults)

    def calm(self) -> None:
        """Forget faults, flags and the log; keep the objects."""
        with self.lock:
            self._faults.clear()
            self.requests.clear()
            self._chaos = None
            self.ignores_conditions = self.shuffles_listings = self.echoes_requests = False
            self.is_atomic, self.clock_offset_s, self.access_keys = True, 0.0, None
            self.undeletable, self.loses_page_tokens = "", False

    def chaos(self, rate: float, seed: int) -> None:
        """From now on, each request gets a random fault with this probability."""
        self._chaos = (rate, random.Random(seed))

    def count(self, method: str = "", key: str = "") -> int:
        return sum(method in ("", seen.method) and bool(re.search(key, seen.key)) for seen in list(self.requests))

    def keys(self, below: str = "") -> list[str]:
        with self.lock:
            return sorted(key for _, key in self._objects if key.startswith(below))

    def put_directly(self, key: str, data: bytes) -> None:
        """An object that somebody else made."""
        with self.lock:
            self._store((self.bucket, key), data)

    def data(self, key: str) -> bytes:
        with self.lock:
            return self._objects[self.bucket, key].data

    def note(self, request: Request) -> None:
        """Log a request. A server that runs for hours forgets the oldest."""
        with self.lock:
            self.requests.append(request)
            if len(self.requests) > MOST_REQUESTS:
                del self.requests[: MOST_REQUESTS // 2]

    def _fault_for(self, request: Request) -> Fault | None:
        with self.lock:
            for fault in self._faults:
                if fault.matches(request):
                    fault.times -= 1
                    return fault
            if self._chaos is not None and self._chaos[1].random() < self._chaos[0]:
                chance = self._chaos[1]
                answers: list[Answer] = [500, 503, "reset", "close"]
                if request.method == "PUT":
                    answers += [409, 412]
                answer = chance.choice(answers)
                return Fault(after=answer) if chance.random() < 0.5 and answer != 409 else Fault(before=answer)
        return None

    def answer(self, request: Request) -> Reply:
        if self.access_keys is not None:
            found = re.search(r"Credential=([^/]+)/", request.headers.get("authorization", ""))
            if found is None or found[1] not in self.access_keys:
                return self._refusal(request)
        query = {name: values[0] for name, values in parse_qs(request.query, keep_blank_values=True).items()}
        if not request.key:
            return self._bucket_request(request, query)
        place = (request.bucket, request.key)
        if "uploads" in query or "uploadId" in query:
            return self._multipart(request, query, place)
        if request.method == "PUT":
            return self._put(request, place)
        with self.lock:
            if request.method == "DELETE":
                self._delete(place)
                return Reply(204)
            stored = self._objects.get(place)
        if stored is None:
            return _error(404, "NoSuchKey")
        return _read(stored, request.headers.get("range"))

    def _refusal(self, request: Request) -> Reply:
        """Some gateways answer with all that they were sent."""
        sent = f"{request.method} {request.key}?{request.query} {request.headers}" if self.echoes_requests else ""
        return _error(403, escape(f"InvalidAccessKeyId {sent}"))

    def _put(self, request: Request, place: tuple[str, str]) -> Reply:
        conditional = "if-none-match" in request.headers and not self.ignores_conditions
        if not self.is_atomic and conditional:
            with self.lock:
                taken = place in self._objects
            self._wait_for_rival(place)
            if taken:
                return _error(412, "PreconditionFailed")
            conditional = False
        with self.lock:
            stored = self._objects.get(place)
            if conditional and stored is not None:
                return _error(412, "PreconditionFailed")
            if "if-match" in request.headers and (stored is None or stored.etag != request.headers["if-match"]):
                return _error(412, "PreconditionFailed")
            etag = self._store(place, request.body).etag
            request.body = b""
            return Reply(200, headers={"ETag": etag})

    def _wait_for_rival(self, place: tuple[str, str]) -> None:
        """Between check and act, wait for a second request to the key, so that the planted race is a certainty."""
        with self._rendezvous:
            self._checking[place] = self._checking.get(place, 0) + 1
            self._rendezvous.notify_all()
            self._rendezvous.wait_for(lambda: self._checking[place] > 1, timeout=120)

    def _store(self, place: tuple[str, str], data: bytes) -> Stored:
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        if place not in self._objects:
            bisect.insort(self._order, place)
        stored = self._objects[place] = Stored(data, etag, time.time() + self.clock_offset_s)
        return stored

    def _delete(self, place: tuple[str, str]) -> None:
        if self._objects.pop(place, None) is not None:
            del self._order[bisect.bisect_left(self._order, place)]

    def _multipart(self, request: Request, query: dict[str, str], place: tuple[str, str]) -> Reply:
        with self.lock:
            if "uploads" in query:
                upload = f"upload-{next(self._ids)}"
                self._uploads[upload] = {}
                return _xml(
                    f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                )
            parts = self._uploads.get(query["uploadId"])
            if parts is None:
                return _error(404, "NoSuchUpload")
            if request.method == "PUT":
                parts[int(query["partNumber"])] = request.body
                return Reply(200, headers={"ETag": f'"{hashlib.md5(request.body, usedforsecurity=False).hexdigest()}"'})
            del self._uploads[query["uploadId"]]
            if request.method == "DELETE":
                return Reply(204)
            stored = self._store(place, b"".join(parts[number] for number in sorted(parts)))
            return _xml(
                f"<CompleteMultipartUploadResult><ETag>{escape(stored.etag)}</ETag></CompleteMultipartUploadResult>"
            )

    def _bucket_request(self, request: Request, query: dict[str, str]) -> Reply:
        if request.method == "POST" and "delete" in query:
            keys = [node.text or "" for node in ET.fromstring(request.body).iter() if node.tag.endswith("Key")]  # noqa: S314 - our client wrote it
            answers = []
            with self.lock:
                for key in keys:
                    kind, reason = "Deleted", ""
                    if self.undeletable and re.search(self.undeletable, key):
                        kind, reason = "Error", "<Code>AccessDenied</Code><Message>Access Denied</Message>"
                    else:
                        self._delete((request.bucket, key))
                    answers.append(f"<{kind}><Key>{escape(key)}</Key>{reason}</{kind}>")
            return _xml(f"<DeleteResult>{''.join(answers)}</DeleteResult>")
        if request.method == "GET" and query.get("list-type") == "2":
            return self._list(request.bucket, query)
        return _error(501, "NotImplemented")

    def _list(self, bucket: str, query: dict[str, str]) -> Reply:
        prefix = query.get("prefix", "")
        after = query.get("start-after", "")
        if "continuation-token" in query:
            after = base64.urlsafe_b64decode(query["continuation-token"]).decode()
        size = min(int(query.get("max-keys", PAGE)), PAGE)
        page: list[tuple[str, Stored]] = []
        token = ""
        with self.lock:
            start = (
                bisect.bisect_right(self._order, (bucket, after))
                if after > prefix
                else bisect.bisect_left(self._order, (bucket, prefix))
            )
            for place in itertools.islice(self._order, start, None):
                if place[0] != bucket or not place[1].startswith(prefix):
                    break
                if len(page) == size:
                    token = base64.urlsafe_b64encode(page[-1][0].encode()).decode()
                    break
                page.append((place[1], self._objects[place]))
        if self.shuffles_listings:
            page.reverse()
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.data)}</Size><ETag>{escape(stored.etag)}</ETag>"
            f"<LastModified>{_iso(stored.modified)}</LastModified></Contents>"
            for key, stored in page
        )
        more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token and not self.loses_page_tokens else ""
        return _xml(
            f"<ListBucketResult><Name>{bucket}</Name><KeyCount>{len(page)}</KeyCount>"
            f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated>{more}{contents}</ListBucketResult>"
        )


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_object: S3Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.server_object.lock:
            self.server_object.connections.add(self.connection)

    def finish(self) -> None:
        with self.server_object.lock:
            self.server_object.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass

    def _handle(self) -> None:
        server = self.server_object
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = Request(self.command, bucket, key, url.query, headers, body)
        server.note(request)
        fault = server._fault_for(request)
        if fault is not None and fault.hook is not None:
            fault.hook()
        if fault is not None and fault.before is not None:
            self._send_fault(request, fault.before, Reply(200), fault.code)
            return
        reply = server.answer(request)
        if fault is not None and fault.hook_after is not None:
            fault.hook_after()
        if fault is not None and fault.after is not None:
            self._send_fault(request, fault.after, reply, fault.code)
        else:
            self._send(request, reply)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def _send_fault(self, request: Request, answer: Answer, reply: Reply, code: str) -> None:
        request.status = answer
        if isinstance(answer, int):
            self._send(request, _error(answer, code))
            return
        if answer == "error in 200":
            self._send(request, Reply(200, _error(500, code).body))
            return
        self.close_connection = True
        if answer == "truncate":
            self._send(request, reply, length=len(reply.body) // 2)
        with contextlib.suppress(OSError):
            if answer == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
            self.connection.close()

    def _send(self, request: Request, reply: Reply, *, length: int | None = None) -> None:
        request.status = request.status or reply.status
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in reply.headers:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body[:length])
        self.wfile.flush()


def _read(stored: Stored, wanted: str | None) -> Reply:
    headers = {
        "ETag": stored.etag,
        "Last-Modified": email.utils.formatdate(stored.modified, usegmt=True),
        "Content-Length": str(len(stored.data)),
    }
    if wanted is None:
        return Reply(200, stored.data, headers)
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted)
    if found is None:
        return _error(400, "InvalidArgument")
    size = len(stored.data)
    start = int(found[1]) if found[1] else max(size - int(found[2]), 0)
    end = min(int(found[2]) + 1, size) if found[1] and found[2] else size
    if start >= size:
        return _error(416, "InvalidRange")
    headers["Content-Length"] = str(end - start)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Reply(206, stored.data[start:end], headers)


def _xml(text: str) -> Reply:
    return Reply(200, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode(), {"Content-Type": "application/xml"})


def _error(status: int, code: str) -> Reply:
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return Reply(status, body.encode(), {"Content-Type": "application/xml"})


def _iso(seconds: float) -> str:
    millis = int(seconds * 1000) % 1000
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{millis:03d}Z"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fault-rate", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with S3Server(port=arguments.port) as server:
        if arguments.fault_rate:
            server.chaos(arguments.fault_rate, arguments.seed)
        print(server.endpoint, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
