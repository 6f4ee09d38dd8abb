"""Which place does this text name? The one parser of table URLs and paths, and the one check of keys.

| given                                    | place                                                        |
|------------------------------------------|--------------------------------------------------------------|
| `data/my table`, `/data/50%`, a Path     | local files, taken literally; relative to the working folder |
| `file:/data/my%20table`, `file:///data`  | local files, percent-decoded                                 |
| `s3://bucket/path`, `s3a://…`            | S3, taken literally (`%` is a character of the key)          |
| `az://container/path`                    | Azure; the account comes from the options                    |
| `abfss://container@account.host/path`    | Azure                                                        |
| `gs://bucket/path`                       | Google Cloud Storage                                         |
| `memory://name`, `memory://name/path`    | memory of this process                                       |
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

import msgspec

from indextables.errors import InvalidArgument, NotSupported

__all__ = ["MAX_KEY_BYTES", "Location", "Scheme", "check_key", "check_prefix", "is_key", "parse_location"]

Scheme = Literal["file", "memory", "s3", "az", "gs"]

MAX_KEY_BYTES = 1024
"""The longest key that S3, Azure and GCS all take, counted in UTF-8 from the bucket's root."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=//)|(file):", re.IGNORECASE)
_OBJECT_SCHEMES: dict[str, Scheme] = {
    "s3": "s3",
    "s3a": "s3",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "gs": "gs",
    "memory": "memory",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AZURE_HOST = re.compile(r"([A-Za-z0-9]+)\.[A-Za-z0-9.-]+(?::[0-9]{1,5})?")

# An empty, `.` or `..` part (which covers leading, trailing and double slashes), a control character, a backslash or
# half a surrogate pair. A key must mean the same on every store: control characters cannot be sent to some, and Azure
# takes a backslash for a slash.
_BAD_KEY = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|[\x00-\x1f\x7f\\\ud800-\udfff]")


class Location(msgspec.Struct, frozen=True):
    """A place that a table can live at.

    1. `path` of a local file is absolute and normal; of an object store it has no leading, trailing or double slash.
    2. It is never a bucket's root, `/` or the home folder.
    3. `url` holds no credentials and parses to the same location.
    """

    scheme: Scheme
    bucket: str
    path: str
    host: str = ""
    """Azure only: the host that the URL names, `account.dfs.core.windows.net`."""

    @property
    def account(self) -> str:
        """The Azure account that the URL names, or an empty text."""
        return self.host.partition(".")[0]

    @property
    def outlives_process(self) -> bool:
        """True unless it is in the memory of one process, where no other finds it."""
        return self.scheme != "memory"

    @property
    def url(self) -> str:
        if self.scheme == "file":
            return "file://" + quote(self.path)
        if self.host:
            return f"abfss://{self.bucket}@{self.host}/{self.path}"
        return f"{self.scheme}://{self.bucket}" + (f"/{self.path}" if self.path else "")


def parse_location(url: str | os.PathLike[str]) -> Location:
    """The location that a path or URL names.

    Raises InvalidArgument for what names no place or a dangerous one, and NotSupported for a scheme that is not
    offered. What stands before an `@` is never shown.
    """
    if isinstance(url, os.PathLike):
        path = os.fspath(url)
        if not isinstance(path, str):
            raise InvalidArgument("a table path must be text, not bytes: decode it with os.fsdecode")
        return _local(path)
    if not isinstance(url, str):
        raise InvalidArgument(f"a table is at a path or URL, not at {url!r}")
    match = _SCHEME.match(url)
    if match is None:
        return _local(url)
    scheme, rest = match[0][:-1].lower(), url[match.end() :]
    if scheme == "file":
        return _local_url(rest)
    if scheme not in _OBJECT_SCHEMES:
        message = f"{scheme}:// is not supported: use s3://, az://, abfss://, gs://, memory://, file:/ or a local path"
        raise NotSupported(message, scheme=scheme)
    authority, _, path = rest[2:].partition("/")
    return _object(scheme, authority, path.rstrip("/"))


def is_key(text: str) -> bool:
    """True if the text can name an object: it stays below the root and every store takes it."""
    return _BAD_KEY.search(text) is None


def check_key(key: str) -> str:
    """The key itself. Raises InvalidArgument if it is none."""
    if _BAD_KEY.search(key):
        raise InvalidArgument(
            f"{key!r} is not a key: no part may be empty, '.' or '..', nor hold control characters or a backslash",
            key=key,
        )
    return key


def check_prefix(prefix: str) -> str:
    """The prefix itself: empty, or a key followed by a slash. Raises InvalidArgument."""
    if prefix:
        if not prefix.endswith("/"):
            raise InvalidArgument(f"the prefix {prefix!r} must end with a slash", key=prefix)
        check_key(prefix[:-1])
    return prefix


def _local_url(rest: str) -> Location:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise InvalidArgument("a file: URL must name a path of this machine: file:///absolute/path")
        rest = slash + path
    if not rest.startswith("/"):
        raise InvalidArgument("a file: URL must name an absolute path: file:///absolute/path")
    if "?" in rest or "#" in rest:
        raise InvalidArgument("a file: URL must not hold '?' or '#': write %3F or %23, or give a plain path")
    try:
        return _local(unquote(rest, errors="strict"))
    except UnicodeDecodeError:
        raise InvalidArgument("a file: URL must be percent-encoded UTF-8") from None


def _local(path: str) -> Location:
    if not path.strip():
        raise InvalidArgument("the table path is empty: give a folder of its own")
    if re.search(r"[\x00\ud800-\udfff]", path):
        raise InvalidArgument("a table path must not hold NUL or bytes that are not UTF-8")
    first = path.split("/", 1)[0]
    if first.startswith("~"):
        message = f"{path!r}: '~' is not expanded; use os.path.expanduser(), or './~…' for a folder of that name"
        raise InvalidArgument(message)
    if first.endswith(":") and first[:-1].lower() in {*_OBJECT_SCHEMES, "file", "hdfs"}:
        # pathlib takes one of the two slashes away.
        message = f"a URL is text with two slashes ({first}//…), not a Path; for a folder of that name write ./{first}"
        raise InvalidArgument(message)
    try:
        if ".." in path.split("/"):
            # After a symbolic link it means the parent of its target, so only the file system can tell.
            absolute = os.path.realpath(path)
        else:
            absolute = path if path.startswith("/") else f"{Path.cwd()}/{path}"
    except OSError as error:
        message = f"{path!r} is relative to a working folder that cannot be found: give an absolute path"
        raise InvalidArgument(message) from error
    absolute = "/" + "/".join(part for part in absolute.split("/") if part not in {"", "."})
    if absolute in {"/", os.environ.get("HOME", "/").rstrip("/")}:
        raise InvalidArgument(f"{absolute} cannot be a table: give it a folder of its own")
    return Location(scheme="file", bucket="", path=absolute)


def _object(scheme: str, authority: str, path: str) -> Location:
    kind = _OBJECT_SCHEMES[scheme]
    bucket, at, host = authority.rpartition("@") if "@" in authority else (authority, "", "")
    if at and (kind != "az" or not _NAME.fullmatch(bucket) or not _AZURE_HOST.fullmatch(host)):
        message = f"a {scheme}:// URL must not carry credentials: give them as options or in the environment"
        raise InvalidArgument(message, scheme=scheme)
    if scheme in ("abfs", "abfss") and not at:
        raise InvalidArgument(f"write {scheme}://container@account.dfs.core.windows.net/path", scheme=scheme)
    if not _NAME.fullmatch(bucket):
        raise InvalidArgument(f"a {scheme}:// URL must name a bucket: {scheme}://bucket/path", scheme=scheme)
    if kind != "memory" and not path:
        message = f"{scheme}://{bucket} is the root of a bucket: give the table a path of its own"
        raise InvalidArgument(message, scheme=scheme)
    if path:
        check_key(path)
    return Location(scheme=kind, bucket=bucket, path=path, host=host)
