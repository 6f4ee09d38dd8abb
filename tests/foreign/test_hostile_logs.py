"""Damaged and hostile Delta tables end in errors of ours, whatever was done to them: a corpus from real tables."""

from __future__ import annotations

import json
import random
import shutil

import pyarrow as pa
import pytest
from tests.foreign.delta_world import DeltaWorld, rows, with_features
from tests.foreign.fixtures import cases

import indextables
from indextables.errors import LimitExceeded, LogCorrupt
from indextables.foreign.delta.actions import MAX_LINE_BYTES

CASES = cases("delta")
ROUNDS = 12


def everything(path):
    """What a user would do with it."""
    table = indextables.open(path)
    for batch in table.scan():
        batch.validate(full=True)
    table.count()
    table.files()
    table.history()
    table.detail()
    table.at(timestamp=2**40)
    table.sql("SELECT count(*) FROM t")


def only_our_errors(path):
    try:
        everything(path)
    except indextables.IndexTablesError:
        return False
    return True


def rows_by_version(path):
    """The rows of the newest version, by its number; nothing where it is refused."""
    try:
        table = indextables.open(path)
        return {table.version: sorted(map(repr, table.to_arrow().to_pylist()))}
    except indextables.IndexTablesError:
        return {}


def flip(data, dice):
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 3, 20])):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def cut(data, dice):
    return data[: dice.randrange(len(data))]


def double(data, dice):
    at = dice.randrange(len(data))
    return data[:at] + data[dice.randrange(len(data)) :]


def odd_number(data, dice):
    """A number in the text becomes another one."""
    places = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        return b""
    at = dice.choice(places)
    return data[:at] + dice.choice([b"-1", b"9" * 19, b"9" * 40, b"1e400", b'"x"', b"null", b"{}"]) + data[at + 1 :]


def odd_text(data, dice):
    odd = [
        b"../../x",
        b"/etc/passwd",
        b"\\u0000",
        b"%2e%2e%2f",
        b"\\",
        b"",
        b"{",
        b"\xff\xfe",
        b"s3://b/x",
        b"x" * 5000,
    ]
    at = dice.randrange(len(data))
    return data[:at] + dice.choice(odd) + data[at:]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_damage_anywhere_ends_in_an_error_of_ours_or_in_an_answer(case, tmp_path):
    dice = random.Random(case.name)
    original = case / "table"
    names = sorted(path.relative_to(original) for path in original.rglob("*") if path.is_file())
    logs = [name for name in names if "_delta_log" in name.parts and name.suffix != ".crc"]
    shutil.copytree(original, tmp_path / "table", copy_function=shutil.copyfile)
    is_read = only_our_errors(tmp_path / "table")
    for _ in range(ROUNDS):
        name = dice.choice(logs if dice.random() < 0.75 else names)
        place = tmp_path / "table" / name
        data = place.read_bytes()
        change = dice.choice([flip, cut, double, odd_number, odd_text])
        place.write_bytes(change(data, dice))
        only_our_errors(tmp_path / "table")
        place.write_bytes(data)
    assert only_our_errors(tmp_path / "table") == is_read, "what was damaged is remembered"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_without_any_one_file_a_version_has_all_its_rows_or_is_refused(case, tmp_path):
    shutil.copytree(case / "table", tmp_path / "table", copy_function=shutil.copyfile)
    places = sorted(path for path in (tmp_path / "table").rglob("*") if path.is_file())
    whole = rows_by_version(tmp_path / "table")
    for place in random.Random(case.name).sample(places, min(6, len(places))):
        data = place.read_bytes()
        place.unlink()
        only_our_errors(tmp_path / "table")
        found = rows_by_version(tmp_path / "table")
        # Without its newest commits a table is a shorter one.
        assert found.items() <= whole.items() or not found.keys() & whole.keys(), place.name
        place.write_bytes(data)


ACTIONS = ["add", "remove", "metaData", "protocol", "commitInfo", "txn", "sidecar", "checkpointMetadata", "cdc"]
VALUES = [None, 1, -1, 1.5, "x", "", [], {}, [1], {"path": 1}, {"path": None}, {"path": "x", "size": "big"}, True]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("in_checkpoint", [False, True])
def test_actions_of_any_shape(tmp_path, action, in_checkpoint):
    for number, value in enumerate(VALUES):
        world = DeltaWorld(tmp_path / str(number))
        world.create()
        if in_checkpoint:
            head = [json.loads(line) for line in (world.log / f"{0:020d}.json").read_text().splitlines()]
            world.checkpoint(1, [*head, {action: value}], "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json")
        else:
            world.commit({action: value})
        only_our_errors(world.root)


FIELDS = ["path", "partitionValues", "size", "modificationTime", "stats", "deletionVector"]


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_an_add_of_any_shape(tmp_path, field):
    for number, value in enumerate([*VALUES, 2**62, "a" * 5000, {"storageType": "u"}, {"p": 5}]):
        world = DeltaWorld(tmp_path / str(number))
        world.create(protocol=with_features("deletionVectors"))
        add = world.add(rows(1))
        add["add"][field] = value
        world.commit(add)
        only_our_errors(world.root)


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"type":"struct"}',
        '{"type":"struct","fields":[{"name":"a"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"A","type":"long"}]}',
        '{"type":"struct","fields":[' * 500,
        '{"type":"struct","fields":[{"name":"a","type":"long","metadata":{"delta.columnMapping.id":[1]}}]}',
    ],
)
def test_schemas_of_any_shape(tmp_path, schema):
    for mode in ("none", "name", "id", "other", ""):
        world = DeltaWorld(tmp_path / (mode or "empty"))
        world.create(schema, protocol=with_features("columnMapping"), configuration={"delta.columnMapping.mode": mode})
        world.commit(world.add(rows(1)))
        only_our_errors(world.root)


NULS = [
    b'{"add":{"path":"x","size":\x00717}}',
    b'{"add":{"path":"x","size":"\\u0000"}}',
    b'{"add":{"path":["\\u0000"],"size":1}}',
    b'{"add":"\\u0000"}',
    b'{"add":{"path":"x","partitionValues":{"a":{"b":"\\u0000"}},"size":1}}',
    b'{"metaData":{"configuration":["\\u0000"]}}',
    b'"\\u0000"',
    b"\0",
]


@pytest.mark.parametrize("text", NULS)
def test_a_nul_where_none_may_be_is_refused(tmp_path, text):
    world = DeltaWorld(tmp_path / "table")
    world.create()
    (world.log / f"{1:020d}.json").write_bytes(text + b"\n")
    with pytest.raises(LogCorrupt) as caught:
        indextables.open(world.root)
    assert caught.value.version == 1


@pytest.mark.parametrize(
    "stats", ['{"numRecords":\0}', '{"numRecords":"\\u0000"}', "\0", '"\\u0000"', '{"a":"\\u0000"}']
)
def test_a_nul_in_statistics_tells_nothing(tmp_path, stats):
    world = DeltaWorld(tmp_path / "table")
    world.create()
    world.commit(world.add(rows(1, 2), stats=stats))
    assert indextables.open(world.root).count() == 2


def test_a_nul_in_a_value_is_a_value(tmp_path):
    world = DeltaWorld(tmp_path / "table")
    world.create(pa.schema([("id", pa.int64()), ("p", pa.binary())]), partition_by=["p"])
    world.commit(world.add(rows(1), values={"p": "\0\1"}))
    assert indextables.open(world.root).to_arrow().to_pylist() == [{"id": 1, "p": b"\0\1"}]


def test_an_action_that_does_not_end_in_its_file_is_refused(tmp_path):
    """However it goes on in the next one."""
    world = DeltaWorld(tmp_path / "table")
    world.create()
    (world.log / f"{1:020d}.json").write_text('{"add":')
    (world.log / f"{2:020d}.json").write_text(json.dumps(world.add(rows(1))["add"]) + "}")
    with pytest.raises(LogCorrupt) as caught:
        indextables.open(world.root)
    assert caught.value.version == 1


def test_a_version_that_is_cut_short_is_refused_by_its_number(tmp_path):
    world = DeltaWorld(tmp_path / "table")
    world.create()
    for number in range(3):
        world.commit(world.add(rows(number)))
    place = world.log / f"{2:020d}.json"
    place.write_bytes(place.read_bytes()[:-20])
    with pytest.raises(LogCorrupt) as caught:
        indextables.open(world.root)
    assert caught.value.version == 2
    assert indextables.open(world.root, version=1).count() == 1


@pytest.mark.slow
def test_a_line_without_end_is_refused(tmp_path):
    world = DeltaWorld(tmp_path / "table")
    world.create()
    (world.log / f"{1:020d}.json").write_bytes(b'{"add":{"path":"' + b"x" * (MAX_LINE_BYTES + 1) + b'"}}\n')
    with pytest.raises(LimitExceeded):
        indextables.open(world.root)


def test_deep_nesting_is_no_way_to_end_the_process(tmp_path):
    for number, text in enumerate(
        ["[" * 200_000, '{"a":' * 200_000, '{"commitInfo":' + "[" * 100_000 + "]" * 100_000 + "}"]
    ):
        world = DeltaWorld(tmp_path / str(number))
        world.create()
        (world.log / f"{1:020d}.json").write_text(text)
        only_our_errors(world.root)


@pytest.mark.parametrize(
    "path", ["../x.parquet", "/etc/passwd", "a/b.parquet", "s3://b/x", "", "..", "%2e%2e%2fx.parquet"]
)
def test_a_sidecar_elsewhere_is_refused(tmp_path, path):
    world = DeltaWorld(tmp_path / "table")
    world.create()
    head = [json.loads(line) for line in (world.log / f"{0:020d}.json").read_text().splitlines()]
    world.checkpoint(0, [*head, {"sidecar": {"path": path}}], "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json")
    assert indextables.open(world.root).count() == 0
    (world.log / f"{0:020d}.json").unlink()
    with pytest.raises(indextables.errors.LogError):
        indextables.open(world.root)
