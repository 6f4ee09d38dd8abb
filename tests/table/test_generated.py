"""Generated columns in one process: computed where data lacks them, compared where it has them, right after changes."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from tests.foreign.delta_world import DeltaWorld

import indextables
from indextables.cli import main
from indextables.errors import ConstraintViolation, InvalidArgument, ProtocolUnsupported, SchemaInvalid
from indextables.log.wire import protocol
from indextables.query.evaluate import evaluate
from indextables.query.parse import parse, parse_value
from indextables.sql.local.session import LocalSession
from indextables.table.read.implied import with_implied
from indextables.table.rows.generated import computed_column

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("head", pa.string()),
        ("s", pa.string()),
    ]
)
GENERATED = {"day": "CAST(ts AS DATE)", "head": "substring(s, 1, 2)"}


def at(day, hour=12):
    return dt.datetime(2026, 1, day, hour, tzinfo=dt.UTC)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t"


@pytest.fixture
def table(path):
    made = indextables.create(path, SCHEMA, partition_by=["day"], generated=GENERATED)
    made.append([{"id": n, "ts": at(n), "s": f"text{n}"} for n in range(1, 4)])
    return made


def days(table):
    rows = indextables.open(table.url).to_arrow().to_pylist()
    for row in rows:
        assert row["day"] == (None if row["ts"] is None else row["ts"].date()), row
        assert row["head"] == (None if row["s"] is None else row["s"][:2]), row
    return {row["id"]: None if row["day"] is None else row["day"].day for row in rows}


def test_what_data_lacks_is_computed_and_what_it_brings_is_compared(table, path):
    table.append(pa.table({"id": [4], "ts": pa.array([at(4, 23)], SCHEMA.field("ts").type)}))
    table.append(iter([{"id": 5, "ts": None}, {"id": 6, "ts": at(6), "day": dt.date(2026, 1, 6)}]))
    table.overwrite([{"id": 3, "ts": at(3), "day": dt.date(2026, 1, 3)}], partitions="dynamic")
    assert days(table) == {1: 1, 2: 2, 3: 3, 4: 4, 5: None, 6: 6}
    before = sorted(path.rglob("*.split"))
    with pytest.raises(ConstraintViolation, match=r"day is generated as \(CAST\(ts AS DATE\)\), and row 2") as caught:
        table.append([{"id": 7, "ts": at(7)}, {"id": 8, "ts": at(8), "day": dt.date(2026, 1, 9)}])
    assert (caught.value.constraint, caught.value.expression) == ("day", "CAST(ts AS DATE)")
    assert sorted(path.rglob("*.split")) == before


def test_null_is_not_given_though_the_column_is_never_null(tmp_path):
    schema = pa.schema([("id", pa.int64()), pa.field("twice", pa.int64(), nullable=False)])
    table = indextables.create(tmp_path / "t", schema, generated={"twice": "id * 2"})
    table.append([{"id": 4}, {"id": 5, "twice": None}, {"id": 6, "twice": 12}])
    with pytest.raises(ConstraintViolation, match=r"twice .* must not be null"):
        table.append([{"id": None, "twice": None}])
    assert table.to_arrow()["twice"].to_pylist() == [8, 10, 12]


CHANGES = {
    "update": lambda t: t.update({"ts": at(20)}, "id = 1"),
    "SQL": lambda t: LocalSession({"t": t.url}).run("UPDATE t SET ts = TIMESTAMP '2026-01-20 00:00:00Z' WHERE id = 1"),
    "upsert": lambda t: t.upsert([{"id": 1, "ts": at(20), "s": "x"}], on="id"),
    "upsert that brings it": lambda t: t.upsert(
        [{"id": 1, "ts": at(20), "s": "x", "day": None, "head": None}], on="id"
    ),
    "merge": lambda t: t.merge([{"id": 1, "ts": at(20)}], "t.id = s.id").when_matched_update({"ts": "s.ts"}).execute(),
    "merge of all": lambda t: (
        t.merge([{"id": 1, "ts": at(20), "s": "y"}], "t.id = s.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_follows_when_a_row_changes(table, change):
    CHANGES[change](table)
    assert days(table) == {1: 20, 2: 2, 3: 3}
    table.merge([{"id": 9, "ts": at(9)}], "t.id = s.id").when_not_matched_insert({"id": "s.id", "ts": "s.ts"}).execute()
    assert days(table)[9] == 9


def test_it_is_not_set_by_hand(table):
    for change in (
        lambda: table.update({"day": "DATE '2026-01-01'"}),
        lambda: table.merge([{"id": 1}], "t.id = s.id").when_matched_update({"DAY": None}).execute(),
        lambda: table.alter_column("day", default="DATE '2026-01-01'"),
        lambda: table.add_columns(pa.field("n", pa.int64(), metadata={"generationExpression": "id + 1"})),
        lambda: table.rename_column("ts", "at"),
        lambda: table.drop_columns("s"),
    ):
        with pytest.raises(InvalidArgument, match="generated"):
            change()
    table.drop_columns("head")
    table.drop_columns("s")
    assert indextables.open(table.url).schema.names == ["id", "ts", "day"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nope + 1", "nope"),
        ("1 + 1", "names no column"),
        ("s", "gives string"),
        ("day", "reads a generated column|cannot"),
        ("sum(id)", "cannot"),
    ],
)
def test_what_no_column_can_be_is_refused(path, text, said):
    with pytest.raises(SchemaInvalid, match=said):
        indextables.create(path, SCHEMA, generated={"day": text})
    with pytest.raises(InvalidArgument, match="no column other"):
        indextables.create(path, SCHEMA, generated={"other": "id"})
    assert not path.exists()


def test_a_column_does_not_become_generated_by_an_overwrite(table):
    told = pa.field("n", pa.int64(), metadata={"generationExpression": "id + 1"})
    with pytest.raises(SchemaInvalid, match="n cannot become generated"):
        table.overwrite(
            pa.table([[1], [2]], schema=pa.schema([("id", pa.int64()), told])), overwrite_schema=True, partition_by=[]
        )
    table.overwrite(pa.table({"id": [7], "ts": [at(7)], "s": ["x"]}), overwrite_schema=True, partition_by=[])
    assert indextables.open(table.url).schema.names == ["id", "ts", "s"]


def test_a_predicate_on_the_base_column_prunes_partitions(table):
    table.checkpoint()
    assert table.files("ts = TIMESTAMP '2026-01-02 12:00:00Z'").num_rows == 1
    only = parse("ts >= TIMESTAMP '2026-01-02 00:00:00' AND s < 'tf'", table._snapshot.schema)
    wider = with_implied(only, table._snapshot.schema)
    assert {"day", "head"} <= {term.left.name for term in wider.terms}
    assert table.count(where="ts >= TIMESTAMP '2026-01-02 00:00:00' AND s < 'texu'") == 2


KINDS = pa.schema([("t", pa.timestamp("us", "UTC")), ("s", pa.string()), ("f", pa.float64()), ("i", pa.int64())])
EXPRESSIONS = [
    "CAST(t AS DATE)",
    "year(t)",
    "substring(s, 1, 1)",
    "substring(s, 2, 1)",
    "i * 2",
    "i % 3",
    "CAST(f AS STRING)",
]
VALUES = {
    "t": [at(1, 0) + dt.timedelta(days=days, microseconds=us) for days in (-1, 0, 364, 365) for us in (-1, 0, 1)],
    "s": ["", *(a + b for a in ("a", "ä", "😀") for b in ("", "a", "😀"))],
    "f": [0.0, -0.0, 1.5, -1.5, float("nan")],
    "i": list(range(-4, 5)),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("op", ["<", "<=", "=", ">=", ">"])
def test_what_is_implied_is_true_for_every_row_for_which_the_predicate_is(text, op):
    (name,) = [one for one in KINDS.names if f"({one}" in text or text.startswith(one)]
    rows = [None, *VALUES[name]]
    node = parse_value(text, KINDS)
    field = pa.field("g", node.type, metadata={"generationExpression": text})
    schema = KINDS.append(field)
    given = {one: rows if one == name else [None] * len(rows) for one in KINDS.names}
    batch = pa.record_batch([pa.array(values, KINDS.field(one).type) for one, values in given.items()], schema=KINDS)
    batch = batch.append_column(field, computed_column(node, field, batch))
    for asked in VALUES[name]:
        word = {"t": f"TIMESTAMP '{asked}'", "s": f"'{asked}'", "f": f"CAST('{asked}' AS DOUBLE)"}.get(name, str(asked))
        where = parse(f"{name} {op} {word}", schema)
        found, wanted = (evaluate(one, batch).to_pylist() for one in (with_implied(where, schema), where))
        assert [one is True for one in found] == [one is True for one in wanted], asked


def test_declared_in_words_and_shown(path, capsys):
    words = "ts timestamp, day date GENERATED ALWAYS AS (CAST(ts AS DATE)) COMMENT 'of ts'"
    assert main(["create", str(path), "--schema", words, "--partition-by", "day"]) == 0
    told = indextables.open(path).schema.field("day").metadata
    assert told == {b"comment": b"of ts", b"generationExpression": b"CAST(ts AS DATE)"}
    copied = indextables.create(path.with_name("copy"), indextables.open(path).schema)
    copied.append([{"ts": at(5)}])
    assert copied.to_arrow()["day"].to_pylist() == [dt.date(2026, 1, 5)]


@pytest.mark.parametrize(
    "words",
    ["PRIMARY KEY", "CHECK (id > 0)"],
)
def test_what_a_new_column_is_not_offered_is_refused_and_not_passed_over(path, capsys, words):
    assert main(["create", str(path), "--schema", f"id bigint {words}"]) == 2
    assert "is not offered" in capsys.readouterr().err
    assert not path.exists()
    assert main(["create", str(path), "--schema", "id bigint NULL, n int NOT NULL COMMENT 'x'"]) == 0
    assert [field.nullable for field in indextables.open(path).schema] == [True, False]


def test_a_library_that_does_not_know_it_reads_and_does_not_write(table, monkeypatch):
    assert "generatedColumns" not in table.protocol.readerFeatures
    monkeypatch.setattr(protocol, "FEATURES", protocol.FEATURES - {"generatedColumns"})
    with pytest.raises(ProtocolUnsupported, match="generatedColumns"):
        indextables.open(table.url).append([{"id": 1}])


def test_what_is_generated_from_a_personal_column_is_personal(path, table):
    with pytest.raises(InvalidArgument, match="mark head as personal too"):
        indextables.create(path.with_name("p"), SCHEMA, generated=GENERATED, properties={"indexing.personal": "s"})
    with pytest.raises(InvalidArgument, match="mark head as personal too"):
        table.set_properties({"indexing.personal": "s"})
    table.set_properties({"indexing.personal": "s,head"})
    table.append([{"id": 5, "ts": at(5), "s": "word"}])
    assert days(table)[5] == 5


def test_a_widened_base_and_a_restore_keep_the_rule(path):
    schema = pa.schema([("n", pa.int32()), ("twice", pa.int64()), ("half", pa.int32())])
    table = indextables.create(path, schema, generated={"twice": "CAST(n AS BIGINT) * 2"})
    table.append([{"n": 1}])
    table.alter_column("n", type="bigint")
    table.append([{"n": 2**40}])
    assert sorted(table.to_arrow()["twice"].to_pylist()) == [2, 2**41]
    table.restore(version=1)
    table.append([{"n": 3}])
    assert sorted(table.to_arrow()["twice"].to_pylist()) == [2, 6]


def test_a_delta_mirror_tells_it_and_a_conversion_takes_it_over(table, path, tmp_path):
    from deltalake import DeltaTable

    table.mirror()
    told = {field.name: field.metadata for field in DeltaTable(str(path)).schema().fields}
    assert told["day"]["delta.generationExpression"] == "CAST(ts AS DATE)"
    assert "generatedColumns" in DeltaTable(str(path)).protocol().writer_features
    world = DeltaWorld(tmp_path / "delta")
    plain = pa.schema([("n", pa.int64()), pa.field("g", pa.int64(), metadata={"delta.generationExpression": "n + 1"})])
    world.create(plain)
    world.commit(world.add(pa.table({"n": [1, 2], "g": [2, 3]})))
    indextables.convert(tmp_path / "delta", tmp_path / "kept")
    kept = indextables.open(tmp_path / "kept")
    kept.append([{"n": 9}])
    assert sorted(kept.to_arrow()["g"].to_pylist()) == [2, 3, 10]
    world.commit(world.metadata(indextables.open(tmp_path / "delta").metadata.schemaString.replace("n + 1", "hash(n)")))
    with pytest.raises(InvalidArgument, match=r"g cannot be generated as \(hash\(n\)\)"):
        indextables.convert(tmp_path / "delta", tmp_path / "other")
    indextables.convert(tmp_path / "delta", tmp_path / "other", properties={"generated.g": ""})
    assert indextables.open(tmp_path / "other").schema.field("g").metadata is None
