"""Numbers in a statement: `sql` and `where` say what exact arithmetic says, or `sql` refuses with what to write."""

from __future__ import annotations

import operator
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import indextables as it
from indextables.errors import NotSupported

VALUES = {
    "i": (pa.int32(), [-(2**31), -1, 0, 1, 16777217, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "f": (pa.float32(), [0.0, 1.5, 16777216.0, 0.1, 1e30]),
    "d": (pa.float64(), [0.0, 1.5, 0.1, 2.0**53, 2.0**63, 1e30, 99999999.99]),
    "c": (pa.decimal128(38, 0), [Decimal(0), Decimal(2**53 + 1), Decimal(2**63), Decimal(10**30), Decimal(10**37)]),
    "e": (pa.decimal128(10, 2), [Decimal("0.10"), Decimal("1.50"), Decimal("12345678.91"), Decimal("99999999.99")]),
    "g": (pa.decimal128(38, 15), [Decimal("0.1"), Decimal("12345678.910000000000001")]),
}
ROWS = max(len(values) for _, values in VALUES.values())
TABLE = pa.table({name: pa.array((v + [None] * ROWS)[:ROWS], kind) for name, (kind, v) in VALUES.items()})
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
WHOLE = [2**24, 2**31, 2**53, 2**63, 2**64, 10**30, 10**37]
NEAR = st.builds(
    lambda n, by, sign: sign * (n + by), st.sampled_from(WHOLE), st.integers(-2, 2), st.sampled_from([1, -1])
)
POINT = st.builds(
    lambda digits, scale: format(Decimal(digits).scaleb(-scale), "f"),
    st.integers(-(10**18), 10**18),
    st.integers(1, 9),
)
OWN = st.sampled_from([str(v) for _, values in VALUES.values() for v in values if "e" not in str(v)])
EXPONENT = st.builds(
    lambda n, e: f"{n}e{e}", st.sampled_from([1, 5, 9007199254740993, 99999999.99]), st.integers(-3, 30)
)


def meant(value, literal):
    """Both sides as they are compared: exactly, or as doubles where one of them is a floating-point number."""
    if isinstance(value, float) or "e" in literal:
        return Fraction(float(value)), Fraction(float(literal))
    return Fraction(value), Fraction(Decimal(literal))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = it.create(tmp_path_factory.mktemp("numbers") / "t", TABLE.schema)
    made.append(TABLE)
    return made


@pytest.mark.slow
@settings(max_examples=150)
@given(st.sampled_from(list(VALUES)), st.sampled_from(list(OPERATORS)), st.one_of(NEAR.map(str), POINT, OWN, EXPONENT))
@example("e", "=", "99999999.99")
@example("l", "=", "-9223372036854775809")
@example("l", "=", "9007199254740992.0")
@example("f", "=", "16777217")
@example("c", "=", "9007199254740993e0")
@example("c", "=", "1e30")
@example("c", "<", "0.1")
@example("g", "=", "12345678.910000000000001")
def test_both_doors_compare_exactly_or_refuse(table, column, op, literal):
    known = [value for value in TABLE[column].to_pylist() if value is not None]
    want = sum(OPERATORS[op](*meant(value, literal)) for value in known)
    condition = f"{column} {op} {literal}"
    assert table.count(where=condition) == want
    try:
        found = table.sql(f"SELECT count(*) AS n FROM t WHERE {condition}")["n"].to_pylist()
    except NotSupported:
        return
    assert found == [want]


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ("e = CAST('99999999.99' AS DECIMAL(10, 2))", 1),
        ("e > 1.5", 2),
        ("e IN (0.1, 1.5)", 2),
        ("c = CAST('1000000000000000000000000000000' AS DECIMAL(38, 0))", 1),
        ("l = CAST('9007199254740993' AS BIGINT)", 1),
        ("CAST(l AS DOUBLE) = 9007199254740992.0", 2),
        ("l < 1e30", 8),
        ("l > 0.5", 4),
        ("d < 1e30", 6),
        ("d = 99999999.99", 1),
    ],
)
def test_what_is_exact_is_answered(table, condition, want):
    assert table.sql(f"SELECT count(*) AS n FROM t WHERE {condition}")["n"].to_pylist() == [want]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT e = 99999999.99 FROM t",
        "SELECT count(*) FROM t WHERE e IN (99999999.99, 2)",
        "SELECT CASE WHEN l = 9007199254740992.0 THEN 1 END FROM t",
        "SELECT count(*) FROM t WHERE c > 0.5",
        "SELECT count(*) FROM t WHERE l IN (1.5, 9007199254740992.0)",
        "SELECT count(*) FROM t WHERE 9007199254740992.0 <= l",
        "SELECT count(*) FROM t WHERE l BETWEEN 0.5 AND 9007199254740992.0",
    ],
)
def test_a_number_that_would_be_compared_as_another_is_refused_wherever_it_stands(table, statement):
    with pytest.raises(NotSupported, match=r"CAST\('"):
        table.sql(statement)
