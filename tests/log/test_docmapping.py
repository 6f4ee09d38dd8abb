from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import InvalidArgument
from indextables.log.wire.registry import REGISTRY_PREFIX, canonical_json, schema_ref, with_mapping

MAPPING = '[{"type":"text","name":"b","tokenizer":"raw"},{"name":"a","type":"i64"}]'
CANONICAL = '[{"name":"a","type":"i64"},{"name":"b","tokenizer":"raw","type":"text"}]'


def test_a_ref_is_the_start_of_the_hash_of_the_canonical_form():
    expected = base64.urlsafe_b64encode(hashlib.sha256(CANONICAL.encode()).digest()).decode()[:16]
    assert canonical_json(MAPPING) == CANONICAL
    assert schema_ref(MAPPING) == schema_ref(CANONICAL) == expected


def test_arrays_without_names_keep_their_order():
    assert canonical_json('{"z":[3,1,2],"a":[{"x":1},{"name":"q"}]}') == '{"a":[{"x":1},{"name":"q"}],"z":[3,1,2]}'


def test_a_mapping_is_stored_once():
    first, ref = with_mapping({"k": "v"}, MAPPING)
    again, same = with_mapping(first, CANONICAL)
    assert again is first
    assert ref == same
    assert first == {"k": "v", REGISTRY_PREFIX + ref: CANONICAL}


def test_forms_of_one_mapping_never_become_two_entries():
    forms = [MAPPING, CANONICAL, MAPPING.replace(",", " , "), MAPPING.replace('"a"', '"\\u0061"')]
    configuration: dict[str, str] = {}
    for text in [*forms, *reversed(forms)]:
        configuration, _ = with_mapping(configuration, text)
    assert len(configuration) == 1


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(InvalidArgument):
        schema_ref(text)


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text(max_size=3)),
        lambda v: st.one_of(st.lists(v, max_size=3), st.dictionaries(st.sampled_from(["name", "a", "b"]), v)),
        max_leaves=8,
    )
)
def test_the_canonical_form_is_a_fixed_point(value):
    import json

    text = canonical_json(json.dumps(value))
    assert canonical_json(text) == text
