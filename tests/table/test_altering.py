"""ALTER TABLE in one process: columns that are renamed, dropped, added and widened over files that nobody rewrites."""

from __future__ import annotations

import copy
import datetime as dt
import json
import random
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

import indextables
from indextables import LocalSession
from indextables.errors import ConstraintViolation, InvalidArgument, MetadataChanged, ProtocolUnsupported, SchemaInvalid

COLUMNS = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string()), ("n", pa.int32())])
FIRST = [{"id": i, "a": f"apple word{i}", "b": f"b{i}", "n": i} for i in range(6)]


def splits(path):
    return sorted(str(found.relative_to(path)) for found in path.rglob("*.split"))


def reopened(table):
    return indextables.open(table.url)


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", COLUMNS, indexing={"a": "text"})
    made.append(FIRST)
    return made


@pytest.fixture(scope="module")
def by_day(tmp_path_factory):
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("day", pa.string())])
    return indextables.create(tmp_path_factory.mktemp("refused") / "t", schema, partition_by=["day"])


def test_two_columns_change_their_names_and_no_file_is_touched(table, tmp_path):
    before = splits(tmp_path)
    table.rename_column("a", "third")
    table.rename_column("B", "a")
    table.rename_column("third", "b")
    assert splits(tmp_path) == before
    table = reopened(table)
    assert table.to_arrow().to_pylist()[1] == {"id": 1, "b": "apple word1", "a": "b1", "n": 1}
    assert table.count("b:apple") == 6
    assert table.search("word3", columns=["id"]).to_pylist()[0]["id"] == 3
    assert table.count(where="a = 'b2'") == 1
    assert table.count(where="a >= 'b4' AND b LIKE 'apple%'") == 2
    table.append([{"id": 9, "a": "b9", "b": "pear"}])
    assert table.count("pear") == 1
    assert table.sql("SELECT max(a) AS m FROM t WHERE b LIKE 'apple%'").to_pylist() == [{"m": "b5"}]
    table.merge_splits()
    assert table.count(where="b LIKE 'apple%'") == 6
    assert table.count("b:pear") == 1
    assert table.metadata.configuration["indexing.typemap.b"] == "text"
    assert "indexing.typemap.a" not in table.metadata.configuration


def test_the_log_says_what_files_call_a_column_as_long_as_that_is_another_name(table, tmp_path):
    def told():
        return {
            f["name"]: f["metadata"].get("indextables.physicalName")
            for f in json.loads(table.metadata.schemaString)["fields"]
        }

    table.rename_column("a", "x")
    assert told() == {"id": None, "x": "a", "b": None, "n": None}
    table.append([{"id": 7, "x": "plum", "b": "zz"}])
    low = dict(table.files().to_pylist()[-1]["minValues"])
    assert (low["a"], "x" in low) == ("plum", False)
    table.rename_column("x", "a")
    assert told() == {"id": None, "a": None, "b": None, "n": None}
    assert "columnMapping" in table.protocol.readerFeatures


def test_a_column_that_is_dropped_and_made_again_is_another_one(table):
    table.drop_columns(["n", "b"])
    table.add_columns("n string, b int DEFAULT 5")
    assert json.loads(table.metadata.configuration["columnMapping.formerNames"]) == ["b", "n"]
    assert table.count(where="n IS NULL AND b = 5") == 6
    table.append([{"id": 10, "n": "text", "b": None}, {"id": 11}])
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert [rows[10]["n"], rows[10]["b"], rows[11]["n"], rows[11]["b"], rows[0]["b"]] == ["text", None, None, 5, 5]
    assert table.count(where="n = 'text'") == 1
    assert table.count(where="b = 5") == 7
    assert table.count("b:5") == 7
    # A merge of data brings a column of a name that files have already.
    table.drop_columns("n")
    table.append(pa.table({"id": [12], "n": pa.array([1.5])}), merge_schema=True)
    assert table.count(where="n = 1.5") == 1
    assert table.count(where="n IS NULL") == 8
    assert table.at(version=1).count(where="n = 3") == 1


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("int", "7", 7),
        ("bigint", "-3", -3),
        ("string", "'it''s two'", "it's two"),
        ("double", "0.5", 0.5),
        ("decimal(10,2)", "1.5", Decimal("1.50")),
        ("boolean", "true", True),
        ("date", "DATE '2024-02-29'", dt.date(2024, 2, 29)),
        ("timestamp", "TIMESTAMP '2024-02-29 12:00:00+00:00'", dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)),
    ],
)
def test_rows_that_were_there_hold_the_default_of_a_new_column_everywhere(table, kind, default, value):
    table.add_columns(f"c {kind} NOT NULL DEFAULT {default} COMMENT 'why' AFTER id")
    assert table.schema.names == ["id", "c", "a", "b", "n"]
    table.append([{"id": 20}])
    table.alter_column("c", default=None, nullable=True)
    table.append([{"id": 21}])
    for _ in range(2):
        assert {row["id"]: row["c"] for row in table.to_arrow().to_pylist()} == {
            **dict.fromkeys([*range(6), 20], value),
            21: None,
        }
        assert table.count(where=f"c = {default}") == 7
        assert table.count("apple", where=f"c = {default}") == 6
        assert [hit["c"] for hit in table.search("apple", limit=2).to_pylist()] == [value, value]
        assert table.sql(f"SELECT count(*) AS n FROM t WHERE c = {default}").to_pylist() == [{"n": 7}]
        table.update({"b": "'new'"}, where=f"c = {default} AND id < 2")
        assert table.count(where=f"c = {default} AND b = 'new'") == 2
        table.merge_splits()


def test_types_widen_and_nothing_else(table):
    table.add_columns([pa.field("f", pa.float32()), pa.field("d", pa.decimal128(5, 2)), pa.field("s", pa.int16())])
    table.append([{"id": 8, "n": 2**31 - 1, "f": 0.5, "d": Decimal("1.25"), "s": -4}])
    for column, kind in [("n", "double"), ("f", "double"), ("d", "decimal(20,2)"), ("s", pa.int64())]:
        table.alter_column(column, type=kind)
    assert table.schema.field("n").type == pa.float64()
    table.append([{"id": 9, "n": 0.5, "d": Decimal(10) ** 15, "s": 2**40}])
    table.merge_splits()
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert rows[8] == {"id": 8, "a": None, "b": None, "n": 2.0**31 - 1, "f": 0.5, "d": Decimal("1.25"), "s": -4}
    assert table.count(where="n > 1e9 AND d = 1.25") == 1
    assert table.count(where="n = 0.5") == 1
    for column, kind in [("n", "bigint"), ("id", "double"), ("a", "int"), ("d", "decimal(20,3)"), ("id", "int")]:
        with pytest.raises(InvalidArgument, match="Add a column"):
            table.alter_column(column, type=kind)


def test_not_null_is_refused_while_a_row_is_null_and_holds_afterwards(table):
    table.append([{"id": 7, "a": "only"}])
    version = table.version
    with pytest.raises(InvalidArgument, match="1 rows are null in it, id = 7"):
        table.alter_column("b", nullable=False)
    assert table.version == reopened(table).version == version
    table.delete(where="id = 7")
    table.alter_column("b", nullable=False)
    with pytest.raises(InvalidArgument, match="must not be null"):
        table.append([{"id": 8, "b": None}])
    table.alter_column("b", nullable=True)
    table.append([{"id": 8, "b": None}])
    assert table.count(where="b IS NULL") == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.rename_column("day", "d"), "partitioned by day"),
        (lambda t: t.drop_columns("DAY"), "partitioned by day"),
        (lambda t: t.drop_columns(["day", "id", "a"]), "partitioned by day"),
        (lambda t: t.rename_column("a", "ID"), "there is a column id already"),
        (lambda t: t.rename_column("nope", "x"), "there is no column nope"),
        (lambda t: t.rename_column("a", "_row_id"), "taken"),
        (lambda t: t.rename_column("a", "x.y"), "refused"),
        (lambda t: t.drop_columns("nope"), "there is no column nope"),
        (lambda t: t.add_columns("A string"), "there is a column a already"),
        (lambda t: t.add_columns("x int NOT NULL"), "give a default"),
        (lambda t: t.add_columns("x int DEFAULT 'word'"), "is no value of type int32"),
        (lambda t: t.add_columns("x int DEFAULT id"), "is no constant"),
        (lambda t: t.add_columns("x int DEFAULT 1 CHECK (x > 0)"), "not offered"),
        (lambda t: t.add_columns("x array<int> DEFAULT array(1)"), "default"),
        (lambda t: t.add_columns("x"), "no list of columns"),
        (lambda t: t.add_columns("x int AFTER nope"), "there is no column nope"),
        (lambda t: t.add_columns(5), "columns are text"),
        (lambda t: t.alter_column("a", type="no type"), "a"),
        (lambda t: t.set_properties({"indexing.typemap.nope": "text"}), "nope"),
        (lambda t: t.set_properties({"indexing.typemap.id": "text"}), "can be one of"),
        (lambda t: t.set_properties({"checkpoint.interval": "often"}), "checkpoint.interval"),
        (lambda t: t.set_properties({"columnMapping.maxColumnId": "1"}), "library itself"),
        (lambda t: t.unset_properties("columnMapping.maxColumnId", if_exists=True), "library itself"),
        (lambda t: t.unset_properties("nope"), "no property nope"),
        (lambda t: t.set_properties({"delta.enableDeletionVectors": "false"}), "always told by vectors"),
        (lambda t: t.set_properties({"delta.columnMapping.mode": "id"}), "use `name`"),
        (lambda t: t.set_properties({"delta.appendOnly": "true"}), "has no meaning here"),
        (lambda t: t.upgrade_protocol("parquetFast"), "no feature that this library knows"),
        (lambda t: t.upgrade_protocol(["tantivy4java"]), "does not make true"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_leaves_no_version(by_day, change, said):
    with pytest.raises((InvalidArgument, SchemaInvalid), match=said):
        change(by_day)
    assert reopened(by_day).version == 0


def test_the_last_column_stays(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("a", pa.string())]))
    table.drop_columns("a")
    with pytest.raises(InvalidArgument, match="a table has one at least"):
        table.drop_columns("id")


def test_properties_and_names_are_set_and_taken_away(table):
    version = table.set_properties({"owner": "me", "checkpoint.interval": 20, "delta.columnMapping.mode": "name"})
    assert (table.metadata.configuration["owner"], table.metadata.configuration["checkpoint.interval"]) == ("me", "20")
    assert not [key for key in table.metadata.configuration if key.startswith("delta.")]
    assert "columnMapping" in table.protocol.readerFeatures
    assert table.set_properties({"owner": "me"}) == version
    table.set_properties({"spark.indextables.checkpoint.interval": "30"})
    assert [key for key in table.metadata.configuration if "checkpoint" in key] == [
        "spark.indextables.checkpoint.interval"
    ]
    table.unset_properties(["owner"])
    table.set_name("events")
    table.set_description("what happened")
    table.set_name(None)
    assert "owner" not in table.metadata.configuration
    assert (table.metadata.name, table.metadata.description) == (None, "what happened")
    version = table.upgrade_protocol(["typeWidening"])
    assert table.upgrade_protocol(["typeWidening", "parquetSplit"]) == version


def test_an_older_reader_refuses_a_table_with_other_names(table, monkeypatch):
    from indextables.log.wire import protocol

    table.rename_column("a", "x")
    monkeypatch.setattr(protocol, "FEATURES", protocol.FEATURES - {"columnMapping"})
    with pytest.raises(ProtocolUnsupported, match="columnMapping"):
        reopened(table)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.rename_column("a", "x"),
        lambda t: t.drop_columns("b"),
        lambda t: t.add_columns("c int DEFAULT 1"),
        lambda t: t.alter_column("n", type="bigint"),
        lambda t: t.alter_column("b", nullable=False),
    ],
)
def test_an_append_beside_a_change_of_columns_is_a_typed_conflict_and_then_right(table, tmp_path, change):
    other = reopened(table)
    change(table)
    with pytest.raises(MetadataChanged):
        other.append([{"id": 50, "a": "late", "b": "late", "n": 1}])
    assert len(splits(tmp_path)) == 1
    other.refresh()
    other.append([{"id": 50, "n": 1, **({"b": "x"} if "b" in other.schema.names else {})}])
    assert reopened(table).count(where="id = 50") == 1


def test_changes_of_several_threads_are_all_granted(table):
    handles = [reopened(table) for _ in range(4)]
    threads = [threading.Thread(target=h.add_columns, args=(f"c{i} int DEFAULT {i}",)) for i, h in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = reopened(table)
    assert sorted(table.schema.names[4:]) == ["c0", "c1", "c2", "c3"]
    assert table.count(where="c0 = 0 AND c1 = 1 AND c2 = 2 AND c3 = 3") == 6


@pytest.mark.parametrize("change", ["ALTER COLUMN b SET NOT NULL", "ADD CONSTRAINT told CHECK (b <> 'x')"])
def test_rows_that_come_while_rows_are_looked_at_are_looked_at_too(table, monkeypatch, change):
    from indextables.table.alter import verb

    other, looked = reopened(table), verb._check_rows
    late = [{"id": 60, "b": "b60"}, {"id": 61}]

    def slow(*given):
        looked(*given)
        other.append([late.pop(0)])

    monkeypatch.setattr(verb, "_check_rows", slow)
    with pytest.raises(InvalidArgument, match="id = 61"):
        table.alter(change)
    assert reopened(table).schema.field("b").nullable
    assert not any("constraints" in key for key in reopened(table).metadata.configuration)


class Life:
    """A table beside rows in plain Python: a row is a dict by the number of the column."""

    KINDS = ("int", "bigint", "string", "double")

    def __init__(self, path, seed):
        self.random = random.Random(seed)
        self.table = indextables.create(
            path, pa.schema([("id", pa.int64()), ("c0", pa.string())]), indexing={"c0": "text"}
        )
        self.columns = {"c0": (0, "string")}
        self.rows = {}
        self.numbers = 1
        self.past = {}
        self.default_of = {}
        self.rules = {}

    def value(self, kind):
        number = self.random.randrange(5)
        if self.random.random() < 0.2:
            return None
        return {"string": f"w{number} x", "double": number + 0.5}.get(kind, number)

    def remember(self):
        self.past[self.table.version] = copy.deepcopy((self.columns, self.rows, self.rules))

    def append(self):
        some = [name for name in self.columns if self.random.random() < 0.7]
        given = []
        for _ in range(self.random.randrange(1, 4)):
            number = self.numbers
            self.numbers += 1
            given.append({"id": number, **{name: self.value(self.columns[name][1]) for name in some}})
            row = {self.columns[n][0]: None for n in self.columns} | self.defaults(self.columns)
            self.rows[number] = row | {self.columns[name][0]: given[-1][name] for name in some}
        if any(row["id"] > limit for row in given for limit in self.rules.values()):
            with pytest.raises(ConstraintViolation):
                self.table.append(given)
            for row in given:
                del self.rows[row["id"]]
        else:
            self.table.append(given)

    def defaults(self, columns):
        return {number: self.default_of[number] for number, _ in columns.values() if number in self.default_of}

    def add(self):
        name = self.random.choice([f"c{i}" for i in range(6) if f"c{i}" not in self.columns] or ["d"])
        if name in self.columns:
            return
        kind, number = self.random.choice(self.KINDS), len(self.default_of) + 1000 + self.numbers * 100
        value = self.value(kind) if self.random.random() < 0.6 else None
        text = "" if value is None else f" DEFAULT {value!r}"
        self.table.add_columns(f"{name} {kind}{text}")
        self.columns[name] = (number, kind)
        self.default_of = {**self.default_of, number: value}
        for row in self.rows.values():
            row[number] = value

    def rename(self):
        name = self.random.choice(list(self.columns))
        to = self.random.choice([f"c{i}" for i in range(6) if f"c{i}" not in self.columns] or [name])
        self.table.rename_column(name, to)
        self.columns[to] = self.columns.pop(name)

    def drop(self):
        if len(self.columns) > 1:
            name = self.random.choice(list(self.columns))
            self.table.drop_columns(name)
            number, _ = self.columns.pop(name)
            for row in self.rows.values():
                row.pop(number)

    def widen(self):
        for name, (number, kind) in self.columns.items():
            if kind == "int":
                wider = self.random.choice(["bigint", "double"])
                self.table.alter_column(name, type=wider)
                self.columns[name] = (number, wider)
                return

    def delete(self):
        rest = self.random.randrange(5)
        self.table.delete(where=f"id % 5 = {rest}")
        self.rows = {key: row for key, row in self.rows.items() if key % 5 != rest}

    def update(self):
        name, rest = self.random.choice(list(self.columns)), self.random.randrange(4)
        number, kind = self.columns[name]
        value = self.value(kind)
        self.table.update({name: None if value is None else repr(value)}, where=f"id % 4 = {rest}")
        for key, row in self.rows.items():
            if key % 4 == rest:
                row[number] = value

    def constrain(self):
        if self.rules and self.random.random() < 0.4:
            self.table.drop_constraint(self.rules.popitem()[0])
            return
        name, limit = f"r{self.numbers}_{len(self.past)}", self.numbers + self.random.randrange(-2, 40)
        if any(key > limit for key in self.rows):
            with pytest.raises(ConstraintViolation):
                self.table.add_constraint(name, f"id <= {limit}")
        else:
            self.table.add_constraint(name, f"id <= {limit}")
            self.rules[name] = limit

    def merge(self):
        self.table.merge_splits()

    def restore(self):
        version = self.random.choice(list(self.past))
        self.table.restore(version=version)
        self.columns, self.rows, self.rules = copy.deepcopy(self.past[version])

    def reopen(self):
        self.table = reopened(self.table)

    def step(self):
        verbs = [self.append] * 3 + [
            self.add,
            self.rename,
            self.rename,
            self.drop,
            self.widen,
            self.delete,
            self.update,
            self.constrain,
        ]
        self.random.choice([*verbs, self.merge, self.restore, self.reopen])()
        self.remember()

    def check(self):
        self.compare(self.table, self.columns, self.rows)
        version = self.random.choice(list(self.past))
        self.compare(self.table.at(version=version), *self.past[version][:2])

    def compare(self, table, columns, rows):
        wanted = {key: {name: row[number] for name, (number, _) in columns.items()} for key, row in rows.items()}
        found = {row.pop("id"): row for row in table.to_arrow().to_pylist()}
        assert found == wanted
        for name, (number, kind) in columns.items():
            values = [row[number] for row in rows.values()]
            asked = self.value(kind) or {"string": "w1 x"}.get(kind, 1)
            told = repr(asked)
            assert table.count(where=f"{name} = {told}") == values.count(asked), (name, asked)
            assert table.count(where=f"{name} IS NULL") == values.count(None), name
            above = sum(value is not None and value > asked for value in values)
            assert table.count(where=f"{name} > {told}") == above, (name, asked)
            if kind == "string":
                whole = name != "c0" and table.metadata.configuration.get(f"indexing.typemap.{name}") != "text"
                query = f'{name}:"{asked}"'
                assert table.count(query) == values.count(asked), (query, whole)


def lives(path, seed, steps):
    life = Life(path, seed)
    life.remember()
    for _ in range(steps):
        life.step()
        life.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_table_that_is_altered_all_the_time_shows_the_rows_of_each_version(tmp_path, seed):
    lives(tmp_path / "t", seed, 25)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_long_lives_of_tables_that_are_altered(tmp_path, seed):
    lives(tmp_path / "t", seed, 60)


def test_the_feed_of_changes_goes_through_renames_drops_and_defaults(table):
    table.rename_column("b", "x")
    table.drop_columns("n")
    table.add_columns("n string DEFAULT 'none', c int")
    table.update({"x": "'new'"}, where="id = 1")
    table.delete("id = 2")
    found = table.changes(from_version=1).read_all().to_pylist()
    told = [(row["_change_type"], row["id"], row["x"], row["n"]) for row in found]
    assert told == [
        *(("insert", i, f"b{i}", "none") for i in range(6)),
        ("update_preimage", 1, "b1", "none"),
        ("update_postimage", 1, "new", "none"),
        ("delete", 2, "b2", "none"),
    ]


@pytest.mark.slow
def test_a_column_is_indexed_later_and_answers_are_exact_before_and_after_a_reindex(tmp_path):
    """Each split has the index of its time; whatever that is, a search finds what its rows hold."""
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("c", pa.string())]))
    plain = indextables.create(
        tmp_path / "plain", pa.schema([("id", pa.int64()), ("c", pa.string())]), indexing={"c": "text"}
    )
    kinds = ["none", "string", "text", {"type": "text", "tokenizer": "en_stem"}, "none", "string", "text"]
    for number, kind in enumerate(kinds):
        rows = [{"id": number, "c": f"Running word{number}"}, {"id": number + 100, "c": "whole"}]
        for one in (table, plain):
            one.append(rows)
        table.set_indexing({"c": kind})
        written = number + 1
        assert table.count("c:whole") == written, kind
        assert table.count(where="c = 'whole'") == written, kind
        assert table.count(where="c LIKE 'Running%'") == written, kind
        if kind not in ("none", "string"):
            assert table.count("c:running") == written, kind
            assert table.count("c:run") == (written if isinstance(kind, dict) else 0), kind
    assert table.health().advice[0].code == "index"

    def found(searched):
        return [
            (hit["id"], round(hit["_score"], 5)) for hit in searched.search("running OR word3", limit=20).to_pylist()
        ]

    assert found(table) == found(plain)
    table.reindex()
    assert found(table) == found(plain)
    assert not table.health().advice
    table.rename_column("c", "d")
    assert table.count("d:word3") == 1
    with pytest.raises(InvalidArgument, match="can be one of"):
        table.set_indexing({"id": "text"})
    with pytest.raises(InvalidArgument, match="nope"):
        table.set_indexing({"nope": "text"})


def test_an_append_brings_a_column_and_says_how_it_is_indexed_in_one_commit(table):
    version = table.append([{"id": 30, "note": "Two words"}], merge_schema=True, indexing={"note": "text", "b": "text"})
    assert version == 2
    assert table.count("note:words") == 1
    assert table.count("b:b3") == 1
    assert table.metadata.configuration["indexing.typemap.note"] == "text"
    with pytest.raises(InvalidArgument, match="nope"):
        table.append([{"id": 31}], indexing={"nope": "text"})
    assert table.append([{"id": 31, "note": "more words"}], indexing={"note": "text"}) == 3
    assert table.count("note:words") == 2


def test_a_personal_column_stays_personal_whatever_its_index_and_name_become(table):
    table.set_indexing({"b": {"type": "string", "personal": True}})
    table.set_indexing({"b": "text", "a": {"type": "text", "fast": True}})
    table.rename_column("b", "mail")
    assert table.metadata.configuration["indexing.personal"] == "mail"
    table.append([{"id": 40, "mail": "me"}])
    assert not [key for file in table.files().to_pylist() for key, _ in file["minValues"] if key in ("b", "mail")]
    assert table.count("mail:me") == 1
    with pytest.raises(InvalidArgument, match="set_indexing"):
        table.append([{"id": 41}], indexing={"a": {"personal": True}})


def test_properties_of_delta_are_done_or_refused_when_a_table_is_made(tmp_path):
    wished = {
        "delta.enableDeletionVectors": "true",
        "delta.columnMapping.mode": "name",
        "delta.checkpointInterval": "7",
    }
    table = indextables.create(tmp_path / "t", COLUMNS, properties={**wished, "owner": "me"})
    told = table.metadata.configuration
    assert {key for key in told if not key.startswith("docMapping")} == {"delta.checkpointInterval", "owner"}
    with pytest.raises(InvalidArgument, match="always told by vectors"):
        indextables.create(tmp_path / "u", COLUMNS, properties={"delta.enableDeletionVectors": "false"})
    assert not (tmp_path / "u").exists()


def test_the_word_default_sets_a_column_to_its_default_of_today(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    table.add_columns("n int DEFAULT 3, d date DEFAULT DATE '2026-01-31'")
    table.append([{"id": 1, "s": "a", "n": 9}, {"id": 2, "s": "b", "n": 9}])
    table.alter_column("n", default="4")
    table.update({"n": "DEFAULT", "s": " default "}, "id = 1")
    table.merge([{"id": 2}, {"id": 3}], "t.id = s.id").when_matched_update({"n": "DEFAULT"}).when_not_matched_insert(
        {"id": "s.id", "s": "DEFAULT", "n": "s.id"}
    ).execute()
    LocalSession({"t": table.url}).run("UPDATE t SET n = DEFAULT, s = 'default' WHERE id = 3")
    assert sorted(tuple(row.values())[:3] for row in table.refresh().to_arrow().to_pylist()) == [
        (1, None, 4),
        (2, "b", 4),
        (3, "default", 4),
    ]


def test_a_comment_on_the_table_is_its_description(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    session = LocalSession({"t": table.url})
    session.run("COMMENT ON TABLE t IS 'what happened'")
    assert table.refresh().metadata.description == "what happened"
    session.run("COMMENT ON TABLE t IS NULL")
    assert table.refresh().metadata.description is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.isolationLevel", "Serializable"),
        ("delta.logRetentionDuration", "interval 30 days"),
        ("delta.whoKnows", "1"),
        ("delta.columnMapping.maxColumnId", "9"),
        ("delta.feature.changeDataFeed", "supported"),
        ("delta.feature.columnMapping", "off"),
        ("enableRowTracking", "false"),
        ("columnMapping.maxColumnId", "1"),
        ("generated.s", "upper(t)"),
    ],
)
def test_no_property_is_kept_and_ignored(tmp_path, key, value):
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    table = indextables.create(tmp_path / "t", schema)
    with pytest.raises(InvalidArgument):
        table.set_properties({key: value})
    assert table.refresh().version == 0
    with pytest.raises((InvalidArgument, SchemaInvalid)):
        indextables.create(tmp_path / "new", schema, properties={key: value})
    assert not (tmp_path / "new").exists()


def test_a_feature_is_asked_for_as_in_delta(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.set_properties({"delta.feature.allowColumnDefaults": "supported", "delta.feature.columnMapping": "enabled"})
    assert {"columnDefaults", "columnMapping"} <= set(table.protocol.writerFeatures)
    assert not [key for key in table.metadata.configuration if key.startswith("delta.")]
