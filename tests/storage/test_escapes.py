"""No key reaches anything outside the table, on files and on object stores."""

from __future__ import annotations

import itertools
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.servers.s3 import S3Server

from indextables.errors import InvalidArgument, ObjectNotFound, StoreError
from indextables.storage import Store, open_store
from indextables.storage.folders import TEMP_FOLDER

CLIMBS = [
    "..",
    ".",
    "...",
    "....",
    "..;",
    "%2e%2e",
    "%252e%252e",
    "..%2f",
    "..\\",
    "..%5c",
    ". .",
    "\u2024\u2024",
    ".. ",
    " ..",
]
TARGETS = ["outside/canary", "../outside/canary", "canary", "etc/passwd", "table2/canary", ""]
ABSOLUTE = [
    "/etc/passwd",
    "//etc/passwd",
    "file:/etc/passwd",
    "file:///etc/passwd",
    "s3://other/key",
    "s3a://bucket/table2/canary",
    "https://user:pw@host/key",
    "~/canary",
    "~root/canary",
    "C:\\canary",
    "\\\\host\\share",
    "canary\0.split",
    "a\nb",
    "*",
    "?",
    "[a-z]*",
    "{a,b}",
    "$HOME/canary",
    "`id`",
    "x" * 300,
    "x/" * 600 + "y",
    "nfc-\u00e9",
    "nfd-e\u0301",
    "dot.",
    "space ",
    "CON",
    "_transaction_log/../../outside/canary",
]


def escape_strings() -> list[str]:
    found = set(ABSOLUTE)
    for climb, depth, target in itertools.product(CLIMBS, range(1, 5), TARGETS):
        path = "/".join([climb] * depth + ([target] if target else []))
        found |= {path, f"/{path}", f"data/{path}", f"data/p=1/{path}", f"./{path}", quote(path, safe=""), f"{path}/"}
    return sorted(found)


def try_everything(store: Store, key: str, source: Path) -> None:
    for call in (
        lambda: store.get(key),
        lambda: store.get_range(key, 0, 1),
        lambda: store.head(key),
        lambda: store.exists(key),
        lambda: list(store.list_from(f"{key}/")),
        lambda: store.delete_many([key]),
        lambda: store.put_if_absent(key, b"escaped"),
        lambda: store.put(key, b"escaped"),
        lambda: store.put_file(key, source),
        lambda: store.delete_many([key]),
    ):
        try:
            call()
        except (InvalidArgument, ObjectNotFound, StoreError):
            continue


def test_there_are_many_escape_strings():
    assert len(escape_strings()) > 1500


def test_no_string_leaves_a_local_table(tmp_path: Path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "table2").mkdir()
    canaries = [tmp_path / "outside/canary", tmp_path / "table2/canary", tmp_path / "canary"]
    for canary in canaries:
        canary.write_bytes(b"alive")
    from indextables.options import Options

    store = open_store(tmp_path / "table", Options({"storage.fsync": "false"}))
    source = tmp_path / "canary"
    for key in escape_strings():
        try_everything(store, key, source)
    assert {path for path in tmp_path.rglob("*") if path.is_file() and "table/" not in str(path)} == set(canaries)
    assert all(canary.read_bytes() == b"alive" for canary in canaries)


def test_no_string_leaves_a_table_on_an_object_store(s3: S3Server, table_name: str, tmp_path: Path):
    store = open_store(s3.table_url(table_name), s3.options())
    source = tmp_path / "source"
    source.write_bytes(b"escaped")
    for key in escape_strings():
        try_everything(store, key, source)
    for request in s3.requests:
        if request.key:
            assert request.bucket == s3.bucket
            assert request.key.startswith(f"{table_name}/")
            assert ".." not in request.key.split("/")
        elif "list-type" in request.query:
            assert f"prefix={table_name}%2F" in request.query
        else:
            assert f"<Key>{table_name}/".encode() in request.body
    assert len(s3.requests) > 1000


@pytest.mark.parametrize("planted", [TEMP_FOLDER, "log", "log/0.json"])
def test_a_planted_link_is_not_written_through(tmp_path: Path, planted: str):
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tmp_path / "table" / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(outside if planted != "log/0.json" else outside / "target")
    store = open_store(tmp_path / "table")
    with pytest.raises(StoreError):
        store.put_if_absent("log/0.json", b"escaped")
    assert list(outside.iterdir()) == []
