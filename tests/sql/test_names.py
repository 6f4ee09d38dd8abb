"""Columns of an answer are called as the statement says, and what DataFusion refuses is said in plain words."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import IndexTablesError

ROWS = pa.table({"Id": [2, 10, 1], "m": ["b foo", "a foo", "c"], "n": [0, 1, 0]})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = it.create(tmp_path_factory.mktemp("names") / "t", ROWS.schema, indexing={"m": "text"})
    made.append(ROWS)
    return made


@pytest.mark.parametrize(
    ("statement", "names", "rows"),
    [
        ("select cast(id as varchar) from t order by id", ["cast(id as varchar)"], [("1",), ("2",), ("10",)]),
        ("select id::text from t order by t.id desc", ["id::text"], [("10",), ("2",), ("1",)]),
        ("select cast(n as double), n from t where id = 10", ["cast(n as double)", "n"], [(1.0, 1)]),
        ("select id, * from t where n = 1", ["Id", "Id", "m", "n"], [(10, 10, "a foo", 1)]),
        ("select *, ID from t where n = 1", ["Id", "m", "n", "Id"], [(10, "a foo", 1, 10)]),
        ("select id, id from t order by id limit 1", ["Id", "Id"], [(1, 1)]),
        ("select (select count(*) from t), (select count(*) from t)", ["(select count(*) from t)"] * 2, [(3, 3)]),
        ("select count(*), count(*), sum(n) from t", ["count(*)", "count(*)", "sum(n)"], [(3, 3, 1)]),
        ("SELECT COUNT(*) FROM t", ["count(*)"], [(3,)]),
        ("select 1, 1, 'a, b' || ', from'", ["1", "1", "'a, b' || ', from'"], [(1, 1, "a, b, from")]),
        ("select id + 1, -id x, n from t where n = 1", ["id + 1", "x", "n"], [(11, -10, 1)]),
        ("select n is distinct from 1, 1 from t where n = 1", ["n is distinct from 1", "1"], [(False, 1)]),
        ("select distinct n + 1 from t order by 1", ["n + 1"], [(1,), (2,)]),
        ("with x as (select id + 1 as y from t) select max(y), max(y) from x", ["max(y)"] * 2, [(11, 11)]),
        ("select max(id) from t union all select min(n) from t order by 1", ["max(id)"], [(0,), (10,)]),
        (
            "select upper(m), *, n * 2 from t where n = 1",
            ["upper(m)", "Id", "m", "n", "n * 2"],
            [("A FOO", 10, "a foo", 1, 2)],
        ),
        (
            "select cast(id as string), n from t where textsearch(m, 'foo') order by id",
            ["cast(id as string)", "n"],
            [("2", 0), ("10", 1)],
        ),
        ("select `Id`, t.`M` from t where `ID` = 2", ["Id", "m"], [(2, "b foo")]),
        ("select n as `from`, id as `Rlike 'x'` from t where n = 1", ["from", "Rlike 'x'"], [(1, 10)]),
        (
            "select `ID` from t where textsearch(`M`, 'foo') and t.`Id` in (select `Id` from t) order by 1",
            ["Id"],
            [(2,), (10,)],
        ),
        ("select '`Id`' as x, `Id` from t where m = '`' or `Id` = 1 -- `", ["x", "Id"], [("`Id`", 1)]),
        ("select extract(year from date '2024-01-02') -- the year\n from t where n = 1", None, [(2024,)]),
    ],
)
def test_columns_have_the_names_of_the_statement(table, statement, names, rows):
    found = table.sql(statement)
    assert names is None or found.column_names == names
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == rows


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("select * from t pivot (count(*) for n in (0, 1))", r"^PIVOT is not offered: write"),
        ("select top 5 id from t", "write LIMIT"),
        ("select id from t fetch first 5 rows only", "write LIMIT 5 for FETCH FIRST 5 ROWS ONLY"),
        ("select exists (select 1 from t)", r"write \(SELECT count\(\*\) > 0 FROM"),
        ("select cast('x' as int) from t", r"^'x' is not a whole number; TRY_CAST"),
        ("select cast(m as int) from t", r"^'.*' is not a whole number; TRY_CAST"),
        ("select id from t where id = 'x'", r"^'x' is not a whole number"),
        ("select id / 0 from t", r"write a / nullif\(b, 0\)"),
        ("select nope from t", r"^there is no column nope; the columns are id, m, n$"),
        ("select idd from t", r"is t.id meant\?"),
        ("select age(id) from t", r"^there is no function age$"),
        ("select sign(id) from t", r"^there is no function sign: write signum"),
        ("select uper(m) from t", r"is upper meant\?"),
        ("select id, max(n) from t", r"^t.id is neither in GROUP BY"),
        ("select distinct n + 1 from t order by n + 1", "write ORDER BY 1"),
        ("select id from x", r"^there is no table 'x' here: the table is called t$"),
        ("select a from (select id as a, n as a from t) x", "give one of them another with AS"),
        ("select id as a, n as a from t", "give one of them another with AS"),
    ],
)
def test_what_is_refused_is_said_in_one_plain_sentence(table, statement, words):
    with pytest.raises(IndexTablesError, match=words) as caught:
        table.sql(statement)
    assert len(str(caught.value)) < 200


def test_columns_called_by_words_of_a_statement_stand_in_backticks(tmp_path):
    made = it.create(
        tmp_path / "t", pa.schema([("from", pa.string()), ("year(", pa.int64())]), indexing={"from": "text"}
    )
    made.append([{"from": "foo bar", "year(": 3}])
    found = made.sql("select `year(` from t where textsearch(`from`, 'foo') and (`from` is not null)")
    assert found.to_pylist() == [{"year(": 3}]
