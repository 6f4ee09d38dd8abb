"""Rows of IndexTables4Spark out of their bundles: those that the peer reads, and errors of ours for all else."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
import math
import random
import shutil
import struct

import pyarrow as pa
import pytest
from tests.foreign.fixtures import MISSING, cases, expected, folder

import indextables
from indextables.errors import NotSupported, SplitCorrupt, VersionExpired

CASES = [case for case in cases("indextables4spark") if case.id != "schemas"]
ROOT = folder("indextables4spark")

needed = pytest.mark.skipif(ROOT is None, reason=MISSING)


def spelled(value, kind):
    """As the fixtures have it."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: spelled(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: spelled(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [spelled(item, kind.value_type) for item in value]
    if isinstance(value, bytes):
        return {"$binary": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat()
    return value.isoformat() if isinstance(value, dt.date) else value


def rows_of(table):
    found = [{f.name: spelled(row[f.name], f.type) for f in table.schema} for row in table.to_pylist()]
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def opened(name, tmp_path):
    """A copy of a fixture, and its first split that the newest version has."""
    place = tmp_path / "table"
    shutil.copytree(ROOT / name / "table", place, copy_function=shutil.copyfile)
    return place, place / min(indextables.open(place).files()["path"].to_pylist())


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_that_the_peer_reads(case):
    told, table = expected(case), indextables.open(case / "table")
    assert rows_of(table.to_arrow()) == sorted(json.dumps(row, sort_keys=True) for row in told["rows"])
    assert sum(batch.num_rows for batch in table.scan()) == table.count() == told["count"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_predicates_and_sql_see_the_same_rows(case):
    table = indextables.open(case / "table")
    rows = table.to_arrow()
    for name in rows.column_names:
        assert table.count(where=f"{name} IS NULL") == rows[name].null_count
    some = sorted(rows["id"].to_pylist())[len(rows) // 2]
    wanted = sorted(i for i in rows["id"].to_pylist() if i >= some)
    assert sorted(table.to_arrow(["id"], where=f"id >= {some}")["id"].to_pylist()) == wanted
    answer = table.sql(f"SELECT count(*) AS n, min(id) AS least FROM t WHERE id >= {some}").to_pylist()
    assert answer == [{"n": len(wanted), "least": some}]
    assert table.to_arrow(limit=1).num_rows == 1


@needed
def test_partitions_and_columns_are_what_they_are_in_the_rows():
    table = indextables.open(ROOT / "many_appends_partitioned" / "table")
    column = table.partition_columns[0]
    value = table.to_arrow([column])[column][0].as_py()
    kept = table.to_arrow([column], where=f"{column} = '{value}'")
    assert 0 < len(kept) < table.count()
    assert set(kept[column].to_pylist()) == {value}


@needed
def test_a_search_answers_from_a_copy_of_its_rows_and_says_so(caplog):
    path = ROOT / "all_types" / "table"
    theirs = indextables.open(path)
    before = {place: place.read_bytes() for place in path.rglob("*") if place.is_file()}
    assert theirs.search("message:fox", ["id"])["id"].to_pylist() == [0]
    assert "indextables.convert" in caplog.text
    assert theirs.search("message:fox", ["id"], where="id > 0").num_rows == 0
    assert (theirs.count("message:fox"), theirs.count("message:fox OR id:3")) == (1, 2)
    assert theirs.sql("SELECT id FROM t WHERE TEXTSEARCH(message, 'fox')").to_pylist() == [{"id": 0}]
    assert theirs.to_polars(search="message:fox").collect()["id"].to_list() == [0]
    assert theirs.aggregate("message:fox", {"n": {"value_count": {"field": "id"}}}) == {"n": {"value": 1}}
    assert theirs.explain("message:fox")["conditions"]
    assert caplog.text.count("copies all its rows") == 1
    session = indextables.LocalSession({"t": str(path)})
    assert session.run("SELECT id FROM t WHERE TEXTSEARCH(message, 'fox')").to_pylist() == [{"id": 0}]
    assert {place: place.read_bytes() for place in path.rglob("*") if place.is_file()} == before


@needed
def test_its_rows_go_into_a_table_of_ours_and_are_searched_there(tmp_path):
    theirs = indextables.open(ROOT / "all_types" / "table")
    with pytest.raises(NotSupported, match=r"IndexTables4Spark.*indextables.convert"):
        theirs.to_dataset()
    ours = indextables.create(tmp_path / "ours", theirs.schema, indexing={"message": "text"})
    ours.append(theirs)
    assert ours.search("message:fox")["id"].to_pylist() == [0]


def parts_of(data):
    """The files of a bundle, and what follows the metadata."""
    hot = struct.unpack("<I", data[-4:])[0]
    end = len(data) - 4 - hot
    length = struct.unpack("<I", data[end - 4 : end])[0]
    told = json.loads(data[end - 4 - length + 8 : end - 4])
    return {name: data[at["start"] : at["end"]] for name, at in told["files"].items()}, data[end:]


def bundle(files, rest, *, magic=0x1812BEAE, version=1):
    body, told = b"", {}
    for name, data in files.items():
        told[name] = {"start": len(body), "end": len(body) + len(data)}
        body += data
    metadata = struct.pack("<II", magic, version) + json.dumps({"files": told}).encode()
    return body + metadata + struct.pack("<I", len(metadata)) + rest


def resized(place, path, data):
    """Put other bytes into a split; its log says how many there are."""
    version = place / "_transaction_log" / f"{1:020d}.json"
    text = version.read_bytes()
    old = path.stat().st_size
    path.write_bytes(data)
    assert text.count(b'"size":%d' % old) == 1
    version.write_bytes(text.replace(b'"size":%d' % old, b'"size":%d' % len(data)))


def plain(tmp_path):
    """The table whose log is plain text, with its first version's split."""
    place, _ = opened("json_uncompressed", tmp_path)
    version = (place / "_transaction_log" / f"{1:020d}.json").read_text()
    name = next(json.loads(line)["add"]["path"] for line in version.splitlines() if '"add"' in line)
    for newer in range(2, 40):
        for file in (place / "_transaction_log").glob(f"*{newer:020d}*"):
            file.unlink()
    (place / "_transaction_log" / "_last_checkpoint").unlink(missing_ok=True)
    return place, place / name


@needed
def test_a_bundle_that_was_put_together_anew_reads_the_same(tmp_path):
    place, path = plain(tmp_path)
    before = rows_of(indextables.open(place).to_arrow())
    files, rest = parts_of(path.read_bytes())
    resized(place, path, bundle(dict(reversed(files.items())), rest))
    assert rows_of(indextables.open(place).to_arrow()) == before


@needed
def test_companion_splits_and_unknown_kinds_of_fields_are_refused_by_name(tmp_path):
    place, path = plain(tmp_path)
    files, rest = parts_of(path.read_bytes())
    resized(place, path, bundle(files | {"_parquet_manifest.json": b"{}"}, rest))
    with pytest.raises(NotSupported, match="companion"):
        indextables.open(place).to_arrow()
    meta = json.loads(files["meta.json"])
    meta["schema"].append({"name": "address", "type": "ip_addr", "options": {"stored": True}})
    resized(place, path, bundle(files | {"meta.json": json.dumps(meta).encode()}, rest))
    with pytest.raises(NotSupported, match="ip_addr"):
        indextables.open(place).to_arrow()


@needed
@pytest.mark.parametrize(
    "how", ["magic", "version", "escape", "cut", "empty", "long hotcache", "long metadata", "rows"]
)
def test_bundles_that_lie_are_refused(tmp_path, how):
    place, path = plain(tmp_path)
    data = path.read_bytes()
    files, rest = parts_of(data)
    made = {
        "magic": lambda: bundle(files, rest, magic=5),
        "version": lambda: bundle(files, rest, version=2),
        "escape": lambda: data.replace(b'"start":0', b'"start":9', 1).replace(b'"end":', b'"end":9', 1),
        "cut": lambda: data[: len(data) // 2],
        "empty": lambda: b"",
        "long hotcache": lambda: data[:-4] + struct.pack("<I", 2**31),
        "long metadata": lambda: bundle(files, rest)[: -len(rest) - 4] + struct.pack("<I", 2**31) + rest,
        "rows": lambda: bundle(files | {"meta.json": _without_a_segment(files["meta.json"])}, rest),
    }[how]()
    resized(place, path, made)
    with pytest.raises(SplitCorrupt):
        indextables.open(place).to_arrow()


@needed
@pytest.mark.slow
def test_rows_are_never_others_than_the_peer_wrote_whatever_bit_changes(tmp_path):
    place, path = plain(tmp_path)
    whole, dice = path.read_bytes(), random.Random(7)
    before = rows_of(indextables.open(place).to_arrow())
    files, _ = parts_of(whole)
    refused = 0
    for name in (*(name for name in files if name.endswith(".store")), "meta.json"):
        start = whole.index(files[name])
        for at in dice.sample(range(len(files[name])), 60):
            data = bytearray(whole)
            data[start + at] ^= 1 << dice.randrange(8)
            path.write_bytes(data)
            try:
                assert rows_of(indextables.open(place).to_arrow()) == before, (name, at)
            except indextables.IndexTablesError:
                refused += 1
    assert refused > 60


def _without_a_segment(data):
    meta = json.loads(data)
    return json.dumps(meta | {"segments": meta["segments"][1:]}).encode()


@needed
def test_a_split_that_is_gone_is_told_so(tmp_path):
    place, path = plain(tmp_path)
    path.unlink()
    with pytest.raises(VersionExpired):
        indextables.open(place).to_arrow()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_damage_ends_in_an_error_of_ours_or_in_rows(case, tmp_path):
    place, path = opened(case.name, tmp_path)
    whole, dice = path.read_bytes(), random.Random(case.name)
    for _ in range(12):
        data = bytearray(whole)
        for _ in range(dice.choice([1, 3, 30])):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        with contextlib.suppress(indextables.IndexTablesError):
            for batch in indextables.open(place).scan():
                batch.validate(full=True)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(indextables.IndexTablesError):
        indextables.open(place).to_arrow()
