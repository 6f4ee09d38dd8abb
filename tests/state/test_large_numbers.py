"""Whatever number a version file may hold, every checkpoint holds too; what a checkpoint cannot hold is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from indextables.errors import InvalidArgument, LimitExceeded
from indextables.log.care.schedule import checkpoint
from indextables.log.care.verifying import verify
from indextables.log.checkpoint.read import read_state
from indextables.log.commit.transaction import Transaction
from indextables.log.read.log import Log
from indextables.log.wire.actions import Add, DeletionVector, Remove
from indextables.log.wire.codec import encode_version
from indextables.log.wire.files import ADD_TYPE
from indextables.log.wire.names import version_key
from tests.log.commits import open_log
from tests.state.logs import RandomLog, environment

FORMATS = ("avro", "json", "parquet")
FIELDS = [field.name for field in ADD_TYPE if pa.types.is_integer(field.type)]
ADD_SCHEMA = pa.schema(list(ADD_TYPE))
LARGE = [2**31 - 1, 2**31, 2**62, 2**63 - 1]


def is_refused(field: str, value: int) -> bool:
    """An Avro state has 32 bits for this one."""
    return field == "numMergeOps" and value >= 2**31


def large(number: int, **fields: object) -> Add:
    given = {"size": 1, "modificationTime": 1, **fields}
    return Add(f"day=2024-01-01/shard=1/{number}", {"day": "2024-01-01", "shard": "1"}, dataChange=True, **given)


def logged(form: str, *adds: Add):
    """A log whose newest version, written by somebody else, adds these files."""
    env = environment({"state.format": form})
    log = RandomLog(env, 1)
    env.store.put(version_key(log.version + 1), encode_version(list(adds), compress=False))
    return env


def test_every_whole_number_of_an_add_is_tried() -> None:
    assert {"numMergeOps", "size", "numRecords", "deleteOpstamp", "modificationTime"} <= set(FIELDS)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("files", [1, 2])
def test_a_number_that_is_read_from_a_version_comes_back_from_its_checkpoint(form, value, field, files):
    env = logged(form, *(large(number, **{field: value}) for number in range(files)))
    if is_refused(field, value):
        with pytest.raises(LimitExceeded, match=field):
            Log(env).snapshot().files.num_rows  # noqa: B018 - it loads
        return
    before = Log(env).snapshot().files
    assert read_state(env, checkpoint(env)).files.equals(before)
    assert Log(env).snapshot().files.equals(before)
    assert verify(env).ok
    taken = [Remove(path, dataChange=True, deletionTimestamp=value) for path in before["path"].to_pylist()[-1:]]
    env.store.put(version_key(Log(env).latest_version() + 1), encode_version(taken, compress=False))
    assert read_state(env, checkpoint(env)).files.num_rows == before.num_rows - 1


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("field", ["sizeInBytes", "cardinality", "offset"])
def test_a_number_of_a_vector_comes_back_from_its_checkpoint(form, field):
    numbers = {"sizeInBytes": 1, "cardinality": 1, "offset": 1, field: 2**63 - 1}
    env = logged(form, large(1, deletionVector=DeletionVector("u", "vector", **numbers)))
    assert read_state(env, checkpoint(env)).files.equals(Log(env).snapshot().files)


@pytest.mark.parametrize("many", [False, True], ids=["structs", "columns"])
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", LARGE)
def test_what_is_committed_can_be_read_and_checkpointed(value, field, many):
    """A commit is refused before anything is written, or its version is as good as any."""
    env = environment({"state.format": "avro"})
    log = RandomLog(env, 1)
    adds = [large(1, **{field: value})]
    given = pa.Table.from_pylist([{n: getattr(adds[0], n) for n in ADD_TYPE.names}], ADD_SCHEMA) if many else adds
    transaction = Transaction(open_log(env), operation="WRITE").add(given)
    if is_refused(field, value):
        with pytest.raises(InvalidArgument, match=field):
            transaction.commit_or_raise()
        assert Log(env).latest_version() == log.version
        return
    transaction.commit_or_raise()
    checkpoint(env)
    assert Log(env).snapshot().files[field].to_pylist()[-1] == value
