"""Files carry the tags that an option names, whoever writes them, and keep them while they are merged."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])


def told(table: indextables.Table) -> list[dict[str, str]]:
    """The tags of each file, but for those of the library itself."""
    listed = table.refresh().files()["tags"].to_pylist()
    return [{k: v for k, v in dict(tags or {}).items() if not k.startswith("indextables.")} for tags in listed]


def test_tags_come_by_an_option_and_survive(tmp_path):
    indextables.create(tmp_path / "t", SCHEMA)
    job = indextables.open(tmp_path / "t", options={"write.tags": "Source = batch-job-123, reason=a=b"})
    job.append([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    job.update({"s": "'c'"}, "id = 2")
    tags = {"Source": "batch-job-123", "reason": "a=b"}
    assert told(job) == [tags, tags]
    job.merge_splits()
    job.reindex(force=True)
    job.checkpoint()
    assert told(indextables.open(tmp_path / "t")) == [tags]
    indextables.open(tmp_path / "t").append([{"id": 3, "s": "d"}])
    assert told(job) == [tags, {}]


def test_a_table_may_name_them_for_all_writers(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, properties={"write.tags": "team=search"})
    table.overwrite([{"id": 1, "s": "a"}])
    assert told(table) == [{"team": "search"}]


@pytest.mark.parametrize("text", ["source", "=x", "a=1,a=2", "indextables.position=1"])
def test_what_is_no_tag_is_refused(tmp_path, text):
    table = indextables.create(tmp_path / "t", SCHEMA)
    with pytest.raises(InvalidArgument, match=r"write.tags"):
        table.set_properties({"write.tags": text})
    with pytest.raises(InvalidArgument, match=r"write.tags"):
        indextables.open(tmp_path / "t", options={"write.tags": text})
