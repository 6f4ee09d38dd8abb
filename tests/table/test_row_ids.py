"""Every row of a new table has an id that it keeps for life, and that no other row ever gets."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.world.field_ids import files, root
from tests.world.row_ids import scan_row_ids

import indextables
from indextables.errors import LogGap, NotSupported, SchemaInvalid
from indextables.log.commit import next_row_id
from indextables.split.file import ROW_ID

SCHEMA = pa.schema([("key", pa.int64()), ("message", pa.string())])


def rows(*keys: int) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.int64()), "message": [f"word {key}" for key in keys]}, schema=SCHEMA)


def ids(table: indextables.Table) -> dict[int, int]:
    """The id of each row, by its key."""
    found = pa.Table.from_batches(
        scan_row_ids(table._log.env, table._snapshot), pa.schema([*table.schema, (ROW_ID, pa.int64())])
    )
    keys, numbers = found["key"].to_pylist(), found[ROW_ID].to_pylist()
    assert len(set(numbers)) == len(numbers), "an id twice"
    return dict(zip(keys, numbers, strict=True))


def counter(table: indextables.Table) -> int | None:
    return next_row_id(table._snapshot.domains.values())


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA, indexing={"message": "text"})
    made.append(rows(10, 11))
    made.append(rows(12, 13, 14))
    return made


BORN = {10: 0, 11: 1, 12: 2, 13: 3, 14: 4}


def test_rows_are_numbered_as_they_are_committed(table):
    assert ids(table) == BORN
    assert counter(table) == 5
    assert table.files()["baseRowId"].to_pylist() == [0, 2]
    assert "rowTracking" in table.protocol.writerFeatures
    assert "rowTracking" not in table.protocol.readerFeatures
    assert "deletionVectors" in table.protocol.readerFeatures


@pytest.mark.slow
def test_a_row_that_changes_or_moves_keeps_its_id(table):
    table.update({"message": "'new'"}, where="key = 13")
    assert ids(table) == BORN
    table.delete(where="key = 10")
    left = {key: number for key, number in BORN.items() if key != 10}
    assert ids(table) == left
    table.merge_splits()
    assert table.files().num_rows == 1
    assert ids(table) == left
    table.update({"message": "'newer'"}, where="key in (13, 14)")
    table.append(rows(15))
    table.merge_splits()
    found = ids(table)
    assert {key: found[key] for key in left} == left
    assert found[15] >= 5
    table.reindex(force=True)
    assert ids(table) == found
    assert sorted(table.search("message:newer")["key"].to_pylist()) == [13, 14]


def test_rows_that_match_a_source_keep_their_ids_and_others_get_new_ones(table):
    table.upsert(rows(11, 13, 20), on=["key"])
    found = ids(table)
    assert {key: found[key] for key in BORN} == BORN
    assert found[20] >= 5
    table.merge(rows(10, 14, 21), "t.key = s.key").when_matched_delete(
        condition="t.key = 10"
    ).when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_update(
        {"message": "'left'"}, condition="t.key = 12"
    ).execute()
    after = ids(table)
    assert {key: number for key, number in after.items() if key != 21} == {k: n for k, n in found.items() if k != 10}
    assert after[21] > found[20]
    more = rows(11).append_column("extra", pa.array([1]))
    table.upsert(more, on=["key"], merge_schema=True)
    assert ids(table) == after
    table.upsert(rows(30), on=["key"], merge_schema=True)
    last = pq.read_schema(files(table)[-1]).names
    assert ROW_ID not in last, "rows that are all new bring no ids"


def test_sorting_keeps_ids(table):
    table.append(rows(*range(200, 100, -1)))
    before = ids(table)
    table.merge_splits(cluster_by=["key"])
    assert ids(table) == before
    assert table.to_arrow()["key"].to_pylist() == sorted(before)


def test_the_hidden_column_shows_nowhere(table):
    table.merge_splits()
    (file,) = files(table)
    field = pq.ParquetFile(file).schema_arrow.field(ROW_ID)
    assert (field.type, field.metadata[b"PARQUET:field_id"]) == (pa.int64(), b"2147483540")
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(2)
    assert "DELTA_BINARY_PACKED" in chunk.encodings
    assert table.to_arrow().column_names == ["key", "message"]
    assert table.search("message:word").column_names[:2] == ["key", "message"]
    assert ROW_ID not in str(table.search("message:word").column_names)
    assert indextables.LocalSession({"t": str(root(table))}).run("SELECT * FROM t").column_names == ["key", "message"]
    assert ROW_ID not in table.sizes()["column"].to_pylist()
    assert sum(table.sizes()["bytes"].to_pylist()) == file.stat().st_size
    assert ROW_ID not in str(table.files().to_pylist())
    assert table.verify().ok


def test_restored_rows_have_the_ids_they_had_and_the_counter_goes_on(table):
    table.overwrite(rows(20))
    assert ids(table) == {20: 5}
    table.restore(version=2)
    assert ids(table) == BORN
    table.append(rows(30))
    assert ids(table) == {**BORN, 30: 6}
    table.delete(where="key = 12")
    table.restore(version=2)
    assert ids(table) == BORN
    table.append(rows(31))
    assert ids(table) == {**BORN, 31: 7}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "parquet", "avro"])
def test_a_checkpoint_carries_ids_and_the_counter(tmp_path, form):
    made = indextables.create(tmp_path / "t", SCHEMA)
    made.append(rows(10, 11))
    opened = indextables.open(tmp_path / "t", options={"state.format": form})
    opened.checkpoint()
    opened.append(rows(12, 13, 14))
    opened.delete(where="key = 11")
    opened.checkpoint()
    for version in range(3):
        (root(made) / "_transaction_log" / f"{version:020d}.json").unlink()
    indextables.invalidate_caches()
    again = indextables.open(tmp_path / "t")
    left = {10: 0, 12: 2, 13: 3, 14: 4}
    assert ids(again) == left
    newest = root(made) / "_transaction_log" / f"{3:020d}.json"
    kept = newest.read_bytes()
    newest.unlink()
    indextables.invalidate_caches()
    alone = indextables.open(tmp_path / "t")
    assert ids(alone) == left
    with pytest.raises(LogGap, match="stands alone"):
        alone.append(rows(15))
    newest.write_bytes(kept)
    again = indextables.open(tmp_path / "t")
    again.append(rows(15))
    assert ids(again) == {**left, 15: 5}


def test_two_handles_and_many_threads_never_give_an_id_twice(table):
    other = indextables.open(root(table))

    def work(number: int) -> None:
        (table if number % 2 else other).append(rows(1000 + 2 * number, 1001 + 2 * number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(24)))
    table.refresh()
    found = ids(table)
    assert len(found) == len(BORN) + 48
    assert sorted(found.values()) == list(range(len(BORN) + 48))


def test_a_statement_that_loses_a_race_gets_ids_above_the_winners(table):
    stale = indextables.open(root(table))
    assert stale.count() == 5
    table.append(rows(20, 21))
    stale.append(rows(30))
    table.refresh()
    found = ids(table)
    assert (found[20], found[21], found[30]) == (5, 6, 7)


def test_an_overwrite_and_a_dropped_partition_reuse_nothing(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA, partition_by=["key"])
    made.append(rows(1, 2))
    made.drop_partitions("key = 1")
    made.append(rows(3))
    found = ids(made)
    assert found[3] == 2
    made.overwrite(rows(4, 5))
    assert sorted(ids(made).values()) == [3, 4]
    made.update({"key": "9"}, where="key = 4")
    assert sorted(ids(made).values()) == [3, 4]


def test_a_lost_log_is_rebuilt_without_giving_an_id_twice(table):
    # Four rows with the ids 0, 1, 3 and 4: whichever file is numbered first, one that counts from 0 meets another.
    table.delete(where="key = 12")
    table.merge_splits()
    table.append(rows(15))
    place = root(table)
    keep = {file.name for file in files(table)}
    for file in place.rglob("*.split"):
        if file.name not in keep:
            file.unlink()
    shutil.rmtree(place / "_transaction_log")
    indextables.invalidate_caches()
    with pytest.raises(NotSupported, match="older images"):
        indextables.rebuild(place)
    report = indextables.rebuild(place, with_old_rows=True)
    assert any("older images" in line for line in report.warnings)
    again = indextables.open(place)
    found = ids(again)
    assert {key: found[key] for key in found if key != 15} == {key: n for key, n in BORN.items() if key != 12}
    again.append(rows(16))
    assert len(ids(again)) == 6


def test_a_lost_log_is_rebuilt_unasked_only_where_no_row_can_be_an_older_image(table, tmp_path):
    place = root(table)

    def rebuilt():
        copy = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        shutil.copytree(place, copy)
        shutil.rmtree(copy / "_transaction_log")
        indextables.rebuild(copy)
        return sorted(indextables.open(copy).to_arrow()["key"].to_pylist())

    assert rebuilt() == sorted(BORN)
    table.update({"message": "'new'"}, where="key = 13")
    with pytest.raises(NotSupported, match=r"which rows of .* are older images"):
        rebuilt()
    table.merge_splits()
    with pytest.raises(NotSupported, match="older images"):
        rebuilt()
    merged = {file.name for file in files(table)}
    for file in place.rglob("*.split"):
        if file.name not in merged:
            file.unlink()
    assert rebuilt() == sorted(BORN)
    table.update({"message": "'newer'"}, where="key = 13")
    with pytest.raises(NotSupported, match=r"1 rows of .* stand in other splits"):
        rebuilt()


def test_a_repaired_log_keeps_ids_and_counter(table):
    table.delete(where="key = 10")
    place = root(table)
    indextables.repair(place, at=place.parent / "mended")
    shutil.rmtree(place / "_transaction_log")
    shutil.move(place.parent / "mended" / "_transaction_log", place / "_transaction_log")
    indextables.invalidate_caches()
    again = indextables.open(place)
    assert ids(again) == {key: number for key, number in BORN.items() if key != 10}
    again.append(rows(15))
    assert ids(again)[15] == 5


def test_the_name_of_the_hidden_column_is_refused(tmp_path, table):
    with pytest.raises(SchemaInvalid, match=r"(?i)_row_id.* is taken"):
        indextables.create(tmp_path / "u", pa.schema([("_Row_ID", pa.int64())]))
    with pytest.raises(SchemaInvalid, match=r"(?i)_row_id.* is taken"):
        table.append(pa.table({"_row_id": [1]}), merge_schema=True)
    with pytest.raises(SchemaInvalid, match=r"(?i)_row_id.* is taken"):
        table.overwrite(pa.table({"_row_id": [1]}), overwrite_schema=True)
    assert ids(table) == BORN


def _edited(table, change: Callable[[dict], None]) -> None:
    """Let the newest version say something else, as a bug of a writer would; nobody has checksums of it."""
    log = root(table) / "_transaction_log"
    newest = log / f"{table.version:020d}.json"
    actions = [json.loads(line) for line in gzip.decompress(newest.read_bytes()).splitlines()]
    for action in actions:
        change(action)
    newest.write_text("".join(json.dumps(action) + "\n" for action in actions))
    newest.with_suffix(".crc").unlink()
    indextables.invalidate_caches()


def _base(number: int | None) -> Callable[[dict], None]:
    def change(action: dict) -> None:
        if "add" in action and "deletionVector" not in action["add"]:
            action["add"]["baseRowId"] = number

    return change


def _counter(text: str) -> Callable[[dict], None]:
    def change(action: dict) -> None:
        if "domainMetadata" in action:
            action["domainMetadata"]["configuration"] = text

    return change


def _vector(rows: int) -> Callable[[dict], None]:
    def change(action: dict) -> None:
        if "add" in action and action["add"].get("deletionVector"):
            action["add"]["deletionVector"]["cardinality"] = rows

    return change


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda action: None, set()),
        (_base(4), {"row-ids"}),
        (_base(1), {"row-ids"}),
        (_base(5), set()),
        (_base(6), {"row-ids"}),
        (_counter('{"rowIdHighWaterMark":3}'), {"row-ids"}),
        (_vector(4), {"vector", "data-file"}),
        (_vector(2), {"data-file"}),
    ],
)
def test_a_version_that_lies_about_rows_is_found_out(table, change, kinds):
    table.update({"message": "'new'"}, where="key = 13")
    _edited(table, change)
    report = indextables.verify(table.url)
    assert {finding.kind for finding in report.findings} == kinds
    assert report.ok == (not kinds)
    assert {finding.kind for finding in indextables.verify(table.url, data_files=False).findings} == kinds - {
        "data-file"
    }
