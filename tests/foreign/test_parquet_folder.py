"""Folders of Parquet files: partitions by folder names, columns of all files, and what is no such table."""

from __future__ import annotations

import datetime as dt
import pickle
import random

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.foreign.delta_world import DeltaWorld, rows

import indextables
from indextables.embedded.foreign import ForeignTable
from indextables.errors import NotSupported, SplitCorrupt, TableNotFound, VersionExpired


def put(root, name, table, **options):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def ids(table):
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture
def root(tmp_path):
    return tmp_path / "folder"


def test_a_folder_of_files_is_a_table(root):
    put(root, "b.parquet", rows(3))
    put(root, "a.parquet", rows(1, 2))
    table = indextables.open(root)
    assert isinstance(table, ForeignTable)
    assert (table.detail()["system"], table.version, table.count()) == ("Parquet", 0, 3)
    assert table.to_arrow().equals(rows(1, 2, 3))
    assert table.sql("SELECT name FROM t WHERE id = 3").to_pylist() == [{"name": "row 3"}]
    assert table.search("name:2")["id"].to_pylist() == [2]
    assert table.files()["numRecords"].to_pylist() == [2, 1]
    assert pickle.loads(pickle.dumps(table)).count() == 3  # noqa: S301 - our own
    with pytest.raises(NotSupported, match="Parquet"):
        table.append(rows(4))


def test_it_is_what_lay_there_until_it_is_refreshed(root):
    put(root, "a.parquet", rows(1))
    table = indextables.open(root)
    place = put(root, "b.parquet", rows(2))
    assert ids(table) == [1]
    assert ids(table.refresh()) == [1, 2]
    place.unlink()
    with pytest.raises(VersionExpired):
        ids(table)
    (root / "a.parquet").unlink()
    with pytest.raises(TableNotFound):
        table.refresh()


def test_a_file_without_rows_has_none(root):
    put(root, "a.parquet", rows())
    assert ids(indextables.open(root)) == []
    put(root, "b.parquet", rows(2))
    assert ids(indextables.open(root)) == [2]


def test_it_has_no_versions_and_no_history(root):
    put(root, "a.parquet", rows(1))
    for question in ({"version": 1}, {"timestamp": 5}):
        with pytest.raises(NotSupported, match="no versions"):
            indextables.open(root, **question)
    with pytest.raises(NotSupported, match="no history"):
        indextables.open(root).history()


PARTITIONS = [
    (["1", "-2", "007"], pa.int64(), [1, -2, 7]),
    (["1", "x"], pa.string(), ["1", "x"]),
    (["1", "__HIVE_DEFAULT_PARTITION__"], pa.int64(), [1, None]),
    (["2026-01-31", "2025-12-01"], pa.date32(), [dt.date(2026, 1, 31), dt.date(2025, 12, 1)]),
    (["2026-02-31", "2025-12-01"], pa.string(), ["2026-02-31", "2025-12-01"]),
    (["a%2Fb", "c d", "ü", "k=v", ".."], pa.string(), ["a/b", "c d", "ü", "k=v", ".."]),
    (["__HIVE_DEFAULT_PARTITION__"], pa.string(), [None]),
    (["9" * 30, "1"], pa.string(), ["9" * 30, "1"]),
]


@pytest.mark.parametrize(("texts", "kind", "values"), PARTITIONS)
def test_folders_name_partitions(root, texts, kind, values):
    for number, text in enumerate(texts):
        put(root, f"p={text}/x.parquet", rows(number))
    table = indextables.open(root)
    assert table.partition_columns == ["p"]
    assert table.schema.field("p").type == kind
    found = {row["id"]: row["p"] for row in table.to_arrow().to_pylist()}
    assert found == dict(enumerate(values))
    assert table.count(where="p IS NULL") == values.count(None)


def test_files_of_other_partitions_are_not_read(root):
    for day in ("mon", "tue"):
        for hour in (1, 2):
            put(root, f"day={day}/hour={hour}/x.parquet", rows(hour))
    table = indextables.open(root)
    assert table.files(where="hour = 2 AND day = 'mon'")["path"].to_pylist() == ["day=mon/hour=2/x.parquet"]
    (root / "day=tue/hour=1/x.parquet").unlink()
    assert table.count(where="day = 'mon' OR hour = 2") == 3
    assert table.to_arrow(["hour", "id"], where="day = 'mon'").to_pylist() == [
        {"hour": 1, "id": 1},
        {"hour": 2, "id": 2},
    ]


def test_a_partition_column_that_files_have_too_keeps_its_place_and_type(root):
    inside = pa.table({"p": pa.array([5], pa.int32()), "id": [1]})
    put(root, "p=5/x.parquet", inside)
    table = indextables.open(root)
    assert table.schema.names == ["p", "id"]
    assert table.to_arrow().to_pylist() == [{"p": 5, "id": 1}]
    assert table.schema.field("p").type == pa.int32()


def test_files_that_are_not_partitioned_alike_are_refused(root):
    put(root, "p=1/x.parquet", rows(1))
    put(root, "q=1/x.parquet", rows(1))
    with pytest.raises(NotSupported, match="not partitioned alike"):
        indextables.open(root)


def test_what_lies_beside_the_rows_is_left_out(root):
    put(root, "a.parquet", rows(1))
    put(root, "_temporary/0/b.parquet", rows(2))
    put(root, ".hidden/b.parquet", rows(2))
    put(root, "_b.parquet", rows(2))
    put(root, "_p=1/c.parquet", rows(3))
    (root / "_SUCCESS").write_text("")
    (root / "README.md").write_text("about")
    with pytest.raises(NotSupported, match="not partitioned alike"):
        indextables.open(root)
    (root / "_p=1/c.parquet").unlink()
    assert ids(indextables.open(root)) == [1]


def test_columns_of_all_files_come_together(root):
    put(root, "a.parquet", pa.table({"id": pa.array([1], pa.int32()), "x": pa.array([0.5], pa.float32())}))
    put(root, "b.parquet", pa.table({"new": ["n"], "x": [0.25], "id": pa.array([2**40])}))
    put(root, "c.parquet", pa.table({"id": [3], "x": pa.nulls(1)}))
    table = indextables.open(root)
    assert table.schema == pa.schema([("id", pa.int64()), ("x", pa.float64()), ("new", pa.string())])
    assert table.to_arrow().to_pylist() == [
        {"id": 1, "x": 0.5, "new": None},
        {"id": 2**40, "x": 0.25, "new": "n"},
        {"id": 3, "x": None, "new": None},
    ]


@pytest.mark.parametrize(
    "other", [pa.table({"id": ["text"]}), pa.table({"id": [1.5]}), pa.table({"ID": [1]}), pa.table({"id": [[1]]})]
)
def test_files_that_do_not_go_together_are_refused_by_name(root, other):
    put(root, "a.parquet", rows(1))
    put(root, "b.parquet", other)
    with pytest.raises(NotSupported, match=r"b\.parquet"):
        indextables.open(root)


ODD = pa.table(
    {
        "u8": pa.array([255], pa.uint8()),
        "u32": pa.array([2**32 - 1], pa.uint32()),
        "u64": pa.array([2**64 - 1], pa.uint64()),
        "large": pa.array(["x"], pa.large_string()),
        "coded": pa.array(["y"]).dictionary_encode(),
        "fixed": pa.array([b"ab"], pa.binary(2)),
        "ms": pa.array([1_700_000_000_123], pa.timestamp("ms")),
        "ns": pa.array([1_700_000_000_123_456_000], pa.timestamp("ns", "UTC")),
        "time": pa.array([5], pa.time32("ms")),
        "list": pa.array([[1, None]], pa.large_list(pa.int16())),
    }
)


def test_types_that_we_have_not_become_those_that_hold_them(root):
    put(root, "a.parquet", ODD)
    (found,) = indextables.open(root).to_arrow().to_pylist()
    assert (found["u8"], found["u32"], found["u64"]) == (255, 2**32 - 1, 2**64 - 1)
    assert (found["large"], found["coded"], found["fixed"]) == ("x", "y", b"ab")
    assert found["ns"] == dt.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=dt.UTC)
    assert (found["time"], found["list"]) == (dt.time(microsecond=5000), [1, None])


def test_nanoseconds_that_would_be_lost_are_refused(root):
    put(root, "a.parquet", pa.table({"at": pa.array([1], pa.timestamp("ns"))}))
    with pytest.raises(SplitCorrupt, match="column at"):
        indextables.open(root).to_arrow()


def test_what_other_libraries_write_and_read(root):
    given = pa.table(
        {
            "id": list(range(100)),
            "day": [f"d {i % 3}" for i in range(100)],
            "n": [i % 2 for i in range(100)],
            "at": pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)] * 100, pa.timestamp("us", "UTC")),
            "deep": [{"a": [i], "b": None if i % 2 else "x"} for i in range(100)],
        }
    )
    ds.write_dataset(given, root, format="parquet", partitioning=["day", "n"], partitioning_flavor="hive")
    found = indextables.open(root).to_arrow().select(given.column_names).sort_by("id")
    assert found.equals(given)
    theirs = pl.scan_parquet(root, hive_partitioning=True).select("id", "day").sort("id").collect()
    assert theirs["day"].to_list() == found["day"].to_pylist()


@pytest.mark.parametrize("remains", ["part-0.split", "p=1/x.split", "_transaction_log/x.json", "_transaction_log/a/b"])
def test_a_table_of_ours_or_what_is_left_of_it_is_never_taken_for_one(root, remains):
    put(root, "a.parquet", rows(1))
    place = root / remains
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("{}")
    with pytest.raises(indextables.IndexTablesError) as caught:
        indextables.open(root)
    assert not isinstance(caught.value, NotSupported)


def test_a_table_of_ours_without_its_log_is_not_read_as_parquet(root):
    table = indextables.create(root, pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    for path in (root / "_transaction_log").iterdir():
        path.unlink()
    (root / "_transaction_log").rmdir()
    with pytest.raises(TableNotFound):
        indextables.open(root)


def test_a_folder_that_holds_a_delta_table_is_none(root):
    world = DeltaWorld(root / "inner")
    world.create()
    world.commit(world.add(rows(1)))
    with pytest.raises(TableNotFound, match=r"Open .*/inner, or"):
        indextables.open(root)
    assert ids(indextables.open(root / "inner")) == [1]


@pytest.mark.parametrize("at", ["inner", "a/b", "day=1"])
def test_parquet_files_beside_another_table_are_refused_with_its_place(root, tmp_path, at):
    put(root, "a.parquet", rows(1))
    put(root, "z.parquet", rows(2))
    world = DeltaWorld(root / at)
    world.create()
    for use in (indextables.open, lambda place: indextables.convert(place, tmp_path / "target")):
        with pytest.raises(TableNotFound, match=f"a table of Delta lies in {at}") as caught:
            use(root)
        assert caught.value.details["path"] == f"{at}/_delta_log/{0:020d}.json"
        assert f"/{at}, or" in str(caught.value)


@pytest.mark.parametrize("sign", ["t/metadata/v1.metadata.json", ".hoodie/x"])
def test_tables_of_iceberg_and_hudi_are_refused(root, sign):
    put(root, "data/a.parquet", rows(1))
    (root / sign).parent.mkdir(parents=True)
    (root / sign).write_text("{}")
    with pytest.raises(NotSupported, match="Iceberg or Hudi"):
        indextables.open(root)


def test_an_empty_folder_and_one_of_other_files_are_no_table(root):
    root.mkdir()
    with pytest.raises(TableNotFound):
        indextables.open(root)
    (root / "a.csv").write_text("id\n1\n")
    with pytest.raises(TableNotFound):
        indextables.open(root)


def test_damaged_files_end_in_an_error_of_ours_or_in_rows(root):
    """Parquet has no checksum that every writer sets: a changed value cannot be told from a value."""
    path = put(root, "a.parquet", rows(*range(50)), row_group_size=10)
    whole, dice = path.read_bytes(), random.Random(3)
    refused = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(dice.choice([1, 5])):
            data[dice.randrange(len(data))] = dice.randrange(256)
        is_cut = dice.random() >= 0.7
        path.write_bytes(data[: dice.randrange(len(data))] if is_cut else data)
        try:
            indextables.open(root).to_arrow().validate(full=True)
        except indextables.IndexTablesError:
            refused += 1
        else:
            assert not is_cut
    assert refused > 20


def test_files_are_taken_in_where_they_lie(root, capfd):
    """A table of ours may begin beside Parquet files: from then on the folder is that table."""
    from indextables.cli import main

    place = put(root, "a.parquet", rows(1, 2))
    assert main(["ingest", str(root), str(place)]) == 0
    capfd.readouterr()
    table = indextables.open(root)
    assert not isinstance(table, ForeignTable)
    assert ids(table) == [1, 2]


def test_a_file_without_rows_has_columns_and_no_rows(tmp_path):
    rows = pa.table({"a": ["x", "y"], "b": [1, 2]})
    pq.write_table(rows.slice(0, 0), tmp_path / "empty.parquet")
    pq.write_table(rows, tmp_path / "rows.parquet")
    table = indextables.open(tmp_path)
    assert table.to_arrow().to_pylist() == rows.to_pylist()
    assert table.count() == 2


@pytest.mark.parametrize(
    "left",
    [
        "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin",
        "ab/deletion_vector_{}.bin",
        "_change_data/{}.parquet",
    ],
)
def test_a_delta_table_whose_log_is_gone_is_no_folder_of_parquet_files(left, tmp_path):
    put(tmp_path, "part-00000.parquet", rows(1, 2))
    assert ids(indextables.open(tmp_path)) == [1, 2]
    put(tmp_path, left.format("61d16c75-6994-46b7-a15b-8b538852e50e"), rows(3))
    with pytest.raises(NotSupported, match="remains of a Delta table"):
        indextables.open(tmp_path)


@pytest.mark.parametrize("name", ["b.parquet", "p/b.parquet", "B.PARQ", "below"])
def test_rows_behind_a_link_are_not_left_out_in_silence(root, tmp_path, name):
    put(root, "p/a.parquet", rows(1))
    put(tmp_path, "elsewhere/b.parquet", rows(2))
    target = tmp_path / "elsewhere"
    (root / name).symlink_to(target if name == "below" else target / "b.parquet")
    with pytest.raises(NotSupported, match="symbolic link") as caught:
        indextables.open(root)
    assert caught.value.details["path"] == name + "/" * (name == "below")
    with pytest.raises(NotSupported, match="symbolic link"):
        indextables.convert(root, tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", ["a.parquet", "day=1"])
def test_a_folder_of_links_alone_is_told_as_one(root, tmp_path, name):
    put(tmp_path, "elsewhere/a.parquet", rows(2))
    root.mkdir(exist_ok=True)
    target = tmp_path / "elsewhere"
    (root / name).symlink_to(target if name == "day=1" else target / "a.parquet")
    with pytest.raises(NotSupported, match="symbolic link"):
        indextables.open(root)


def test_a_link_in_a_folder_without_rows_makes_no_table_of_it(root, tmp_path):
    root.mkdir(exist_ok=True)
    (root / "below").symlink_to(tmp_path)
    with pytest.raises(TableNotFound):
        indextables.open(root)


def test_a_link_that_comes_later_is_seen_by_a_refresh(root, tmp_path):
    put(root, "a.parquet", rows(1))
    table = indextables.open(root)
    put(tmp_path, "elsewhere/b.parquet", rows(2))
    (root / "b.parquet").symlink_to(tmp_path / "elsewhere/b.parquet")
    with pytest.raises(NotSupported, match="symbolic link"):
        table.refresh()


def test_links_that_hold_no_rows_do_no_harm(root, tmp_path):
    put(root, "a.parquet", rows(1))
    put(tmp_path, "elsewhere/b.parquet", rows(2))
    for name in ("README", "_hidden.parquet", ".hidden.parquet", "_below"):
        (root / name).symlink_to(tmp_path / ("elsewhere" if name == "_below" else "elsewhere/b.parquet"))
    assert ids(indextables.open(root)) == [1]


def test_a_delta_table_whose_log_was_emptied_is_no_folder_of_parquet_files(root):
    put(root, "part-00000.parquet", rows(1))
    (root / "_delta_log").mkdir()
    with pytest.raises(TableNotFound, match="_delta_log/ holds no version"):
        indextables.open(root)
