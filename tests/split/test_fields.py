from __future__ import annotations

import base64
import hashlib
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.split.frames import EVERY_TYPE, OPTIONS

from indextables.errors import InvalidArgument, SplitCorrupt
from indextables.options import Options
from indextables.split.index.fields import ID_KEY, IndexPlan, canonical_json, column_id, plan_fields


def _options(**given_options):
    return Options({key.replace("__", "."): value for key, value in given_options.items()}, environ={})


def test_every_type_has_a_kind_or_is_stored_only():
    plan = plan_fields(EVERY_TYPE, Options(OPTIONS, environ={}))
    kinds = {f.column: (f.kind, f.multi, f.indexed, f.fast) for f in plan.fields}
    assert kinds == {
        "text": ("text", False, True, False),
        "name": ("string", False, True, True),
        "addr": ("ip", False, True, False),
        "i8": ("int", False, False, True),
        "i16": ("int", False, False, True),
        "i32": ("int", False, False, True),
        "i64": ("int", False, False, True),
        "flag": ("bool", False, False, True),
        "day": ("date", False, False, True),
        "at": ("timestamp", False, False, True),
        "at_ntz": ("timestamp", False, False, True),
        "tags": ("string", True, True, False),
        "numbers": ("int", True, False, True),
        "person": ("json", False, True, False),
        "props": ("json", False, True, False),
        "counts": ("json", False, True, False),
        "people": ("json", True, True, False),
        "large": ("string", False, True, False),
    }
    assert set(plan.stored_only) == {"f32", "f64", "price", "raw", "matrix", "nothing"}


def test_options_name_columns_in_any_case_with_or_without_prefix():
    schema = pa.schema([("MyField", pa.string()), ("Other", pa.string()), ("n", pa.int64())])
    options = Options(
        {
            "spark.indextables.indexing.typemap.myfield": "TEXT",
            "indexing.tokenizer.MYFIELD": "en_stem",
            "indexing.indexRecordOption.myField": "freq",
            "indexing.tokenLength.myField": "legacy",
            "indexing.fastFields": "other, nobody",
            "indexing.nonFastFields": "N",
        },
        environ={},
    )
    plan = plan_fields(schema, options)
    field = plan.by_column("myfield")
    assert field is not None
    assert (field.kind, field.tokenizer, field.record, field.token_length) == ("text", "en_stem", "freq", 40)
    assert plan.by_column("OTHER").fast
    assert plan.by_column("n") is None
    assert plan.stored_only == ("n",)


@pytest.mark.parametrize(
    "options",
    [
        {"indexing.typemap.n": "text"},
        {"indexing.typemap.s": "int"},
        {"indexing.typemap.s": "texty"},
        {"indexing.typemap.f": "int"},
        {"indexing.typemap.s": "text", "indexing.tokenizer.s": "klingon_stem"},
        {"indexing.typemap.s": "text", "indexing.tokenLength.s": "0"},
        {"indexing.typemap.s": "text", "indexing.tokenLength.s": "70000"},
        {"indexing.indexrecordoption.s": "everything"},
    ],
)
def test_what_a_column_cannot_be_is_refused_with_its_name(options):
    schema = pa.schema([("s", pa.string()), ("n", pa.int64()), ("f", pa.float64())])
    with pytest.raises(InvalidArgument, match=r"[snf]\b"):
        plan_fields(schema, Options(options, environ={}))


def test_none_leaves_a_column_out_of_the_index():
    plan = plan_fields(pa.schema([("s", pa.string())]), _options(indexing__typemap__s="none"))
    assert plan.fields == ()
    assert plan.stored_only == ("s",)


def test_new_columns_go_last_and_dropped_ones_keep_their_place():
    first = plan_fields(pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.string())]), _options())
    then = plan_fields(
        pa.schema([("z", pa.string()), ("c", pa.string()), ("a", pa.string())]), _options(), previous=first
    )
    assert [f.id for f in then.fields] == ["a", "b", "c", "z"]
    assert [f.column for f in then.fields] == ["a", None, "c", "z"]
    kept = plan_fields(pa.schema([("c", pa.string()), ("a", pa.string())]), _options(), previous=first)
    assert kept.doc_mapping() == first.doc_mapping()


def test_a_renamed_column_keeps_its_field():
    plan = plan_fields(pa.schema([pa.field("old", pa.string(), metadata={ID_KEY: b"c7"})]), _options())
    renamed = pa.schema([pa.field("new", pa.string(), metadata={ID_KEY: b"c7"})])
    then = plan_fields(renamed, _options(), previous=plan)
    assert [(f.id, f.column) for f in then.fields] == [("c7", "new")]


@pytest.mark.slow
@given(st.text(max_size=40))
def test_ids_are_safe_and_different_for_different_names(name):
    found = column_id(pa.field(name, pa.string()))
    assert found.isascii()
    assert all(c.isalnum() or c == "_" for c in found)
    assert column_id(pa.field(name + "x", pa.string())) != found
    if found != name:
        assert bytes.fromhex(found.removeprefix("x_")).decode() == name


def test_a_name_that_looks_like_an_encoded_one_is_encoded_itself():
    assert column_id(pa.field("x_61", pa.string())) == "x_" + b"x_61".hex()
    assert column_id(pa.field("", pa.string())) == "x_"


def test_a_mapping_comes_back_from_its_text():
    plan = plan_fields(EVERY_TYPE, Options(OPTIONS, environ={}))
    again = IndexPlan.from_doc_mapping(plan.doc_mapping())
    assert again.fields == plan.fields
    assert again.doc_mapping_ref() == plan.doc_mapping_ref()


def test_the_reference_of_a_mapping_is_its_canonical_hash():
    plan = plan_fields(pa.schema([("b", pa.string()), ("a", pa.string())]), _options())
    fields = json.loads(plan.doc_mapping())["fields"]
    assert [f["name"] for f in fields] == ["a", "b"]
    assert [f["ordinal"] for f in fields] == [1, 0]
    assert len(plan.doc_mapping_ref()) == 16
    digest = hashlib.sha256(plan.doc_mapping().encode()).digest()
    assert plan.doc_mapping_ref() == base64.urlsafe_b64encode(digest).decode()[:16]


def test_canonical_json_sorts_keys_and_named_objects():
    assert canonical_json({"b": 1, "a": [{"name": "z"}, {"name": "y"}]}) == '{"a":[{"name":"y"},{"name":"z"}],"b":1}'
    assert canonical_json([3, 1, 2]) == "[3,1,2]"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version":1}',
        '{"version":2,"fields":[]}',
        '{"version":1,"fields":[{"name":"a","ordinal":1,"type":"text","source":"string"}]}',
        '{"version":1,"fields":[{"name":"a","ordinal":0,"type":"blob","source":"string"}]}',
        '{"version":1,"fields":[{"name":"a b","ordinal":0,"type":"text","source":"string"}]}',
        '{"version":1,"fields":[{"name":"a","ordinal":0,"type":"text","source":"string","tokenizer":"klingon"}]}',
        '{"version":1,"fields":[{"name":"a","ordinal":0,"type":"text","source":"string","tokenLength":0}]}',
        "[" * 100_000,
    ],
)
def test_a_mapping_that_is_none_is_corrupt(text):
    with pytest.raises(SplitCorrupt):
        IndexPlan.from_doc_mapping(text)
