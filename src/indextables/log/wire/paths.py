"""Turns logged paths into the keys they name: one normaliser for everything that touches a data file.

A logged path is relative to the table's root and URL-encoded. An absolute path or URL below the root names the same
file. Every other path is refused here, before anything can be opened or deleted by it.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

import numpy as np
import pyarrow as pa

from indextables.errors import InvalidArgument, NotSupported, PathEscape
from indextables.lazy import pc
from indextables.log.wire.arrays import combined, int64_array, text_array
from indextables.storage.store import LOG_DIR
from indextables.storage.url import Location, parse_location

__all__ = ["MAX_PATH_BYTES", "PathRule", "canonical_path", "canonical_paths", "decode_path", "encode_path", "key_of"]

MAX_PATH_BYTES = 4096

# What stays as it is in a logged path, besides letters, digits and "_.-~".
_SAFE = "/=:@!$&'()*+,;"

# Paths that no rule below could change or refuse. A part that starts with a dot or names the log, and a colon (a
# scheme, perhaps) are left to the rules.
_PART = r"[0-9A-Za-z=@!$&'()*+,;~_-][0-9A-Za-z=@!$&'()*+,;~._-]*"
_PLAIN = rf"\A{_PART}(?:/{_PART})*\z"
_PLAIN_NAME = rf"\A{_PART}\z"
LOG_FOLDERS = (LOG_DIR.rstrip("/"), "_delta_log")
"""The folders of logs, ours and Delta's: nothing below them is a data file."""

_LOG_LIKE = rf"^(?i:{'|'.join(LOG_FOLDERS)})"

_PLAIN_TEXT = re.compile(rf"{_PART}(?:/{_PART})*")
_LOG_TEXT = re.compile(_LOG_LIKE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_FEW = 64
"""So many paths are looked at one by one: no slower, and nothing of Arrow has to be loaded for it."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "az", "abfss": "az", "wasb": "az", "wasbs": "az", "gcs": "gs"}
_MAX_DECODINGS = 8


class PathRule(Enum):
    """How a table logs the paths of its files; `log.protocol.path_rule` says which one it is. It holds for all of them.

    `ENCODED`: URL-encoded once. `ON_DISK`: the name as it is on the disk, percent signs included, as IndexTables4Spark
    does it: `region=a%2Fb/x` names a folder `region=a%2Fb`.
    """

    ENCODED = "encoded"
    ON_DISK = "on disk"

    def key(self, path: str, root_url: str) -> str:
        """The key that a logged path names. Raises PathEscape."""
        return key_of(path, root_url, encoded=self is PathRule.ENCODED)

    def logged(self, key: str) -> str:
        """The logged form of a key."""
        return encode_path(key) if self is PathRule.ENCODED else key

    def canonical(self, path: str, root_url: str) -> str:
        """The one logged form that all spellings of a path share. Raises PathEscape."""
        return self.logged(self.key(path, root_url))


def encode_path(key: str) -> str:
    """The logged form of a key relative to the table's root."""
    encoded = quote(key, safe=_SAFE)
    match = _SCHEME.match(encoded)
    if match is not None:
        # A first part such as `a:b` would read as a URL with a scheme.
        return f"{match[1]}%3A{encoded[match.end() :]}"
    return encoded


def decode_path(path: str) -> str:
    """The key that a relative logged path spells. Raises PathEscape if its bytes are not UTF-8."""
    if "%" not in path:
        return path
    try:
        return unquote_to_bytes(path).decode("utf-8")
    except UnicodeError:
        raise _refused(path, "it is not UTF-8 when decoded") from None


def key_of(path: str, root_url: str, *, encoded: bool = True) -> str:
    """The key, relative to the root, that a logged path names. Raises PathEscape.

    Tables of IndexTables4Spark log names as they stand on disk: `encoded=False` takes them so, under the same checks.
    """
    if len(path) > MAX_PATH_BYTES:
        raise _refused(path[:100] + "...", f"it is longer than {MAX_PATH_BYTES} characters")
    if _PLAIN_TEXT.fullmatch(path) and not _LOG_TEXT.match(path):
        return path
    relative = _relative(path, root_url)
    key = decode_path(relative)
    _check(key, path)
    if not encoded:
        _check(relative, path)
        return relative
    return key


def canonical_path(path: str, root_url: str) -> str:
    """The one logged form that all spellings of an encoded path share. Raises PathEscape."""
    return PathRule.ENCODED.canonical(path, root_url)


def canonical_paths(paths: pa.Array | pa.ChunkedArray, root_url: str, rule: PathRule = PathRule.ENCODED) -> pa.Array:
    """The canonical form of every element, natively where nothing is odd. Raises PathEscape with `row`."""
    column = combined(paths)
    if len(column) <= _FEW:
        texts = column.to_pylist()
        if all(_PLAIN_TEXT.fullmatch(text) and not _LOG_TEXT.match(text) and len(text) <= 1000 for text in texts):
            return column
    plain = pc.match_substring_regex(column, _PLAIN)
    if pc.any(pc.starts_with(column, "_")).as_py():
        plain = pc.and_not(plain, pc.match_substring_regex(column, _LOG_LIKE))
    if pc.max(pc.binary_length(column)).as_py() > MAX_PATH_BYTES:
        plain = pc.and_(plain, pc.less_equal(pc.binary_length(column), MAX_PATH_BYTES))
    if pc.all(plain).as_py():
        return column
    odd = pc.invert(plain)
    some = column.filter(odd)
    try:
        fixed = _by_folder(some, root_url, rule)
    except PathEscape:
        fixed = None
    if fixed is None:
        fixed = _one_by_one(some, root_url, odd, rule)
    return pc.replace_with_mask(column, odd, fixed)


def _by_folder(paths: pa.Array, root_url: str, rule: PathRule) -> pa.Array | None:
    """Folders repeat and names are plain, as a rule: decode each folder once. None if it is not so here."""
    parts = pc.split_pattern(paths, "/", max_splits=1, reverse=True)
    flat = parts.flatten()
    if len(flat) != 2 * len(paths) or not pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        return None
    rows = np.arange(0, len(flat), 2, dtype=np.int64)
    folders, names = flat.take(int64_array(rows)), flat.take(int64_array(rows + 1))
    if not pc.all(pc.match_substring_regex(names, _PLAIN_NAME)).as_py():
        return None
    if pc.max(pc.binary_length(paths)).as_py() > MAX_PATH_BYTES:
        return None
    distinct = folders.dictionary_encode()
    if len(distinct.dictionary) > len(paths) // 2:
        return None
    canonical = text_array([rule.canonical(f"{folder}/x", root_url)[:-1] for folder in distinct.dictionary.to_pylist()])
    return pc.binary_join_element_wise(canonical.take(distinct.indices), names, "")


def _one_by_one(paths: pa.Array, root_url: str, odd: pa.Array, rule: PathRule) -> pa.Array:
    fixed: list[str] = []
    for path in paths.to_pylist():
        try:
            fixed.append(rule.canonical(path, root_url))
        except PathEscape as error:
            row = pc.indices_nonzero(odd)[len(fixed)].as_py()
            raise PathEscape(str(error), **error.details, row=row) from None
    return text_array(fixed)


def _relative(path: str, root_url: str) -> str:
    """The part below the root, still encoded. Raises PathEscape for places elsewhere."""
    match = _SCHEME.match(path)
    if match is None and not path.startswith("/"):
        return path
    if not root_url:
        raise _refused(path, "it is absolute")
    root = _root(root_url)
    scheme, rest = ("file", path) if match is None else (match[1].lower(), path[match.end() :])
    if match is not None and rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
    else:
        authority = ""
    if _SCHEME_ALIASES.get(scheme, scheme) != root.scheme:
        raise _refused(path, f"it lies outside the table at {root_url}")
    expected = f"{root.bucket}@{root.host}" if root.host else root.bucket
    if authority != expected and not (scheme == "file" and authority == "localhost"):
        raise _refused(path, f"it lies outside the table at {root_url}")
    given = rest.lstrip("/").split("/") if rest.startswith("/") else []
    wanted = [part for part in root.path.split("/") if part]
    head, tail = given[: len(wanted)], given[len(wanted) :]
    if not tail or [decode_path(part) for part in head] != wanted:
        raise _refused(path, f"it lies outside the table at {root_url}")
    return "/".join(tail)


def _check(key: str, path: str) -> None:
    """Raises PathEscape unless `key` names a data file below the root, however often somebody decodes it."""
    if not key:
        raise _refused(path, "it is empty")
    if "\x00" in key or "\\" in key:
        raise _refused(path, "it holds a NUL or a backslash")
    if not key.isascii() and _SURROGATE.search(key):
        raise _refused(path, "it is not valid Unicode")
    parts = key.split("/")
    if parts[0].lower() in LOG_FOLDERS:
        raise _refused(path, "it points into the log")
    for part in parts:
        if part in {"", ".", ".."}:
            raise _refused(path, "it has an empty, '.' or '..' part")
        if "%" in part:
            _check_decoded(part, path)


def _check_decoded(part: str, path: str) -> None:
    """A partition folder `column=value` may hold an escaped slash; any other part that decodes to a way out may not."""
    decoded = part
    for _ in range(_MAX_DECODINGS):
        further = unquote_to_bytes(decoded).decode("utf-8", errors="replace")
        if further == decoded:
            break
        decoded = further
    else:
        raise _refused(path, "it is encoded too many times")
    if decoded in {"", ".", ".."} or ("=" not in part and ("/" in decoded or "\\" in decoded)) or "\x00" in decoded:
        raise _refused(path, "it is encoded twice to hide where it leads")


@lru_cache(maxsize=64)
def _root(root_url: str) -> Location:
    try:
        return parse_location(root_url)
    except (InvalidArgument, NotSupported):
        return Location(scheme="memory", bucket="", path=root_url)


def _refused(path: str, why: str) -> PathEscape:
    message = f"the logged path {path!r} is refused: {why}; no file was touched, repair the log to go on"
    return PathEscape(message, path=path, reason=why)
