"""What a plan is made of is the same whether the entries of a table are read part by part or all at once."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from tests.spark.vectors import delete_rows
from tests.state.logs import SCHEMA_JSON, RandomLog, environment, rows_of, with_options
from tests.state.spy import Spy

import indextables
from indextables.errors import LogCorrupt
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint
from indextables.log.wire.crcfile import CrcFile
from indextables.log.wire.names import crc_key
from indextables.log.wire.schema import schema_from_json
from indextables.query.parse import parse
from indextables.split.file import SplitRef
from indextables.table.environment import open_env
from indextables.table.read.order import position_tag
from indextables.table.read.plan import planned_files, prune_files, refs_of

SCHEMA = schema_from_json(SCHEMA_JSON)
UNCACHED = {"transaction.cache.enabled": False, "state.entriesPerManifest": 8}
PARTS = {**UNCACHED, "state.filesInMemory": 1}
PREDICATES = [None, "shard < 5", "id > 30 AND note = 'b'", "day > DATE '2024-01-09' AND id < 50", "id IS NULL"]


class MovedLog(RandomLog):
    """Some files stand where older ones stood."""

    def _fresh(self):
        row = super()._fresh()
        if self.chance.random() < 0.3:
            place = position_tag(self.chance.randrange(4), self.chance.randrange(3), self.chance.randrange(3))
            row["tags"] = [("other", "x"), *place.items()]
        return row


@pytest.mark.parametrize("log_of", [RandomLog, MovedLog])
@pytest.mark.parametrize("seed", range(2))
def test_a_plan_in_parts_is_the_plan_of_the_whole_table_at_every_version(seed, log_of):
    env = environment(PARTS)
    log = log_of(env, seed, partitions=("day", "shard") if seed % 2 else ())
    log.append(60)
    checkpoint(env)
    whole = with_options(env, transaction_cache_enabled=False)
    for step in range(6):
        log.step()
        if step == 3:
            checkpoint(env)
        for text in PREDICATES:
            where = None if text is None else parse(text, SCHEMA)
            found = planned_files(env, open_log(env).snapshot(), where)
            expected = prune_files(open_log(whole).snapshot(), where).select(found.column_names)
            assert rows_of(found) == rows_of(expected), (step, text)


def manifests_read(files, most):
    """How many manifests were read for one plan, and for the next of the same snapshot."""
    env = environment({**UNCACHED, "state.filesInMemory": most})
    log = RandomLog(env, 7)
    log.append(files)
    checkpoint(env)
    spy = Spy(env)
    snapshot = open_log(spy.env).snapshot()
    counts = []
    for _ in range(2):
        before = len(spy.read)
        assert planned_files(spy.env, snapshot, None).num_rows == files
        counts.append(sum("manifests/" in key for key in spy.read[before:]))
    return counts


def test_entries_of_many_files_are_read_for_a_plan_and_not_kept():
    first, second = manifests_read(41, 160)
    assert first == second > 4


def test_entries_of_few_files_are_read_once():
    first, second = manifests_read(40, 160)
    assert first > 4
    assert second == 0


def test_a_check_file_that_tells_other_numbers_is_noticed():
    env = environment(PARTS)
    log = RandomLog(env, 7)
    log.append(40)
    checkpoint(env)
    newest = log.append(1)
    told = CrcFile(crc32c=newest.crc32c, tableSizeBytes=1, numFiles=7, token=newest.token)
    env.store.put(crc_key(log.version), msgspec.json.encode(told))
    with pytest.raises(LogCorrupt, match="7 files"):
        planned_files(env, open_log(env).snapshot(), None)


def test_references_of_a_plan_have_all_that_the_log_tells(tmp_path):
    rows = pa.table({"id": list(range(60)), "note": ["a word"] * 60})
    table = indextables.create(tmp_path / "t", rows.schema, properties={"mergeOnWrite.enabled": "false"})
    for start in range(0, 60, 10):
        table.append(rows.slice(start, 10))
    table.checkpoint()
    delete_rows(tmp_path / "t", lambda number, _: [1, 2] if number in {1, 4} else [])
    log = open_log(open_env(str(tmp_path / "t"), PARTS))
    snapshot = log.snapshot()
    found = refs_of(log.env, planned_files(log.env, snapshot, None), snapshot.schema)
    assert found == refs_of(log.env, prune_files(snapshot, None), snapshot.schema)
    assert sum(ref.vector is not None for ref in found) == 2
    assert all(isinstance(ref, SplitRef) and ref.has_offsets and ref.id and ref.size for ref in found)
