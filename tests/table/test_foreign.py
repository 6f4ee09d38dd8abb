"""Tables of IndexTables4Spark: what they are can be seen; they are not searched and not written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import NotSupported
from indextables.log.wire.schema import schema_from_json

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures" / "indextables4spark"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/expected.json"))

pytestmark = pytest.mark.skipif(not NAMES, reason=f"the tables of IndexTables4Spark are not at {FIXTURES}")


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_as_expected(name):
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    table = indextables.open(FIXTURES / name / "table")
    assert table.version == expected["version"]
    assert table.partition_columns == expected["partitionColumns"]
    schema = expected["schema"] if isinstance(expected["schema"], str) else json.dumps(expected["schema"])
    assert table.schema == schema_from_json(schema)
    columns = ["path", "partitionValues", "size", "numRecords", "minValues", "maxValues"]
    found = {row["path"]: row for row in table.files().select(columns).to_pylist()}
    assert found.keys() == {row["path"] for row in expected["files"]}
    for row in expected["files"]:
        ours = found[row["path"]]
        assert (ours["size"], ours["numRecords"]) == (row["size"], row["numRecords"])
        for maps in ("partitionValues", "minValues", "maxValues"):
            assert dict(ours[maps] or []) == (row[maps] or {})
    assert table.count() == expected["count"]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    place = tmp_path_factory.mktemp("foreign") / "table"
    shutil.copytree(FIXTURES / "many_appends_partitioned" / "table", place)
    return indextables.open(place)


def test_searches_find_what_a_predicate_finds(foreign):
    wanted = foreign.to_arrow(where="id = 1")
    assert foreign.search("id:1").select(wanted.column_names).to_pylist() == wanted.to_pylist()
    assert foreign.count("id:1") == wanted.num_rows == 1


def test_writing_is_refused_and_changes_nothing(foreign):
    rows = pa.Table.from_pylist([{}], schema=foreign.schema)
    for write in (lambda: foreign.append(rows), lambda: foreign.overwrite(rows), foreign.checkpoint, foreign.compact):
        with pytest.raises(NotSupported, match="IndexTables4Spark"):
            write()
    assert indextables.open(foreign.url).version == foreign.version


def test_partition_filters_prune_its_files(foreign):
    files = foreign.files()
    column = foreign.partition_columns[0]
    value = dict(files["partitionValues"][0].as_py())[column]
    kept = foreign.files(f"{column} = '{value}'")
    assert 0 < kept.num_rows < files.num_rows
    assert {dict(row)[column] for row in kept["partitionValues"].to_pylist()} == {value}
