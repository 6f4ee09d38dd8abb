"""delta-spark reads a mirror row by row at every version, and its writers refuse it. In an environment of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.delta_side import plain_environment, python_with_delta
from tests.table.test_mirror import build, log_of, place, spelled

import indextables
from indextables.log.mirror.actions import GUARD


def altered(path):
    """Columns that were renamed, dropped, added and widened, and names that Delta maps, with vectors in between."""
    schema = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("a b", pa.string()), ("gone", pa.string())])
    table = indextables.create(path, schema, properties={"mirror.delta": "true"})
    table.append([{"id": number, "n": number, "a b": f"text {number}", "gone": "x"} for number in range(40)])
    table.rename_column("a b", "text")
    table.delete("id % 7 = 3")
    table.alter_column("n", type="bigint")
    table.drop_columns(["gone"])
    table.add_columns("new double")
    table.append([{"id": 100, "n": 2**40, "text": None, "new": 0.5}])
    table.update({"new": "id / 2"}, "id < 10")
    table.merge_splits()
    # Two files, so that there is something to optimize.
    table.append([{"id": 200, "n": 1, "text": "last", "new": None}])
    return table


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("history", [build, altered])
def test_delta_spark_reads_every_version_and_writes_none(tmp_path, history):
    table = history(tmp_path / "table")
    before, files = log_of(table), set(Path(place(table)).rglob("*.split"))
    python, script = (
        python_with_delta(Path(".venv") / "delta-spark").absolute(),
        Path(__file__).with_name("mirror_in_delta.py"),
    )
    environment = {**plain_environment(), "TZ": "UTC"}
    subprocess.run([python, script, str(tmp_path / "table"), str(tmp_path / "answers")], check=True, env=environment)
    shown = sorted(int(name[:20]) for name in before if name.endswith(".json"))
    assert shown[-1] == table.version
    for version in shown:
        ours = table.at(version).to_arrow()
        theirs = pq.read_table(tmp_path / "answers" / str(version), coerce_int96_timestamp_unit="us")
        assert spelled(theirs.select(ours.column_names).cast(ours.schema)) == spelled(ours), version
    told = json.loads((tmp_path / "answers" / "writers.json").read_text(encoding="utf-8"))
    assert [verb for verb, answer in told.items() if GUARD not in answer] == []
    assert log_of(table) == before
    assert set(Path(place(table)).rglob("*.split")) == files
    assert table.verify().ok
