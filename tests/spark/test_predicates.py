"""Spark itself answers the predicates of the embedded language as the embedded engine does."""

from __future__ import annotations

import pytest
from tests.query.answers import ANSWERS, ROWS

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
