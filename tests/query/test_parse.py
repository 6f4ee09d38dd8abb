from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import IndexTablesError, InvalidArgument, LimitExceeded, QueryInvalid
from indextables.query.evaluate import evaluate
from indextables.query.expr import Column, Comparison, columns_of
from indextables.query.parse import MAX_TEXT_CHARS, parse

ROWS = pa.table(
    {
        "a": pa.array([1, 2, None, 4], pa.int32()),
        "b": pa.array([1.5, math.nan, None, -0.0]),
        "S": ["foo", "Bar", None, "b%r"],
        "d": pa.array([dt.date(2024, 1, 1), dt.date(2023, 5, 5), None, dt.date(2024, 2, 29)]),
        "ts": pa.array(
            [dt.datetime(2024, 1, 1), dt.datetime(2023, 5, 5, 1), None, dt.datetime(2024, 2, 29)],  # noqa: DTZ001
            pa.timestamp("us", "UTC"),
        ),
        "x": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2.00"), None, decimal.Decimal("-3.25")]),
        "st": pa.array([{"B": {"c": 1}}, {"B": None}, None, {"B": {"c": 3}}]),
        "bo": [True, False, None, True],
        "we ird": [1, 2, 3, 4],
    }
)
T, F, N = True, False, None

# What each predicate answers for the four rows above.
ANSWERS = [
    ("a = 1", [T, F, N, F]),
    ("A > 1 AND NOT s = 'foo'", [F, T, N, T]),
    ("a = 1 or b = 2", [T, F, N, F]),
    ("b > 100", [F, T, N, F]),
    ("b = cast('NaN' as double)", [F, T, N, F]),
    ("b = 0.0", [F, F, N, T]),
    ("b < cast('Infinity' as double)", [T, F, N, T]),
    ("isnan(b)", [F, T, F, F]),
    ("a in (1, 2)", [T, T, N, F]),
    ("a not in (1, null)", [F, N, N, N]),
    ("b in (cast('NaN' as double), 0)", [F, T, N, T]),
    ("a between 1 and 2", [T, T, N, F]),
    ("a not between 1 and 2", [F, F, N, T]),
    ("a is null", [F, F, T, F]),
    ("a is not null", [T, T, F, T]),
    ("a <=> null", [F, F, T, F]),
    ("a <=> 1", [T, F, F, F]),
    ("a is distinct from 1", [F, T, T, T]),
    ("a = null", [N, N, N, N]),
    ("S like 'b%'", [F, F, N, T]),
    ("S like '%r'", [F, T, N, T]),
    ("S like '_oo'", [T, F, N, F]),
    ("S ilike 'B%'", [F, T, N, T]),
    ("S like 'b!%r' escape '!'", [F, F, N, T]),
    (r"S like 'b\\%r'", [F, F, N, T]),
    ("S rlike '^[A-Z]'", [F, T, N, F]),
    ("startswith(S, 'fo')", [T, F, N, F]),
    ("endswith(S, 'r')", [F, T, N, T]),
    ("contains(S, 'a')", [F, T, N, F]),
    ("d = '2024-01-01'", [T, F, N, F]),
    ("d >= date '2024-01-01' + interval 1 day", [F, F, N, T]),
    ("d - 1 = date '2023-12-31'", [T, F, N, F]),
    ("ts >= timestamp '2024-01-01'", [T, F, N, T]),
    ("ts > '2023-12-31T23:30:00-00:15'", [T, F, N, T]),
    ("ts = timestamp '2024-01-01 00:00:00'", [T, F, N, F]),
    ("d < ts", [F, T, N, F]),
    ("year(d) = 2024 and month(ts) = 2", [F, F, N, T]),
    ("cast(ts as date) = d", [T, T, N, T]),
    ("cast(ts as string) = '2023-05-05 01:00:00'", [F, T, N, F]),
    ("x = 1.5", [T, F, N, F]),
    ("x > a", [T, F, N, F]),
    ("x + 1 = 2.5", [T, F, N, F]),
    ("a + 1.5D = 2.5", [T, F, N, F]),
    ("a <> 0 and 10 / a > 3", [T, T, N, F]),
    ("a % 2 = 0", [F, T, N, T]),
    ("a div 2 = 1", [F, T, N, F]),
    ("-a = -1", [T, F, N, F]),
    ("abs(-a) = 4", [F, F, N, T]),
    ("st.b.C = 1", [T, N, N, F]),
    ("st.b.c is null", [F, T, T, F]),
    ("`we ird` = 2", [F, T, F, F]),
    ("bo", [T, F, N, T]),
    ("not bo", [F, T, N, F]),
    ("bo is true", [T, F, F, T]),
    ("bo is not false", [T, F, T, T]),
    ("bo = 'true'", [T, F, N, T]),
    ("a = '1'", [T, F, N, F]),
    ("S = 'it''s' or S = \"foo\"", [T, F, N, F]),
    ("S || 'x' = 'foox'", [T, F, N, F]),
    ("concat(upper(S), lower(S)) = 'FOOfoo'", [T, F, N, F]),
    ("length(trim(concat(' ', S))) = 3", [T, T, N, T]),
    ("substring(S, 2, 2) = 'oo'", [T, F, N, F]),
    ("substring(S, -2) = 'ar'", [F, T, N, F]),
    ("coalesce(a, 0) = 0", [F, F, T, F]),
    ("nullif(a, 1) is null", [T, F, T, F]),
    ("if(a = 1, true, false)", [T, F, F, F]),
    ("case when a = 1 then 'x' when a = 2 then 'y' else 'z' end = 'z'", [F, F, T, T]),
    ("case a when 1 then true end", [T, N, N, N]),
    ("try_cast(S as int) is null", [T, T, T, T]),
    ("a = 1 -- the first", [T, F, N, F]),
    ("((a)) = ((1))", [T, F, N, F]),
    ("true", [T, T, T, T]),
    ("null", [N, N, N, N]),
    ("a = 1 or true", [T, T, T, T]),
]


@pytest.mark.parametrize(("text", "expected"), ANSWERS, ids=[text for text, _ in ANSWERS])
def test_a_predicate_answers_as_spark_does(text, expected):
    assert evaluate(parse(text, ROWS.schema), ROWS).to_pylist() == expected


# What is refused, and where the fault is.
REFUSED = [
    ("nope = 1", 0, "no column"),
    ("a = 1 and nope = 1", 10, "no column"),
    ("st.nope = 1", 0, "no field"),
    ("a = 'x'", 0, "is not"),
    ("d = '2024-02-30'", 0, "is not"),
    ("st = 1", 0, "do not compare"),
    ("bo = 1", 0, "do not compare"),
    ("a", 0, "true or false"),
    ("1", 0, "true or false"),
    ("a + 1", 0, "true or false"),
    ("a and bo", 0, "true or false"),
    ("count(a) > 1", 0, "not offered"),
    ("sum(a) over () = 1", 0, "not offered"),
    ("a in (select 1)", 0, "subquery"),
    ("exists(select 1)", 14, "not offered"),
    ("rand() > 0", 0, "not offered"),
    ("current_date() > d", 0, "not offered"),
    ("textsearch(S, 'x')", 0, "not offered"),
    ("a = :p", 0, "not offered"),
    ("a in ()", 0, "empty"),
    ("lower(a) = 'x'", 0, "does not take"),
    ("x / x > 1", 0, "double"),
    ("S rlike '(?=a)'", 0, "pattern"),
    ("S like 'a!b' escape '!'", 0, "pattern"),
    ("a = 99999999999999999999999999999999999999999", 4, "38 digits"),
    ("a = 'foo", 4, "not closed"),
    ("`a = 1", 0, "not closed"),
    ("'; --", 0, "not closed"),
    ("(((a = 1)", 8, "Expecting"),
    ("a = 1)", 5, "Unexpected"),
    ("a =", 2, "missing"),
    ("a = 1 b = 2", 8, "Unexpected"),
    ("a = 1; drop table t", 0, "more than one"),
    ("select 1", 7, "not offered"),
    ("drop table t", 11, "not offered"),
    ("", 0, "empty"),
    ("  -- nothing", 0, "empty"),
    ("\u201ca\u201d = 1", 0, "no column"),
]


@pytest.mark.parametrize(("text", "position", "reason"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_what_is_no_predicate_is_refused_with_its_place(text, position, reason):
    with pytest.raises(QueryInvalid, match=reason) as caught:
        parse(text, ROWS.schema)
    assert caught.value.query == text
    assert caught.value.position == position


@pytest.mark.parametrize("text", ["a / 0 > 1", "cast(S as int) = 1", "S = 1", "a + 2147483647 > 0", "a % 0 = 1"])
def test_a_value_without_result_is_an_error(text):
    with pytest.raises(QueryInvalid):
        evaluate(parse(text, ROWS.schema), ROWS)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a = 1" + ")" * 10_000,
        "not " * 5_000 + "bo",
        "- " * 5_000 + "a = 1",
        "case when " * 1_000,
        "a = 1 or " * (MAX_TEXT_CHARS // 8),
        "x" * (MAX_TEXT_CHARS + 1),
        "a in (" + "1," * 200_000 + "1)",
    ],
    ids=["parens", "not", "minus", "case", "long", "one-word", "list"],
)
def test_text_beyond_the_limits_is_refused(text):
    with pytest.raises(LimitExceeded):
        parse(text, ROWS.schema)


def test_long_chains_and_lists_are_fine():
    chain = parse(" or ".join(f"a = {n}" for n in range(2_000)), ROWS.schema)
    assert evaluate(chain, ROWS).to_pylist() == [T, T, N, T]
    members = parse(f"a in ({','.join(map(str, range(5_000)))})", ROWS.schema)
    assert evaluate(members, ROWS).to_pylist() == [T, T, N, T]


def test_columns_keep_the_case_of_the_table():
    assert columns_of(parse("s = 'x' AND A = 1 AND st.B.c = 1", ROWS.schema)) == ("S", "a", "st")


def test_literals_without_a_zone_are_in_the_given_one():
    rows = pa.table({"ts": pa.array([dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))})
    text = "ts = timestamp '2024-01-01 00:00:00'"
    assert evaluate(parse(text, rows.schema, time_zone="America/New_York"), rows).to_pylist() == [True]
    assert evaluate(parse(text, rows.schema), rows).to_pylist() == [False]
    assert evaluate(parse("hour(ts) = 0", rows.schema, time_zone="America/New_York"), rows).to_pylist() == [True]


def test_an_unknown_zone_is_refused():
    with pytest.raises(InvalidArgument, match="Atlantis"):
        parse("a = 1", ROWS.schema, time_zone="Atlantis/Capital")


def test_a_column_object_is_pointed_to_the_dataframe():
    with pytest.raises(QueryInvalid, match="where\\(\\)"):
        parse(object(), ROWS.schema)


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_selects_exactly_the_rows_that_hold_it(text):
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    rows = pa.table({"S": [text, text + "x", None]})
    assert evaluate(parse(f"S = '{quoted}'", rows.schema), rows).to_pylist() == [True, False, None]


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from("abS='\"`()%-+*/<>=,. 0123456789;:_\\\n[]{}?|&^~!#@") | st.characters(), max_size=40))
def test_any_text_is_a_predicate_or_a_typed_error(text):
    with contextlib.suppress(IndexTablesError):
        evaluate(parse(text, ROWS.schema), ROWS)


WORDS = [
    "a",
    "b",
    "S",
    "d",
    "ts",
    "x",
    "bo",
    "st",
    "and",
    "or",
    "not",
    "in",
    "like",
    "between",
    "is",
    "null",
    "(",
    ")",
    "=",
    "<",
]
WORDS += [
    ">=",
    "<=>",
    "+",
    "/",
    "%",
    "1",
    "2.5",
    "'x'",
    "'2024-01-01'",
    "date",
    "timestamp",
    "cast",
    "as",
    "int",
    ",",
    "case",
    "when",
]
WORDS += [
    "then",
    "else",
    "end",
    "year",
    "lower",
    "coalesce",
    "interval",
    "day",
    "true",
    "select",
    "from",
    "exists",
    "count",
    "[",
    "]",
]


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14))
def test_any_words_are_a_predicate_or_a_typed_error(words):
    with contextlib.suppress(IndexTablesError):
        evaluate(parse(" ".join(words), ROWS.schema), ROWS)


def test_a_constant_on_the_left_moves_to_the_right():
    assert parse("1 < a", ROWS.schema) == Comparison(">", Column("a", pa.int32()), parse("a = 1", ROWS.schema).right)
