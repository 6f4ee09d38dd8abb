"""A column may have the name of any word of SQL: it works as it is, or the refusal says how to write it."""

import logging

import pyarrow as pa
import pytest
from sqlglot.dialects.spark import Spark

import indextables
from indextables.errors import QueryInvalid
from indextables.query.parse import parse, parse_value

WORDS = sorted(word.lower() for word in Spark.Tokenizer.KEYWORDS if word.replace("_", "").isalpha())
VALUES = {"true", "false", "null"}
"""These are values wherever they stand."""
FREE = (  # noqa: SIM905
    "all alter analyze any asc begin cache call column comment commit copy create database "
    "date declare default delete desc describe drop execute explain fetch file filter first format "
    "full function grant having if index inner insert key kill left limit load lock "
    "merge namespace next object offset on optimize out outer overwrite partition percent pivot pragma "
    "prepare procedure range refresh rename replace returning revoke right rollback row rows schema sequence "
    "session set settings show table temp text time timestamp trigger truncate unique update use "
    "vacuum values view window "
).split()
CONDITIONS = [
    "@ = 1",
    "@ in (1, 2)",
    "@ not in (1, 2)",
    "@ is null",
    "@ is not null",
    "@ between 1 and 2",
    "@ < 3 and z = 1",
    "not @ > 3",
    "(@) > 3",
    "-@ < 3",
    "@ + @ > @",
    "z = 2 and @ = 1 and z = 3",
    "z in (@, 2)",
    "z between @ and @",
    "abs(@) > 2",
    "coalesce(@, z) = 1",
    "cast(@ as string) = '1'",
    "case when @ = 1 then @ else z end = 1",
    "z = 2 and 1 = @",
    "z = 2 or z > @",
]


@pytest.mark.slow
@pytest.mark.parametrize("word", [*WORDS, "if", "user", "key", "order", "group", "type", "value", "level", "end_time"])
def test_a_column_with_the_name_of_a_word_works_bare_or_the_refusal_says_backticks(word, caplog):
    schema = pa.schema([(word, pa.int64()), ("z", pa.int64())])
    for condition in CONDITIONS:
        bare, quoted = condition.replace("@", word), condition.replace("@", f"`{word}`")
        meant = parse(quoted, schema)
        try:
            assert word in VALUES or parse(bare, schema) == meant, bare
        except QueryInvalid as fault:
            assert f"write it in backticks: `{word}`" in str(fault), str(fault)  # noqa: PT017
            assert "\n" not in str(fault)  # noqa: PT017
            assert word not in FREE, bare
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("word", FREE)
def test_words_that_only_statements_have_are_plain_names_in_an_expression(word):
    schema = pa.schema([(word.upper(), pa.int64()), ("z", pa.int64())])
    for condition in ("@ = 1", "z = 2 and @ = 1 and z = 3", "z = 1 or z > @"):
        assert parse(condition.replace("@", word), schema) == parse(condition.replace("@", f"`{word}`"), schema)
    assert parse_value(f"{word} + 1", schema) == parse_value(f"`{word}` + 1", schema)


@pytest.mark.slow
def test_tables_with_such_columns_are_read_deleted_from_and_updated(tmp_path, capfd):
    table = indextables.create(str(tmp_path / "t"), pa.schema([("merge", pa.bool_()), ("set", pa.int64())]))
    table.append([{"merge": True, "set": 1}, {"merge": False, "set": 2}, {"merge": None, "set": 3}])
    assert table.to_arrow(where="merge = true").to_pylist() == [{"merge": True, "set": 1}]
    table.update({"set": "set + 10", "merge": "merge and set = 1"}, "set > 1 and merge = false")
    table.delete("merge is null")
    assert sorted(table.to_arrow().column("set").to_pylist()) == [1, 12]
    for wrong in ("describe t", "optimize", "alter table t", "show tables", "select 1", "merge into t"):
        with pytest.raises(QueryInvalid):
            table.to_arrow(where=wrong)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["end = 1", "z = 1 and case = 2", "z = 1 or 2 = from", "z > 0 and in in (1)"])
def test_words_that_no_column_has_are_refused_without_speaking_of_a_column(text):
    with pytest.raises(QueryInvalid) as caught:
        parse(text, pa.schema([("z", pa.int64())]))
    assert "backticks" not in str(caught.value)
    assert 0 <= caught.value.position <= len(text)
