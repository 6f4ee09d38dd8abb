"""Spark itself answers the predicates of the embedded language as the embedded engine does."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.query.answers import ANSWERS, ROWS
from tests.query.java.record import TEXTS

from indextables.query.evaluate import evaluate
from indextables.query.parse import parse

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def test_spark_gives_the_same_answers(spark):
    frame = spark.createDataFrame(ROWS).coalesce(1)
    told = frame.selectExpr(*(f"({text.split(' -- ')[0]}) as `{number}`" for number, (text, _) in enumerate(ANSWERS)))
    columns = told.toArrow().to_pydict()
    differences = {
        text: (columns[str(number)], expected)
        for number, (text, expected) in enumerate(ANSWERS)
        if columns[str(number)] != expected
    }
    assert differences == {}


def test_rlike_ilike_and_case_are_those_of_spark(spark):
    """Patterns and texts of the table that was recorded from Java, through SQL of both."""
    patterns = ["fix$", "[[:alpha:]]", "[a-z&&[^aeiou]]", r"\\d+", r"\\bb", "(?i)é", "(?m)^a", r"\\p{Lu}", "^$", "a++b"]
    texts = [f"s RLIKE '{pattern}'" for pattern in patterns]
    texts += [f"s ILIKE '{pattern}'" for pattern in ("k", "ß", "SS", "\u03c3", "É", "i%", "fI_", "ﬁ")]
    texts += ["upper(s) = 'SS'", "lower(s) = '\u03c3'", "lower(s) = 'i̇'", "upper(s) = 'FI'", "upper(s) = 'I'"]
    table = pa.table({"s": [*TEXTS, "ΣΑΣ", "straße", None]})
    told = spark.createDataFrame(table).coalesce(1).selectExpr(*(f"{t} as `{n}`" for n, t in enumerate(texts)))
    columns = told.toArrow().to_pydict()
    differences = {
        text: [s for s, a, b in zip(table["s"].to_pylist(), ours, columns[str(number)], strict=True) if a != b]
        for number, text in enumerate(texts)
        if (ours := evaluate(parse(text, table.schema), table).to_pylist()) != columns[str(number)]
    }
    assert differences == {}
