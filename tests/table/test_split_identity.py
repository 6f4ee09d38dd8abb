"""Every split knows who it is, and every reader asks: the bytes of another split never answer for it."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import indextables
from indextables.errors import SplitCorrupt

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string()), ("body", pa.string())])
PROPERTIES = {"indexing.typemap.body": "text"}
ROWS = 40
STARTS = (1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000)
PLACES = ("size", "numRecords", "footerStartOffset", "footerEndOffset", "hotcacheStartOffset", "hotcacheLength")


def rows(first: int, count: int = ROWS) -> pa.Table:
    body = [f"say fghij {i % 7}" for i in range(count)]
    return pa.table({"id": range(first, first + count), "word": ["fghij"] * count, "body": body}, schema=SCHEMA)


def pair(path: Path) -> tuple[indextables.Table, list[Path]]:
    """A table of two splits."""
    table = indextables.create(path, SCHEMA, properties=PROPERTIES)
    for first in STARTS[:2]:
        table.append(rows(first))
    return table, [path / name for name in table.files()["path"].to_pylist()]


@pytest.fixture(scope="module")
def alike(tmp_path_factory) -> tuple[Path, list[str]]:
    """A table with two splits of other rows whose bytes are laid out alike, so that only their ids tell them apart.

    How long a split is depends on its id by a few bytes: rows are written until two are alike.
    """
    path = tmp_path_factory.mktemp("alike") / "t"
    table = indextables.create(path, SCHEMA, properties=PROPERTIES, options={"storage.fsync": False})
    seen: dict[object, tuple[int, str]] = {}
    for number in range(100):
        first = STARTS[number % len(STARTS)]
        table.append(rows(first))
        newest = max(table.files().to_pylist(), key=lambda file: file["addedAtVersion"])
        other, file = seen.setdefault(tuple(newest[name] for name in PLACES), (first, newest["path"]))
        if other != first:
            return path, [file, newest["path"]]
    raise AssertionError(seen)


@pytest.fixture
def twins(alike, tmp_path) -> list[Path]:
    path, files = alike
    shutil.copytree(path, tmp_path / "t")
    return [tmp_path / "t" / file for file in files]


READS: dict[str, Callable[[indextables.Table], object]] = {
    "scan": lambda t: t.to_arrow(),
    "scan of a column": lambda t: t.to_arrow(columns=["word"]),
    "where": lambda t: t.to_arrow(where="word = 'fghij'"),
    "count of a query": lambda t: t.count("body:fghij"),
    "count of a predicate": lambda t: t.count(where="id > 3 AND word = 'fghij'"),
    "search": lambda t: t.search("body:fghij", limit=5),
    "all hits": lambda t: t.search("body:fghij", limit=None),
    "highlights": lambda t: t.search("body:fghij", limit=5, highlight=["body"]),
    "aggregate": lambda t: t.aggregate("body:fghij", {"n": {"terms": {"field": "word"}}}),
    "sql": lambda t: t.sql("SELECT count(*) FROM t WHERE word = 'fghij'"),
    "sql search": lambda t: t.sql("SELECT id FROM t WHERE TEXTSEARCH(body, 'fghij') ORDER BY id"),
    "sizes": lambda t: t.sizes(),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", READS)
def test_a_split_with_the_bytes_of_another_is_refused_by_every_read(tmp_path, twins, verb):
    first, second = twins
    shutil.copyfile(first, second)
    with pytest.raises(SplitCorrupt, match="holds the bytes of split"):
        READS[verb](indextables.open(tmp_path / "t"))


@pytest.mark.parametrize("handle", ["the same", "a new one"])
@pytest.mark.parametrize("verb", READS)
def test_so_it_is_with_caches_that_were_filled_before(tmp_path, twins, verb, handle):
    """What is cached was read from the right bytes and may answer; what is read now must not come from the others."""
    table, (first, second) = indextables.open(tmp_path / "t"), twins
    expected = {name: told(read(table)) for name, read in READS.items() if name == verb}
    shutil.copyfile(first, second)
    try:
        answer = told(READS[verb](table if handle == "the same" else indextables.open(tmp_path / "t")))
    except SplitCorrupt:
        return
    assert answer == expected[verb]


def test_rows_of_hits_do_not_come_from_another_split_that_took_the_place_of_one_whose_index_is_open(tmp_path, twins):
    table, (first, second) = indextables.open(tmp_path / "t"), twins
    every = table.search("body:fghij", limit=None, columns=["word"])
    shutil.copyfile(first, second)
    with pytest.raises(SplitCorrupt, match="the file has changed"):
        table.search("body:fghij", limit=every.num_rows)


def test_maintenance_passes_over_such_a_split_and_says_why(tmp_path):
    _, (first, second) = pair(tmp_path / "t")
    in_place_of(second, first)
    table = indextables.open(tmp_path / "t")
    key = str(second.relative_to(tmp_path / "t"))
    assert list(table.prewarm().failed) == [key]
    assert not table.merge_splits().merged_groups
    assert table.skips()["path"].to_pylist() == [key]
    assert list(table.reindex(force=True).failed) == [key]
    findings = [f for f in indextables.verify(tmp_path / "t").findings if f.severity == "error"]
    assert [(f.kind, f.key) for f in findings] == [("data-file", key)]


def test_every_writer_gives_its_splits_an_id_and_restore_keeps_it(tmp_path):
    table, _ = pair(tmp_path / "t")
    ids = [set(table.files()["splitId"].to_pylist())]
    table.merge_splits()
    ids.append(set(table.files()["splitId"].to_pylist()))
    table.reindex(force=True)
    ids.append(set(table.files()["splitId"].to_pylist()))
    table.overwrite(rows(7))
    ids.append(set(table.files()["splitId"].to_pylist()))
    assert None not in set.union(*ids)
    assert [len(some) for some in ids] == [2, 1, 1, 1]
    assert len(set.union(*ids)) == 5
    table.restore(version=2)
    assert set(table.files()["splitId"].to_pylist()) == ids[0]
    for form in ("avro", "json", "parquet"):
        table.append(rows(8))
        written = indextables.open(tmp_path / "t", options={"state.format": form})
        written.checkpoint()
        assert set(indextables.open(tmp_path / "t").files()["splitId"].to_pylist()) >= ids[0]
    assert indextables.open(tmp_path / "t").to_arrow().num_rows == 5 * ROWS


def test_a_rebuilt_log_has_the_ids_and_leaves_out_a_split_that_lies_under_the_name_of_another(tmp_path):
    table, (first, second) = pair(tmp_path / "t")
    before = set(table.files()["splitId"].to_pylist())
    indextables.rebuild(tmp_path / "t", at=tmp_path / "new")
    shutil.copytree(tmp_path / "t", tmp_path / "t2")
    shutil.rmtree(tmp_path / "t2" / "_transaction_log")
    indextables.rebuild(tmp_path / "t2")
    assert set(indextables.open(tmp_path / "t2").files()["splitId"].to_pylist()) == before
    shutil.rmtree(tmp_path / "t" / "_transaction_log")
    shutil.copyfile(first, second)
    report = indextables.rebuild(tmp_path / "t")
    assert "holds the bytes of split" in str(report)
    assert indextables.open(tmp_path / "t").count("body:fghij") == ROWS


@pytest.mark.slow
def test_a_split_that_the_log_knows_by_no_id_is_told_by_its_size_and_its_footer(tmp_path):
    """As in tables of older writers: whose splits are laid out alike in every byte count cannot be told apart."""
    table = indextables.create(tmp_path / "t", SCHEMA, properties=PROPERTIES)
    for first_row in (0, 100, 200):
        table.append(rows(first_row))
    table.append(rows(300, ROWS + 1))
    first, *_, fourth = [tmp_path / "t" / path for path in table.files()["path"].to_pylist()]
    for version in (1, 2, 3, 4):
        without_ids(tmp_path / "t" / "_transaction_log" / f"{version:020d}.json")
    indextables.invalidate_caches()
    plain = indextables.open(tmp_path / "t")
    assert plain.files()["splitId"].null_count == 4
    assert plain.count("body:fghij") == 4 * ROWS + 1
    shutil.copyfile(first, fourth)
    for read in READS.values():
        # What was read from the right bytes may answer, so that nothing of it is left here.
        indextables.invalidate_caches()
        with pytest.raises(SplitCorrupt):
            read(indextables.open(tmp_path / "t"))


def without_ids(file: Path) -> None:
    lines = [msgspec.json.decode(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    for line in lines:
        line.get("add", {}).pop("splitId", None)
        line.get("commitInfo", {}).pop("previous", None)
    file.write_bytes(gzip.compress(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)))
    file.with_suffix(".crc").unlink(missing_ok=True)


def told(answer: object) -> object:
    return answer.to_pylist() if isinstance(answer, pa.Table) else answer


def in_place_of(file: Path, other: Path) -> None:
    """The bytes of another file, in the length of this one, so that its size tells nothing."""
    size = file.stat().st_size
    file.write_bytes(other.read_bytes()[:size].ljust(size, b"\0"))
