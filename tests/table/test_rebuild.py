"""A lost or broken log: what the splits tell, what is left of a log, and versions below the damage."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import shutil

import pyarrow as pa
import pytest

import indextables
from indextables.cli import app
from indextables.errors import InvalidArgument, LogError, ProtocolUnsupported, SchemaMismatch
from indextables.sql.local.session import LocalSession

ODD = ["", None, "a" * 300, "é" * 150, "a/b", "a%2Fb", "a b", "a=b", "..", "%2e%2e", "x'y", "-1", "z" * 200]


def lose_log(place):
    shutil.rmtree(place / "_transaction_log")
    indextables.invalidate_caches()


def version_file(place, version):
    return place / "_transaction_log" / f"{version:020d}.json"


def partitions(table):
    """By file; a null value and an absent key are the same."""
    files = table.files().sort_by("path")
    return [
        {name: dict(row).get(name) for name in table.partition_columns} for row in files["partitionValues"].to_pylist()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        pa.array(ODD),
        pa.array([1, -5, None], pa.int32()),
        pa.array([0.1, float("nan"), -0.0, None, 1e300]),
        pa.array([True, False, None]),
        pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1), None]),
        pa.array([dt.datetime(2024, 1, 1, 12, 30, 0, 5, dt.UTC), None], pa.timestamp("us", "UTC")),
        pa.array([1_704_112_200_000_005, None], pa.timestamp("us")),
        pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2)),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("name", ["day", "a b=c/d", "n" * 240], ids=["plain", "odd", "long"])
def test_partition_values_come_from_the_rows(tmp_path, values, name):
    place = tmp_path / "t"
    rows = pa.table({name: values, "x": list(range(len(values)))})
    table = indextables.create(place, rows.schema, partition_by=[name])
    table.append(rows)
    before, whole = partitions(table), table.to_arrow().sort_by("x")
    lose_log(place)
    assert indextables.rebuild(place).unreadable == {}
    rebuilt = indextables.open(place)
    assert rebuilt.partition_columns == [name]
    assert partitions(rebuilt) == before
    assert str(rebuilt.to_arrow().sort_by("x").to_pydict()) == str(whole.to_pydict())
    assert rebuilt.schema == table.schema


def test_splits_before_and_after_a_widening_make_one_table(tmp_path):
    place = tmp_path / "t"
    table = indextables.create(place, pa.schema([("x", pa.int8()), ("f", pa.float32())]))
    table.append(pa.table({"x": pa.array([1], pa.int8()), "f": pa.array([0.5], pa.float32())}))
    for kind in (pa.int16(), pa.int64()):
        table.append(pa.table({"x": pa.array([300], kind), "f": pa.array([0.1])}), merge_schema=True)
    table.append(pa.table({"x": [2**40], "f": [1.5], "new": ["a"]}), merge_schema=True)
    whole, protocol = table.to_arrow().sort_by([("x", "ascending"), ("new", "ascending")]), table.protocol
    lose_log(place)
    indextables.rebuild(place)
    rebuilt = indextables.open(place)
    assert rebuilt.schema == table.schema
    assert rebuilt.protocol == protocol
    assert rebuilt.to_arrow().sort_by([("x", "ascending"), ("new", "ascending")]) == whole
    assert rebuilt.count(where="x = 300") == 2
    rebuilt.append(pa.table({"x": [2**41], "f": [1.5], "new": ["b"]}))
    assert rebuilt.count() == 5


def test_splits_that_do_not_fit_together_are_told_by_column(tmp_path):
    for name, kind in (("one", pa.int64()), ("two", pa.string())):
        indextables.create(tmp_path / name, pa.schema([("x", kind)])).append(pa.table({"x": pa.array([None], kind)}))
        shutil.copytree(tmp_path / name / "splits", tmp_path / "both" / "splits", dirs_exist_ok=True)
    with pytest.raises(SchemaMismatch, match="'x'") as told:
        indextables.rebuild(tmp_path / "both")
    assert told.value.details["column"] == "x"


@pytest.fixture
def place(tmp_path):
    """A table of four versions, the third of which is a checkpoint too."""
    table = indextables.create(tmp_path / "t", pa.schema([("x", pa.int64())]))
    for x in range(3):
        table.append(pa.table({"x": [x]}))
    table.checkpoint()
    table.append(pa.table({"x": [3]}))
    return tmp_path / "t"


def xs(table):
    return sorted(table.to_arrow()["x"].to_pylist())


def remains(place):
    """Leaves the pointer, check files, manifests and intents of a log."""
    with indextables.open(place).protect():
        for path in (place / "_transaction_log").iterdir():
            if path.suffix == ".json":
                path.unlink()
            elif path.name.startswith("state-v"):
                shutil.rmtree(path)
        left = {path.name for path in (place / "_transaction_log").iterdir()}
    assert {"_last_checkpoint", "manifests", "_intents", f"{3:020d}.crc"} <= left
    indextables.invalidate_caches()


@pytest.mark.slow
def test_what_is_left_of_a_log_without_versions_does_not_stop_a_rebuild_in_place(place):
    remains(place)
    assert indextables.rebuild(place).num_files == 4
    table = indextables.open(place)
    assert xs(table) == [0, 1, 2, 3]
    for x in range(4, 16):
        assert table.append(pa.table({"x": [x]})) == x - 2
    table.checkpoint()
    indextables.invalidate_caches()
    assert xs(indextables.open(place)) == list(range(16))
    assert indextables.verify(place).findings == ()


@pytest.mark.parametrize("left", ["version", "state", "damaged state", "part"])
def test_a_rebuild_in_place_writes_nothing_beside_a_version_or_a_checkpoint(place, left):
    log = place / "_transaction_log"
    for path in log.glob("*.json"):
        if left != "version" or path != version_file(place, 2):
            path.unlink()
    if left == "damaged state":
        next(log.glob("state-v*/_manifest.avro")).write_bytes(b"broken")
    elif left != "state":
        shutil.rmtree(next(log.glob("state-v*")))
    if left == "part":
        (log / f"{3:020d}.checkpoint.{1:010d}.{2:010d}.parquet").write_bytes(b"PAR1")
    before = sorted(path.relative_to(place) for path in place.rglob("*"))
    indextables.invalidate_caches()
    with pytest.raises(InvalidArgument, match="another place"):
        indextables.rebuild(place)
    assert sorted(path.relative_to(place) for path in place.rglob("*")) == before


def by_api(place, at):
    report = indextables.repair(place, at=at)
    return report.source_version, report.num_files, report.warnings


def by_sql(place, at):
    text = f"REPAIR INDEXTABLES TRANSACTION LOG '{place}'" + ("" if at is None else f" AT LOCATION '{at}'")
    row = LocalSession({}).run(text).to_pylist()[0]
    return row["source_version"], row["num_files"], tuple(row["warnings"])


def by_shell(place, at, capsys):
    assert app.run(["repair", str(place), *([] if at is None else ["--at", str(at)]), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    return row["source_version"], row["num_files"], tuple(row["warnings"])


def damage(place, kind):
    if kind == "newest damaged":
        version_file(place, 4).write_bytes(b"broken")
    elif kind == "gap":
        indextables.open(place).append(pa.table({"x": [9]}))
        version_file(place, 4).unlink()
    elif kind == "no version":
        for path in (place / "_transaction_log").glob("*.json"):
            path.write_bytes(b"broken")
        next((place / "_transaction_log").glob("state-v*/_manifest.avro")).write_bytes(b"broken")
    elif kind == "no log":
        shutil.rmtree(place / "_transaction_log")
    indextables.invalidate_caches()


@pytest.mark.parametrize(
    ("kind", "source_version", "num_files", "warns"),
    [
        ("whole", 4, 4, False),
        ("newest damaged", 3, 3, True),
        ("gap", 3, 3, True),
        ("no version", -1, 4, True),
        ("no log", -1, 4, True),
    ],
)
def test_repair_is_the_same_by_api_shell_and_sql(place, tmp_path, capsys, kind, source_version, num_files, warns):
    damage(place, kind)
    answers = [
        by_api(place, tmp_path / "api"),
        by_sql(place, tmp_path / "sql"),
        by_shell(place, tmp_path / "shell", capsys),
    ]
    assert answers[0][:2] == (source_version, num_files)
    assert bool(answers[0][2]) == warns
    assert answers == [answers[0]] * 3
    for name in ("api", "sql", "shell"):
        shutil.rmtree(place / "_transaction_log", ignore_errors=True)
        shutil.copytree(tmp_path / name / "_transaction_log", place / "_transaction_log")
        indextables.invalidate_caches()
        assert len(xs(indextables.open(place))) == num_files


@pytest.mark.parametrize("how", [by_api, by_sql, by_shell])
def test_repair_without_a_place_rebuilds_what_has_no_log_and_touches_no_other(place, tmp_path, capsys, how):
    call = (lambda: by_shell(place, None, capsys)) if how is by_shell else (lambda: how(place, None))
    if how is by_shell:
        assert app.run(["repair", str(place)]) != 0
    else:
        with pytest.raises(InvalidArgument):
            call()
    remains(place)
    capsys.readouterr()
    assert call()[:2] == (-1, 4)
    assert xs(indextables.open(place)) == [0, 1, 2, 3]


def test_a_table_that_needs_a_newer_library_is_not_rebuilt_from_its_splits(place, tmp_path):
    line = {"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}}
    version_file(place, 5).write_text(json.dumps(line) + "\n")
    indextables.invalidate_caches()
    with pytest.raises(ProtocolUnsupported):
        indextables.repair(place, at=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["newest damaged", "gap"])
def test_older_versions_open_where_the_newest_is_broken(place, capsys, kind):
    damage(place, kind)
    with pytest.raises(LogError):
        indextables.open(place)
    table = indextables.open(place, version=2)
    assert (xs(table), table.version) == ([0, 1], 2)
    assert xs(indextables.open(place, version=3)) == [0, 1, 2]
    with pytest.raises(LogError):
        indextables.open(place, version=4)
    assert app.run(["count", str(place), "--version", "2"]) == 0
    assert app.run(["sql", str(place), "SELECT count(*) AS n FROM t", "--version", "2", "--json"]) == 0
    assert app.run(["sql", str(place), "SELECT count(*) AS n FROM t VERSION AS OF 2", "--json"]) == 0
    assert capsys.readouterr().out.split("\n")[:3] == ["2", '{"n":2}', '{"n":2}']
    session = LocalSession({"t": str(place)})
    assert session.run(f"SELECT * FROM indextables.`{place}` VERSION AS OF 2").num_rows == 2
    with pytest.raises(LogError):
        table.append(pa.table({"x": [99]}))
    with pytest.raises(LogError):
        indextables.open(place)


def test_open_takes_a_version_or_a_time(place):
    assert xs(indextables.open(place, version=1)) == [0]
    when = indextables.open(place).history()["timestamp"].to_pylist()[2]
    assert indextables.open(place, timestamp=when).version == 2
    with pytest.raises(InvalidArgument):
        indextables.open(place, version=1, timestamp=when)
    with pytest.raises(indextables.IndexTablesError):
        indextables.open(place, version=77)
