"""Predicates and what they answer for four rows: the embedded engine and Spark must both say so."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pyarrow as pa

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
