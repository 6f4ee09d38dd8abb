"""Make the golden table: `python -m tests.golden.table.build` writes `v4.json` beside this file.

A golden file is never rebuilt: it shows that what was once written stays readable. A new form gets a new file.
"""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path

import pyarrow as pa

import indextables as it

FOLDER = Path(__file__).parent
FORMATS = ["json", "parquet", "avro"]


def build(folder: Path) -> dict[str, object]:
    """A table with a checkpoint in each format; its objects, and what must be read from them."""
    place = folder / "t"
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("message", pa.string())])
    it.create(place, schema, partition_by=["day"], indexing={"message": "text"})
    for number, form in enumerate(FORMATS):
        table = it.open(place, options={"state.format": form, "commit.user": "golden"})
        days = pa.array([f"d{number}", None])
        ids = pa.array([2 * number, 2 * number + 1], pa.int64())
        table.append(pa.table({"id": ids, "day": days, "message": [f"word{number} both", "both"]}, schema=schema))
        table.checkpoint()
    table.append(pa.table({"id": pa.array([6], pa.int64()), "day": ["d0"], "message": ["last"]}, schema=schema))
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    rows = [table.at(version).to_arrow().sort_by("id").to_pylist() for version in range(len(FORMATS) + 2)]
    return {
        "objects": {str(file.relative_to(place)): base64.b85encode(file.read_bytes()).decode() for file in files},
        "rows": rows,
        "id": table.metadata.id,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        (FOLDER / "v4.json").write_text(json.dumps(build(Path(made)), indent=1) + "\n")
