"""Texts inside structs, maps and lists of structs: whole values in new tables, words where a table says so."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument

PERSON = pa.struct([("name", pa.string()), ("site", pa.string()), ("age", pa.int64())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("who", PERSON),
        ("props", pa.map_(pa.string(), pa.string())),
        ("people", pa.list_(PERSON)),
        ("tags", pa.list_(pa.string())),
    ]
)
SITE = "https://example.org/a?b=c-d"
STAMP = "2024-02-29T12:00:00Z"


def rows() -> list[dict[str, object]]:
    return [
        {
            "id": 1,
            "who": {"name": "Foo Bar", "site": SITE, "age": 7},
            "props": [("mail", "ann@example.org"), ("at", STAMP)],
            "people": [{"name": "Foo"}, {"name": "Baz Qux"}],
            "tags": ["Foo Bar"],
        },
        {"id": 2, "who": {"name": "foo", "age": 8}, "props": [("mail", "example"), ("at", STAMP + " ")]},
        {"id": 3},
    ]


def made(path, **more):
    table = indextables.create(path, SCHEMA, **more)
    table.append(rows())
    return table


def found(table, query: str) -> list[int]:
    return sorted(table.search(query, columns=["id"])["id"].to_pylist())


WHOLE = {
    "who.name:foo": [2],
    'who.name:"Foo Bar"': [1],
    "who.name:Foo": [],
    "who.name:Fo*": [1],
    f'who.site:"{SITE}"': [1],
    "who.site:example": [],
    "props.mail:ann@example.org": [1],
    "props.mail:example": [2],
    f'props.at:"{STAMP}"': [1],
    f'props.at:"{STAMP} "': [2],
    "props.at:2024*": [1, 2],
    f'props.at:IN ["{STAMP}" other]': [1],
    "people.name:Foo": [1],
    'people.name:"Baz Qux"': [1],
    "people.name:Baz": [],
    "who.age:7": [1],
    "who.name:fop~1": [2],
    "tags:Foo": [],
}


@pytest.mark.parametrize("query", WHOLE)
def test_a_new_table_matches_whole_values(tmp_path, query):
    assert found(made(tmp_path / "t"), query) == WHOLE[query]


def test_the_index_answers_what_is_no_time(tmp_path):
    table = made(tmp_path / "t")
    table.append([{"id": n, "who": {"name": f"n{n}"}} for n in range(10, 60)])
    table.merge_splits()
    assert found(table, "who.name:n42") == [42]
    assert table.explain("who.name:n42")["conditions"][0]["answered_by"] == "index"
    assert table.explain("who.age:7")["conditions"][0]["answered_by"] == "index"
    assert table.explain(f'props.at:"{STAMP}"')["conditions"][0]["answered_by"] != "index"


def test_a_table_can_have_words_and_a_table_that_says_nothing_has_them(tmp_path):
    words = made(tmp_path / "words", indexing={"who": "text", "props": "string", "people": {"tokenizer": "en_stem"}})
    assert found(words, "who.name:foo") == [1, 2]
    assert found(words, "who.name:bar") == [1]
    assert found(words, "props.mail:example") == [2]
    assert found(words, "people.name:baz") == [1]
    assert words.metadata.configuration["indexing.typemap.props"] == "string"


def test_what_a_nested_column_cannot_be_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="none, text, string"):
        indextables.create(tmp_path / "t", SCHEMA, indexing={"who": "ip"})


def test_columns_that_come_later_have_whole_values_too(tmp_path):
    table = made(tmp_path / "t")
    more = pa.table({"id": [9], "more": pa.array([{"k": "Foo Bar"}], pa.struct([("k", pa.string())]))})
    table.append(more, merge_schema=True)
    assert found(table, "more.k:foo") == []
    assert found(table, 'more.k:"Foo Bar"') == [9]
    table.overwrite(more.rename_columns(["id", "other"]), overwrite_schema=True)
    assert found(table, 'other.k:"Foo Bar"') == [9]
    assert not any("who" in key or "more" in key for key in table.metadata.configuration if "typemap" in key)


def test_columns_without_texts_say_nothing(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("s", pa.struct([("n", pa.int64())])), ("t", pa.string())]))
    assert not any(key.startswith("indexing.") for key in table.metadata.configuration)


def test_a_rebuilt_log_knows_what_texts_are(tmp_path):
    made(tmp_path / "whole")
    made(tmp_path / "words", indexing={"who": "text"})
    for name, expected in (("whole", [2]), ("words", [1, 2])):
        for file in sorted((tmp_path / name / "_transaction_log").rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        (tmp_path / name / "_transaction_log").rmdir()
        indextables.invalidate_caches()
        indextables.rebuild(tmp_path / name)
        table = indextables.open(tmp_path / name)
        assert found(table, "who.name:foo") == expected
        table.append([{"id": 4, "who": {"name": "foo x"}}])
        assert found(table, "who.name:foo") == (expected if name == "whole" else [*expected, 4])


def test_a_table_that_was_there_before_keeps_words(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA)
    first = tmp_path / "t" / "_transaction_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in gzip.decompress(first.read_bytes()).splitlines()]
    for line in lines:
        if "metaData" in line:
            # As libraries made it that knew only words there.
            told = line["metaData"]["configuration"]
            line["metaData"]["configuration"] = {k: v for k, v in told.items() if k.startswith("columnMapping.")}
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first.with_suffix(".crc").unlink()
    indextables.invalidate_caches()
    table = indextables.open(tmp_path / "t")
    table.append(rows())
    assert found(table, "who.name:foo") == [1, 2]
    table.append([{"id": 4, "who": {"name": "a foo"}}])
    table.merge_splits()
    assert found(table, "who.name:foo") == [1, 2, 4]
