"""Statements that Delta and this library run alike: tables, sources, and every clause of a MERGE with every other.

Only the standard library is used, because the process that records Delta's answers has nothing of ours.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import math
from typing import Any, NamedTuple

Row = tuple[Any, ...]


class Made(NamedTuple):
    """A table or a source: columns as (name, type of Spark's SQL), and the rows of each file."""

    columns: tuple[tuple[str, str], ...]
    files: tuple[tuple[Row, ...], ...]
    partitioned: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind}" + " NOT NULL" * (name in self.required) for name, kind in self.columns)


class Case(NamedTuple):
    """One statement over fresh tables. `t` is the table, each source a view of its name."""

    name: str
    table: str
    text: str


_PLAIN = (("id", "bigint"), ("name", "string"), ("n", "int"), ("p", "string"))
_OP = (*_PLAIN, ("op", "string"))
_NESTED = (
    ("id", "bigint"),
    ("st", "struct<a: int, b: string>"),
    ("items", "array<int>"),
    ("m", "map<string, int>"),
    ("d", "decimal(10, 2)"),
    ("ts", "timestamp"),
    ("day", "date"),
)
_FILES = (
    ((1, "ann", 10, "x"), (2, "Bär", 20, "x"), (3, None, 30, "y")),
    ((4, "dora", None, "y"), (5, "", 50, "x"), (None, "nobody", 0, "y")),
    ((6, "fay", 60, "x"),),
)
_NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
_DAY = dt.date(2026, 1, 2)
_CENTS = decimal.Decimal("1.25")

TABLES = {
    "plain": Made(_PLAIN, _FILES),
    "parted": Made(_PLAIN, _FILES, partitioned=("p",)),
    "strict": Made(_PLAIN, _FILES[:1], required=("id", "p")),
    "doubled": Made(_PLAIN, (*_FILES, ((2, "again", 21, "x"), (5, "again", 51, "y")))),
    "floats": Made(
        (("k", "double"), ("v", "int")), (((math.nan, 1), (0.0, 2)), ((-0.0, 3), (None, 4), (1.5, 5), (math.inf, 6)))
    ),
    "nested": Made(
        _NESTED,
        (
            ((1, {"a": 1, "b": "one"}, [1, 2], {"k": 1}, _CENTS, _NOON, _DAY),),
            ((2, None, None, None, None, None, None), (3, {"a": None, "b": None}, [], {}, _CENTS * 2, _NOON, _DAY)),
        ),
    ),
}

SOURCES = {
    "s": Made(
        _OP,
        (
            (
                (2, "ben", 200, "y", "put"),
                (3, "cleo", 300, "y", "gone"),
                (5, "eve", None, "x", "leave"),
                (None, "void", 1, "x", "put"),
                (7, "gus", 70, "x", "put"),
                (8, None, 80, "y", "leave"),
                (9, "ida", 90, "z", "gone"),
            ),
        ),
    ),
    "pairs": Made(_OP, (((2, "one", 1, "x", "put"), (2, "two", 2, "x", "leave"), (7, "new", 7, "y", "put")),)),
    "twins": Made(_OP, (((2, "one", 1, "x", "put"), (2, "two", 2, "x", "put"), (7, "new", 7, "y", "put")),)),
    "newcomers": Made(_OP, (((7, "one", 1, "x", "put"), (7, "two", 2, "y", "put")),)),
    "empty": Made(_OP, ()),
    "thin": Made((("id", "bigint"), ("n", "int")), (((2, 200), (7, 700)),)),
    "wide": Made((*_PLAIN, ("more", "string")), (((2, "ben", 200, "y", "m2"), (7, "gus", 70, "x", "m7")),)),
    "long": Made(
        (("id", "bigint"), ("name", "string"), ("n", "bigint"), ("p", "string")),
        (((2, "ben", 200, "y"), (7, "gus", 2**40, "x")),),
    ),
    "fitting": Made(
        (("id", "bigint"), ("name", "string"), ("n", "bigint"), ("p", "string")),
        (((2, "ben", 200, "y"), (7, "gus", 70, "x")),),
    ),
    "words": Made((("id", "bigint"), ("n", "string")), (((2, "many"), (7, "few")),)),
    "floating": Made((("k", "double"), ("v", "int")), (((math.nan, 10), (0.0, 20), (None, 40), (1.5, 50), (2.5, 60)),)),
    "changes": Made(
        _NESTED,
        (
            (
                (1, {"a": 7, "b": None}, [9, None], {"l": None}, decimal.Decimal("9.99"), _NOON.replace(hour=3), _DAY),
                (4, {"a": 4, "b": "four"}, [4], {"k": 4}, _CENTS, _NOON, None),
            ),
        ),
    ),
}

# Each kind of clause alone, with a condition, and several.
MATCHED = {
    "nothing": "",
    "update": "WHEN MATCHED THEN UPDATE SET n = s.n + t.n, name = s.name",
    "update all": "WHEN MATCHED THEN UPDATE SET *",
    "delete": "WHEN MATCHED THEN DELETE",
    "update if": "WHEN MATCHED AND s.op = 'put' THEN UPDATE SET n = s.n",
    "update all if": "WHEN MATCHED AND s.n > t.n THEN UPDATE SET *",
    "delete if": "WHEN MATCHED AND s.op = 'gone' THEN DELETE",
    "delete if, update": "WHEN MATCHED AND s.op = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'kept'",
    "update if, delete": "WHEN MATCHED AND s.n IS NOT NULL THEN UPDATE SET n = s.n WHEN MATCHED THEN DELETE",
    "two updates and a delete, each if": "WHEN MATCHED AND s.op = 'put' THEN UPDATE SET name = s.name "
    "WHEN MATCHED AND t.n > 20 THEN UPDATE SET n = 0 WHEN MATCHED AND s.n IS NULL THEN DELETE",
}
NOT_MATCHED = {
    "nothing": "",
    "insert": "WHEN NOT MATCHED THEN INSERT (id, name, p) VALUES (s.id, concat(s.name, '!'), s.p)",
    "insert all": "WHEN NOT MATCHED THEN INSERT *",
    "insert if": "WHEN NOT MATCHED AND s.op = 'put' THEN INSERT (id, n) VALUES (s.id, s.n * 2)",
    "insert if, insert all": "WHEN NOT MATCHED AND s.name IS NULL THEN INSERT (id, name) VALUES (s.id, 'unnamed') "
    "WHEN NOT MATCHED THEN INSERT *",
}
ALONE = {
    "nothing": "",
    "update": "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = t.n - 1",
    "delete": "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "update if": "WHEN NOT MATCHED BY SOURCE AND t.n > 10 THEN UPDATE SET name = 'alone', n = 0",
    "delete if": "WHEN NOT MATCHED BY SOURCE AND t.n IS NULL THEN DELETE",
    "update if, delete": "WHEN NOT MATCHED BY SOURCE AND t.p = 'x' THEN UPDATE SET p = 'w' "
    "WHEN NOT MATCHED BY SOURCE THEN DELETE",
}


def _matrix() -> list[Case]:
    """Every clause of one kind with every one of another; the third kind goes round."""
    turns = itertools.cycle(NOT_MATCHED)
    cases = []
    for number, (matched, alone) in enumerate(itertools.product(MATCHED, ALONE)):
        new = next(turns)
        clauses = " ".join(filter(None, (MATCHED[matched], NOT_MATCHED[new], ALONE[alone])))
        if clauses:
            table = "parted" if number % 3 == 2 else "plain"
            name = f"matched: {matched}; not matched: {new}; not matched by source: {alone}"
            cases.append(Case(name, table, f"MERGE INTO t USING s ON t.id = s.id {clauses}"))
    return cases


def _merge(source: str, clauses: str, on: str = "t.id = s.id", *, evolving: bool = False) -> str:
    return f"MERGE {'WITH SCHEMA EVOLUTION ' * evolving}INTO t USING {source} s ON {on} {clauses}"


_BOTH = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_ODD = [
    ("two rows for one, update", "plain", _merge("twins", "WHEN MATCHED THEN UPDATE SET n = s.n")),
    (
        "two rows for one, update by one",
        "plain",
        _merge("pairs", "WHEN MATCHED AND s.op = 'put' THEN UPDATE SET n = 1"),
    ),
    ("two rows for one, delete", "plain", _merge("twins", "WHEN MATCHED THEN DELETE")),
    ("two rows for one, delete if both", "plain", _merge("twins", "WHEN MATCHED AND s.op = 'put' THEN DELETE")),
    (
        "two rows for one, update and delete",
        "plain",
        _merge("pairs", "WHEN MATCHED AND s.op = 'put' THEN UPDATE SET n = 1 WHEN MATCHED THEN DELETE"),
    ),
    ("two rows for one, only inserts", "plain", _merge("twins", "WHEN NOT MATCHED THEN INSERT *")),
    (
        "two rows for one, delete and insert",
        "plain",
        _merge("twins", "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"),
    ),
    ("two new rows of one key", "plain", _merge("newcomers", _BOTH)),
    ("two rows of the table for one", "doubled", _merge("s", _BOTH)),
    ("two rows of the table for one, partly", "doubled", _merge("s", "WHEN MATCHED AND t.name = 'again' THEN DELETE")),
    ("no rows of the source", "plain", _merge("empty", _BOTH)),
    ("no rows of the source, all alone", "plain", _merge("empty", "WHEN NOT MATCHED BY SOURCE THEN DELETE")),
    ("no pair", "plain", _merge("s", "WHEN MATCHED THEN DELETE", "t.id = s.id AND t.n > 1000")),
    ("more than keys in ON", "plain", _merge("s", _BOTH, "t.id = s.id AND t.p = s.p")),
    ("ON of one side", "plain", _merge("s", _BOTH, "t.id = s.id AND t.n >= 20 AND s.op <> 'gone'")),
    ("ON of expressions", "plain", _merge("s", "WHEN MATCHED THEN UPDATE SET name = s.name", "t.id + 1 = s.id")),
    ("null equals null", "plain", _merge("s", "WHEN MATCHED THEN DELETE", "t.id <=> s.id")),
    ("keys of floats", "floats", _merge("floating", _BOTH, "t.k = s.k")),
    ("keys of floats, alone", "floats", _merge("floating", "WHEN NOT MATCHED BY SOURCE THEN DELETE", "t.k = s.k")),
    ("nested values", "nested", _merge("changes", _BOTH)),
    ("nested fields in conditions", "nested", _merge("changes", "WHEN MATCHED AND s.st.a > t.st.a THEN DELETE")),
    ("keys of decimals", "nested", _merge("changes", "WHEN MATCHED THEN UPDATE SET id = s.id", "t.d = s.d")),
    ("keys of times", "nested", _merge("changes", "WHEN MATCHED THEN DELETE", "t.ts = s.ts AND t.day = s.day")),
    ("update of a partition", "parted", _merge("s", "WHEN MATCHED THEN UPDATE SET p = s.name")),
    ("partition in ON", "parted", _merge("s", _BOTH, "t.id = s.id AND t.p = s.p AND t.p = 'x'")),
    ("columns that the table lacks", "plain", _merge("wide", _BOTH)),
    ("columns that the table lacks, evolving", "plain", _merge("wide", _BOTH, evolving=True)),
    (
        "a new column set by name, evolving",
        "plain",
        _merge("wide", "WHEN MATCHED THEN UPDATE SET more = s.more", evolving=True),
    ),
    ("a new column set by name", "plain", _merge("wide", "WHEN MATCHED THEN UPDATE SET more = s.more")),
    ("new columns and deletes, evolving", "plain", _merge("wide", "WHEN MATCHED THEN DELETE", evolving=True)),
    ("columns that the source lacks", "plain", _merge("thin", _BOTH)),
    ("columns that the source lacks, insert", "plain", _merge("thin", "WHEN NOT MATCHED THEN INSERT *")),
    ("columns that the source lacks, evolving", "plain", _merge("thin", _BOTH, evolving=True)),
    ("a wider type that fits", "plain", _merge("fitting", _BOTH)),
    ("a wider type that does not fit", "plain", _merge("long", _BOTH)),
    ("words for a number", "plain", _merge("words", "WHEN MATCHED THEN UPDATE SET n = s.n")),
    ("null where none may be", "strict", _merge("s", "WHEN MATCHED THEN UPDATE SET p = NULL")),
    (
        "a new row without a value that must be",
        "strict",
        _merge("s", "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"),
    ),
    ("a column that nobody has", "plain", _merge("s", "WHEN MATCHED THEN UPDATE SET nil = 1")),
    ("a value that nobody has", "plain", _merge("s", "WHEN MATCHED THEN UPDATE SET n = s.nil")),
    ("a condition that nobody has", "plain", _merge("s", "WHEN MATCHED AND s.nil THEN DELETE")),
    ("a column of both sides", "plain", _merge("s", "WHEN MATCHED AND n > 1 THEN DELETE")),
    ("the source in a clause without one", "plain", _merge("s", "WHEN NOT MATCHED BY SOURCE AND s.n > 1 THEN DELETE")),
    ("the table in a clause without it", "plain", _merge("s", "WHEN NOT MATCHED AND t.n > 1 THEN INSERT *")),
    (
        "a clause after one that takes all",
        "plain",
        _merge("s", "WHEN MATCHED THEN DELETE WHEN MATCHED AND s.n > 1 THEN UPDATE SET n = 1"),
    ),
    ("one column twice", "plain", _merge("s", "WHEN MATCHED THEN UPDATE SET n = 1, n = 2")),
    ("one column twice in an insert", "plain", _merge("s", "WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)")),
    ("no clause", "plain", _merge("s", "")),
    (
        "a query as source",
        "plain",
        _merge("(SELECT p, count(*) AS c FROM s GROUP BY p)", "WHEN MATCHED THEN UPDATE SET n = s.c", "t.p = s.p"),
    ),
    ("delete all", "plain", "DELETE FROM t"),
    ("delete some", "plain", "DELETE FROM t WHERE n >= 20 AND p = 'x'"),
    ("delete what is null", "plain", "DELETE FROM t WHERE name IS NULL OR n IS NULL"),
    ("delete by a comparison with null", "plain", "DELETE FROM t WHERE n <> 20"),
    ("delete nothing", "plain", "DELETE FROM t WHERE n > 1000"),
    ("delete a partition", "parted", "DELETE FROM t WHERE p = 'x'"),
    ("delete part of a partition", "parted", "DELETE FROM t WHERE p = 'x' AND n > 15"),
    ("delete NaN", "floats", "DELETE FROM t WHERE k > 1"),
    ("delete zeros", "floats", "DELETE FROM t WHERE k = 0"),
    ("delete by nested fields", "nested", "DELETE FROM t WHERE st.b = 'one' OR d = 2.5"),
    ("delete by a column that is not there", "plain", "DELETE FROM t WHERE nil = 1"),
    ("update all", "plain", "UPDATE t SET n = n + 1"),
    ("update some", "plain", "UPDATE t SET name = upper(name), n = id WHERE p = 'y'"),
    ("columns trade places", "plain", "UPDATE t SET name = p, p = name WHERE id < 3"),
    ("update nothing", "plain", "UPDATE t SET n = 1 WHERE n > 1000"),
    ("update to null", "plain", "UPDATE t SET name = NULL WHERE id >= 5"),
    ("update moves partitions", "parted", "UPDATE t SET p = 'z' WHERE n <= 20"),
    ("update beyond a type", "plain", "UPDATE t SET n = 3000000000 WHERE id = 1"),
    ("update to words", "plain", "UPDATE t SET n = 'many' WHERE id = 1"),
    ("update to null where none may be", "strict", "UPDATE t SET id = NULL WHERE id = 1"),
    ("update a column that is not there", "plain", "UPDATE t SET nil = 1"),
    ("update one column twice", "plain", "UPDATE t SET n = 1, n = 2"),
    ("update of nested values", "nested", "UPDATE t SET items = NULL, d = d + 0.5 WHERE id = 1"),
]

CASES = [*_matrix(), *(Case(*one) for one in _ODD)]


def plain(value: Any) -> Any:
    """A value as the record has it."""
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return str(value)
    if isinstance(value, float):
        return value + 0.0  # a zero has no sign
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, dt.date | decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return [[plain(key), plain(item)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def told(names: list[str], rows: list[Row]) -> list[dict[str, Any]]:
    """Rows as the record has them, in one order."""
    made = [dict(zip(names, map(plain, row), strict=True)) for row in rows]
    return sorted(made, key=lambda row: json.dumps(row, sort_keys=True))
