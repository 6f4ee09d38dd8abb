"""Tables of Iceberg are read as pyiceberg reads them; what would be read wrongly is refused by name."""

from __future__ import annotations

import json
import random
import shutil
import struct
import sys
import uuid
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap
from tests.foreign.fixtures import cases, expected

import indextables
from indextables.errors import (
    DvCorrupt,
    IndexTablesError,
    LimitExceeded,
    LogCorrupt,
    NotInstalled,
    NotSupported,
    PathEscape,
    SplitCorrupt,
    VersionNotFound,
)

TABLES = {"ice_append_overwrite_delete": "logs", "ice_partitioned_evolved": "events"}


def test_without_pyiceberg_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.table.metadata", None)
    with pytest.raises(NotInstalled, match=r"indextables\[iceberg\]"):
        indextables.open(tmp_path)


CASES = cases("iceberg")
pyiceberg = pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")

from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: E402
from pyiceberg.manifest import (  # noqa: E402
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC  # noqa: E402
from pyiceberg.schema import Schema  # noqa: E402
from pyiceberg.table.metadata import new_table_metadata  # noqa: E402
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary  # noqa: E402
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER  # noqa: E402
from pyiceberg.typedef import Record  # noqa: E402
from pyiceberg.types import LongType, NestedField, StringType  # noqa: E402

DATA, POSITION, EQUALITY = DataFileContent.DATA, DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES
COLUMNS = (
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "m", StringType(), required=False, doc="said"),
)


class World:
    """A table of Iceberg that is written file by file, as no library writes all of it."""

    def __init__(self, root, columns=COLUMNS, location=None):
        self.root = root
        self.location = location or f"file://{root}"
        self.columns = columns
        self.entries = []
        self.snapshots = []
        (root / "metadata").mkdir(parents=True)
        (root / "data").mkdir()

    def data(self, name, rows, number=1, **more):
        schema = pa.schema(
            [
                pa.field(
                    c.name,
                    pa.int64() if c.field_id == 1 else pa.string(),
                    metadata={"PARQUET:field_id": str(c.field_id)},
                )
                for c in self.columns
            ]
        )
        pq.write_table(pa.Table.from_pylist(rows, schema), self.root / "data" / name)
        return self.file(name, DATA, len(rows), number, **more)

    def deletes(self, name, of, positions, number):
        table = pa.table(
            {"file_path": [f"{self.location}/data/{of}"] * len(positions), "pos": pa.array(positions, pa.int64())}
        )
        pq.write_table(table, self.root / "data" / name)
        return self.file(name, POSITION, len(positions), number)

    def vector(self, name, of, positions, number):
        """Deleted rows as version 3 of Iceberg writes them: a bitmap in a Puffin file."""
        bits = BitMap(positions).serialize()
        body = b"\xd1\xd3\x39\x64" + struct.pack("<qI", 1, 0) + bits
        blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        about = {
            "type": "deletion-vector-v1",
            "fields": [],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": 4,
            "length": len(blob),
            "properties": {"referenced-data-file": f"{self.location}/data/{of}", "cardinality": str(len(positions))},
        }
        footer = json.dumps({"blobs": [about]}).encode()
        end = struct.pack("<II", len(footer), 0)
        (self.root / "data" / name).write_bytes(b"PFA1" + blob + b"PFA1" + footer + end + b"PFA1")
        return self.file(name, POSITION, len(positions), number, form=FileFormat.PUFFIN)

    def file(self, name, content, count, number=1, form=FileFormat.PARQUET, path=None, size=None):
        there = self.root / "data" / name
        found = DataFile.from_args(
            content=content,
            file_path=path or f"{self.location}/data/{name}",
            file_format=form,
            partition=Record(),
            record_count=count,
            file_size_in_bytes=size if size is not None else there.stat().st_size,
            equality_ids=[1] if content == EQUALITY else None,
        )
        self.entries.append((number, found))
        return self

    def commit(self, operation=Operation.APPEND, added=None):
        """A snapshot with all entries so far, and its metadata file.

        With the names of those that it `added` it says so, and which snapshot it stands on.
        """
        number = len(self.snapshots) + 1
        io, schema = PyArrowFileIO(), Schema(*self.columns)
        manifest, listing = f"{self.root}/metadata/m{number}.avro", f"{self.root}/metadata/snap-{number}.avro"
        with write_manifest(2, UNPARTITIONED_PARTITION_SPEC, schema, io.new_output(manifest), number, "null") as writer:
            for sequence, file in self.entries:
                told = {"status": ManifestEntryStatus.EXISTING, "snapshot_id": number, "data_file": file}
                entry = ManifestEntry.from_args(sequence_number=sequence, file_sequence_number=sequence, **told)
                if added is not None and file.file_path.rpartition("/")[2] in added:
                    writer.add(entry)
                else:
                    writer.existing(entry)
        written = writer.to_manifest_file()
        written[0] = f"{self.location}/metadata/m{number}.avro"
        with write_manifest_list(2, io.new_output(listing), number, None, number, "null") as lister:
            lister.add_manifests([written])
        self.snapshots.append(
            Snapshot(
                snapshot_id=number,
                sequence_number=number,
                timestamp_ms=1_700_000_000_000 + number * 1000,
                manifest_list=f"{self.location}/metadata/snap-{number}.avro",
                parent_snapshot_id=number - 1 if added is not None and number > 1 else None,
                summary=Summary(operation),
                schema_id=0,
            )
        )
        return self.write()

    def write(self, name=None):
        metadata = new_table_metadata(
            schema=Schema(*self.columns),
            partition_spec=UNPARTITIONED_PARTITION_SPEC,
            sort_order=UNSORTED_SORT_ORDER,
            location=self.location,
            properties={"owner": "me"},
        )
        log = [SnapshotLogEntry(snapshot_id=one.snapshot_id, timestamp_ms=one.timestamp_ms) for one in self.snapshots]
        told = metadata.model_copy(
            update={
                "snapshots": self.snapshots,
                "snapshot_log": log,
                "current_snapshot_id": self.snapshots[-1].snapshot_id if self.snapshots else None,
                "last_sequence_number": len(self.snapshots),
                "table_uuid": uuid.UUID("9c12d441-03fe-4693-9a96-a0705ddf69c1"),
            }
        )
        place = self.root / "metadata" / (name or f"{len(self.snapshots):05d}-a.metadata.json")
        place.write_text(told.model_dump_json())
        return self


def rows(*ids):
    return [{"id": i, "m": f"row {i}"} for i in ids]


def ids(table):
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "t")


@pytest.mark.parametrize("case", CASES)
def test_every_snapshot_has_the_rows_that_its_writer_reads(case):
    told = expected(case)
    table = indextables.open(case / "table" / "db" / TABLES[case.name])
    assert (table.system, table.version) == ("Iceberg", told["snapshotId"])
    found = [
        {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
        for row in table.to_arrow().to_pylist()
    ]
    assert sorted(map(str, found)) == sorted(map(str, told["rows"]))
    assert [field["name"] for field in told["schema"]["fields"]] == table.schema.names
    files = {
        (one["path"].rpartition("/db/")[2].partition("/")[2], one["size"], one["numRecords"]) for one in told["files"]
    }
    assert {(one["path"], one["size"], one["numRecords"]) for one in table.files().to_pylist()} == files
    history = table.history()
    assert set(history["version"].to_pylist()) == {one["id"] for one in told["snapshots"]}
    assert history["version"][0].as_py() == told["snapshotId"]
    for one in told["snapshots"]:
        assert table.at(one["id"]).to_arrow().num_rows == table.at(one["id"]).count() == one["numRows"]
    low = sum(row["id"] < 5 for row in told["rows"])
    assert table.count(where="id < 5") == low
    assert table.sql("SELECT count(*) AS n FROM t WHERE id < 5").to_pylist() == [{"n": low}]


@pytest.mark.parametrize("case", CASES[-1:])
def test_a_renamed_column_is_found_by_its_number(case):
    table = indextables.open(case / "table" / "db" / TABLES[case.name])
    assert table.partition_columns == ["tag"]
    first = table.history()["version"][-1].as_py()
    assert "message" in table.at(first).schema.names
    assert "body" in table.schema.names
    assert table.to_arrow(where="body IS NULL").num_rows == sum(v is None for v in table.to_arrow()["body"].to_pylist())


@pytest.mark.parametrize("case", CASES)
def test_its_rows_become_a_table_of_ours(case, tmp_path):
    source = case / "table" / "db" / TABLES[case.name]
    report = indextables.convert(source, tmp_path / "ours", system="iceberg")
    ours, theirs = indextables.open(tmp_path / "ours").to_arrow(), indextables.open(source).to_arrow()
    assert sorted(map(str, ours.to_pylist())) == sorted(map(str, theirs.to_pylist()))
    assert (report.system, report.rows) == ("Iceberg", len(theirs))
    assert indextables.convert(source, tmp_path / "ours").rows == 0


def test_a_second_run_takes_new_files_and_refuses_lost_rows(world, tmp_path):
    world.data("a.parquet", rows(1, 2)).commit()
    assert indextables.convert(world.root, tmp_path / "ours").rows == 2
    world.data("b.parquet", rows(3)).commit()
    assert indextables.convert(world.root, tmp_path / "ours").rows == 1
    assert ids(indextables.open(tmp_path / "ours")) == [1, 2, 3]
    world.deletes("d.parquet", "a.parquet", [0], 2).commit()
    with pytest.raises(NotSupported, match="lost rows"):
        indextables.convert(world.root, tmp_path / "ours")
    assert ids(indextables.open(tmp_path / "ours")) == [1, 2, 3]


def test_a_second_run_follows_what_was_written_anew(world, tmp_path):
    ours = tmp_path / "ours"
    world.data("a.parquet", rows(1)).data("b.parquet", rows(2)).commit(added=["a.parquet", "b.parquet"])
    assert indextables.convert(world.root, ours).rows == 2
    world.data("c.parquet", rows(3)).commit(added=["c.parquet"])
    world.entries.clear()
    world.data("all.parquet", rows(1, 2, 3)).commit(Operation.REPLACE, added=["all.parquet"])
    world.data("d.parquet", rows(4)).commit(added=["d.parquet"])
    report = indextables.convert(world.root, ours)
    assert (report.rows, report.files, report.source_version) == (2, 2, 4)
    assert ids(indextables.open(ours)) == [1, 2, 3, 4]
    world.entries.clear()
    world.data("once.parquet", rows(1, 2, 3, 4)).commit(Operation.REPLACE, added=["once.parquet"])
    assert indextables.convert(world.root, ours).rows == 0
    world.data("e.parquet", rows(5)).commit(added=["e.parquet"])
    assert indextables.convert(world.root, ours).rows == 1
    assert ids(indextables.open(ours)) == [1, 2, 3, 4, 5]
    world.entries.clear()
    world.data("less.parquet", rows(1, 2)).commit(Operation.OVERWRITE, added=["less.parquet"])
    with pytest.raises(NotSupported, match="Convert it anew"):
        indextables.convert(world.root, ours)
    assert ids(indextables.open(ours)) == [1, 2, 3, 4, 5]


def test_deleted_positions_are_gone_and_only_those_of_older_files(world):
    world.data("a.parquet", rows(*range(10)), 1).deletes("d1.parquet", "a.parquet", [3, 5], 2).commit()
    world.data("b.parquet", rows(10, 11), 5).deletes("d2.parquet", "b.parquet", [0], 4)
    world.deletes("d3.parquet", "a.parquet", [5, 6], 5).commit()
    table = indextables.open(world.root)
    assert ids(table) == [0, 1, 2, 4, 7, 8, 9, 10, 11]
    assert (table.count(), table.count(where="id > 8")) == (9, 3)
    assert ids(table.at(1)) == [0, 1, 2, 4, 6, 7, 8, 9]
    assert ids(indextables.open(world.root, timestamp=1_700_000_001_500)) == ids(table.at(1))
    with pytest.raises(VersionNotFound):
        indextables.open(world.root, timestamp=1_600_000_000_000)
    with pytest.raises(VersionNotFound):
        table.at(77)


def test_a_table_without_snapshots_has_its_columns(world):
    table = indextables.open(world.write().root)
    assert (table.schema.names, table.count(), table.to_arrow().num_rows) == (["id", "m"], 0, 0)
    assert table.detail()["properties"] == {"owner": "me"}


def test_a_table_that_was_moved_is_read_where_it_lies(tmp_path):
    world = World(tmp_path / "t", location="s3://bucket/warehouse/t")
    assert ids(indextables.open(world.data("a.parquet", rows(1)).commit().root)) == [1]


def test_deletes_by_values_are_refused_by_name(world):
    world.data("a.parquet", rows(1)).data("eq.parquet", rows(1)).entries.pop()
    world.file("eq.parquet", EQUALITY, 1, 2).commit()
    table = indextables.open(world.root)
    for ask in (table.to_arrow, table.count, lambda: table.search("m:row")):
        with pytest.raises(NotSupported, match=r"eq\.parquet, an equality delete"):
            ask()


def test_formats_that_are_not_read_are_refused_by_name(world):
    world.data("a.parquet", rows(1), form=FileFormat.ORC).commit()
    with pytest.raises(NotSupported, match="ORC"):
        indextables.open(world.root).to_arrow()


@pytest.mark.parametrize("path", ["file:///etc/passwd", "{root}/data/../../x", "{root}x/data/a.parquet", "s3://b/x"])
def test_files_elsewhere_are_not_read(world, path):
    world.data("a.parquet", rows(1), path=path.format(root=world.location)).commit()
    with pytest.raises(PathEscape):
        indextables.open(world.root).to_arrow()


def test_numbers_that_lie_are_refused(world, tmp_path):
    world.data("a.parquet", rows(1), size=7).commit()
    with pytest.raises(SplitCorrupt):
        indextables.open(world.root).to_arrow()
    other = World(tmp_path / "u")
    other.data("a.parquet", rows(1)).deletes("d.parquet", "a.parquet", [1], 2).commit()
    with pytest.raises(IndexTablesError, match="deletes a row"):
        indextables.open(other.root).to_arrow()


def test_two_newest_metadata_files_are_a_question_for_the_catalog(world):
    world.data("a.parquet", rows(1)).commit().write("00001-b.metadata.json")
    with pytest.raises(NotSupported, match="only its catalog knows"):
        indextables.open(world.root)


def test_nothing_is_written_and_every_verb_that_writes_is_refused(world):
    world.data("a.parquet", rows(1)).commit()
    before = {place: place.read_bytes() for place in world.root.rglob("*") if place.is_file()}
    table = indextables.open(world.root)
    with pytest.raises(NotSupported, match="only read here"):
        table.append(rows(2))
    assert table.search("m:row")["id"].to_pylist() == [1]
    assert {place: place.read_bytes() for place in world.root.rglob("*") if place.is_file()} == before


@pytest.mark.slow
def test_damage_anywhere_ends_in_an_error_of_ours_or_in_an_answer(world, tmp_path):
    world.data("a.parquet", rows(*range(4))).deletes("d.parquet", "a.parquet", [1], 2).commit()
    chance = random.Random(5)
    files = sorted(place for place in world.root.rglob("*") if place.is_file())
    for number, file in enumerate(files * 25):
        clean = file.read_bytes()
        broken = bytearray(clean)
        for _ in range(chance.choice([1, 1, 4])):
            broken[chance.randrange(len(broken))] = chance.choice([0, 0x7F, 0xFF, chance.randrange(256)])
        file.write_bytes(broken[: chance.randrange(len(broken))] if number % 5 == 0 else broken)
        try:
            indextables.open(world.root).to_arrow()
        except IndexTablesError:
            pass
        finally:
            file.write_bytes(clean)
    assert ids(indextables.open(world.root)) == [0, 2, 3]
    (world.root / "metadata" / "00001-a.metadata.json").write_text("{")
    with pytest.raises(LogCorrupt):
        indextables.open(world.root)
    shutil.rmtree(world.root)


def packed(place, word, pack):
    """Compress the one block of an Avro file that has none compressed."""
    data = place.read_bytes()
    sync = data[-16:]
    head, body, _ = data.split(sync)
    at = 1
    while body[at] & 0x80:
        at += 1
    block = pack(body[at + 1 :])
    size, length = len(block) << 1, bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    head = head.replace(b"\x14avro.codec\x08null", b"\x14avro.codec" + bytes([len(word) << 1]) + word)
    place.write_bytes(head + sync + body[:1] + bytes(length) + block + sync)


def deflated(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def snapped(data):
    return pa.compress(data, codec="snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


@pytest.mark.parametrize(("word", "pack"), [(b"deflate", deflated), (b"snappy", snapped)])
def test_manifests_of_every_codec_are_read(world, word, pack):
    world.data("a.parquet", rows(1, 2)).commit()
    for name in ("m1.avro", "snap-1.avro"):
        packed(world.root / "metadata" / name, word, pack)
    assert ids(indextables.open(world.root)) == [1, 2]


def test_a_manifest_that_grows_beyond_all_bounds_is_refused(world):
    world.data("a.parquet", rows(1, 2)).commit()
    packed(world.root / "metadata" / "m1.avro", b"deflate", lambda data: deflated(data + bytes(300 << 20)))
    with pytest.raises(LimitExceeded, match="decompresses to more"):
        indextables.open(world.root).to_arrow()


def test_a_deletion_vector_takes_rows_of_its_file_away(world):
    world.data("a.parquet", rows(*range(10))).data("b.parquet", rows(*range(10, 20)))
    world.vector("a.puffin", "a.parquet", [0, 3, 9], number=2).commit()
    table = indextables.open(world.root)
    assert ids(table) == [n for n in range(20) if n not in (0, 3, 9)]
    assert table.count() == 17


def test_a_deletion_vector_of_a_file_that_is_not_there_is_refused(world):
    world.data("a.parquet", rows(*range(10)))
    world.vector("a.puffin", "other.parquet", [0, 3, 9], number=2).commit()
    with pytest.raises(DvCorrupt, match=r"a\.puffin has no deletion vector"):
        indextables.open(world.root).to_arrow()


def test_a_changed_deletion_vector_is_refused(world):
    world.data("a.parquet", rows(*range(10)))
    world.vector("a.puffin", "a.parquet", [0, 3, 9], number=2).commit()
    file = world.root / "data" / "a.puffin"
    data = bytearray(file.read_bytes())
    data[data.index(b"PFA1{") - 8] ^= 1
    file.write_bytes(data)
    with pytest.raises(DvCorrupt, match=r"a\.puffin has no deletion vector"):
        indextables.open(world.root).to_arrow()
