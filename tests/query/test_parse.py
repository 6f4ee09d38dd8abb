from __future__ import annotations

import contextlib
import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.answers import ANSWERS, ROWS

from indextables.errors import IndexTablesError, InvalidArgument, LimitExceeded, QueryInvalid
from indextables.query.evaluate import evaluate
from indextables.query.expr import Column, Comparison, columns_of
from indextables.query.parse import MAX_TEXT_CHARS, parse


@pytest.mark.parametrize(("text", "expected"), ANSWERS, ids=[text for text, _ in ANSWERS])
def test_a_predicate_answers_as_spark_does(text, expected):
    assert evaluate(parse(text, ROWS.schema), ROWS).to_pylist() == expected


# What is refused, and where the fault is.
REFUSED = [
    ("floor(b, 1) = 1", 6, "not offered in this form"),
    ("a between symmetric 3 and 1", 0, "not offered in this form"),
    ("regexp_like(S, 'B', 'i')", 0, "not offered in this form"),
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
    ("cast(a as decimal(b)) > 1", 5, "a decimal type that does not exist"),
    ("count(a) > 1", 0, "one row at a time"),
    ("a = 1 and count(*) > 1", 10, "one row at a time"),
    ("sum(a) over () = 1", 0, "one row at a time"),
    ("date_trunc('month', ts) = '2024-01-01'", 0, "compare the time with both ends"),
    ("extract(year from d) = 2024", 18, r"write year\(ts\)"),
    ("now() > ts", 0, "give the value as a constant"),
    ("a in (select 1)", 0, "subquery"),
    ("exists(select 1)", 14, "is a query"),
    ("rand() > 0", 0, "give the value as a constant"),
    ("current_date() > d", 0, "give the value as a constant"),
    ("textsearch(S, 'x')", 0, "not offered"),
    ("a = :p", 0, "write the value into it"),
    ("a in ()", 0, "empty"),
    ("lower(a) = 'x'", 0, "does not take"),
    ("x / x > 1", 0, "double"),
    ("S rlike '(?=a)'", 0, "pattern"),
    ("S like 'a!b' escape '!'", 0, "pattern"),
    ("a = 99999999999999999999999999999999999999999", 4, "38 digits"),
    ("\"S\" = 'x'", 0, "write S or `S` for the column, 'S' for the text"),
    ('a > 1 and "s" is not null', 10, "write S or `S` for the column"),
    ('a = 1 or S = "Bo"', 13, "write bo or `bo` for the column, 'Bo' for the text"),
    ('"we ird" = 1', 0, "write `we ird` for the column"),
    ('upper("S") = S', 6, "is a text, not the column"),
    ("\"nosuch\" = '10'", 0, "write `nosuch` for a column, 'nosuch' for a text"),
    ("'10' <> \"no's\"", 8, "write `no's` for a column, 'no''s' for a text"),
    ('"nosuch" is null', 0, "its condition has no column"),
    ('not "nosuch" is not null', 4, "its condition has no column"),
    ("\"nosuch\" like 'x%'", 0, "its condition has no column"),
    ("\"nosuch\" rlike 'x'", 0, "its condition has no column"),
    ("\"nosuch\" in ('x', 'y')", 0, "its condition has no column"),
    ("\"nosuch\" between 'x' and 'y'", 0, "its condition has no column"),
    ("startswith(\"nosuch\", 'y')", 11, "its condition has no column"),
    ("lower(\"nosuch\") = 'y'", 6, "its condition has no column"),
    ("a = 1 and \"nosuch\" <=> 'y'", 10, "its condition has no column"),
    ("a = 'foo", 4, "not closed"),
    ("`a = 1", 0, "not closed"),
    ("'; --", 0, "not closed"),
    ("(((a = 1)", 8, "Expecting"),
    ("a = 1)", 5, "Unexpected"),
    ("a =", 2, "missing"),
    ("a = 1 b = 2", 8, "Unexpected"),
    ("a = 1; drop table t", 0, "more than one"),
    ("select 1", 7, "is a query"),
    ("drop table t", 0, "not offered"),
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_long_chains_and_lists_are_fine():
    chain = parse(" or ".join(f"a = {n}" for n in range(2_000)), ROWS.schema)
    assert evaluate(chain, ROWS).to_pylist() == [True, True, None, True]
    members = parse(f"a in ({','.join(map(str, range(5_000)))})", ROWS.schema)
    assert evaluate(members, ROWS).to_pylist() == [True, True, None, True]


def test_columns_keep_the_case_of_the_table():
    assert columns_of(parse("s = 'x' AND A = 1 AND st.B.c = 1", ROWS.schema)) == ("S", "a", "st")


def test_literals_without_a_zone_are_in_the_given_one():
    rows = pa.table({"ts": pa.array([dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))})
    text = "ts = timestamp '2024-01-01 00:00:00'"
    assert evaluate(parse(text, rows.schema, time_zone="America/New_York"), rows).to_pylist() == [True]
    assert evaluate(parse(text, rows.schema), rows).to_pylist() == [False]
    assert evaluate(parse("hour(ts) = 0", rows.schema, time_zone="America/New_York"), rows).to_pylist() == [True]


@pytest.mark.parametrize("zone", ["+05:30", "-03:30", "+00:00", "-18:00", "+14:00"])
def test_an_offset_is_a_zone(zone):
    ahead = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:])) * (-1 if zone[0] == "-" else 1)
    noon = dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone(ahead))
    rows = pa.table({"ts": pa.array([noon, noon - dt.timedelta(microseconds=1), None], pa.timestamp("us", "UTC"))})
    for text, expected in (
        ("ts >= '2024-02-29 12:00:00'", [True, False, None]),
        ("hour(ts) = 12", [True, False, None]),
        ("cast(ts as date) = date '2024-02-29'", [True, True, None]),
        ("cast(ts as string) = '2024-02-29 12:00:00'", [True, False, None]),
    ):
        assert evaluate(parse(text, rows.schema, time_zone=zone), rows).to_pylist() == expected, text


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


@pytest.mark.slow
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


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14))
def test_any_words_are_a_predicate_or_a_typed_error(words):
    with contextlib.suppress(IndexTablesError):
        evaluate(parse(" ".join(words), ROWS.schema), ROWS)


def test_a_constant_on_the_left_moves_to_the_right():
    assert parse("1 < a", ROWS.schema) == Comparison(">", Column("a", pa.int32()), parse("a = 1", ROWS.schema).right)
