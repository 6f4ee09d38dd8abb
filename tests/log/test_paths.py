from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import PathEscape
from indextables.log.wire.paths import canonical_path, canonical_paths, decode_path, encode_path, key_of

ROOTS = ["s3://bucket/data/tbl", "file:///data/tbl", "gs://bucket/data/tbl", "memory://bucket/data/tbl"]
AZURE = "abfss://box@account.dfs.core.windows.net/data/tbl"

ESCAPES = [
    "..",
    "../x",
    "a/../../x",
    "a/..",
    "./x",
    "a/./b",
    "%2e%2e/x",
    "%2E%2E/x",
    ".%2e/x",
    "a/%2e%2e/b",
    "%252e%252e/x",
    "%25252e%25252e/x",
    "%252e",
    "a%252f..%252f..%252fx",
    "..%2fx",
    "..%5cx",
    "a%5c..%5cb",
    "a\\b",
    "..\\x",
    "/etc/passwd",
    "//etc/passwd",
    "/data/tbl2/x",
    "/data/tbl/../x",
    "/data/tbl",
    "/data/tbl/",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "FILE:///etc/passwd",
    "file://host/data/tbl/x",
    "s3://bucket/data/tbl2/x",
    "s3://bucket/data/tbl/../../x",
    "s3://other/data/tbl/x",
    "s3://user:secret@bucket/data/tbl/x",
    "s3://bucket",
    "s3:x",
    "http://169.254.169.254/latest",
    "hdfs://bucket/data/tbl/x",
    "javascript:x",
    "C:/x",
    "a\x00b",
    "a%00b",
    "%00",
    "",
    "/",
    "a/",
    "a//b",
    "_transaction_log/00000000000000000000.json",
    "_Transaction_Log/x",
    "%5ftransaction_log/x",
    "_transaction_log",
    "_delta_log/0.json",
    "x" * 5000,
    "%ff",
    "%c3%28",
    "%ed%a0%80",
    "a/%2e/b",
    "%" + "25" * 20 + "2e",
]


@pytest.mark.parametrize(("path", "root"), list(itertools.product(ESCAPES, [*ROOTS, AZURE])))
def test_a_path_that_leads_out_is_refused(path, root):
    with pytest.raises(PathEscape):
        key_of(path, root)
    with pytest.raises(PathEscape):
        canonical_paths(pa.array(["good/x.split", path]), root)


@pytest.mark.parametrize("path", ["/data/tbl/a b/x", "file:///data/tbl/a%20b/x", "file:/data/tbl/a%20b/x", "a%20b/x"])
def test_an_absolute_local_path_below_the_root_is_the_same_file(path):
    assert canonical_path(path, "file:///data/tbl") == "a%20b/x"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3A"])
def test_an_absolute_url_below_the_root_is_the_same_file_under_every_name_of_its_scheme(scheme):
    assert canonical_path(f"{scheme}://bucket/data/tbl/d=1/x.split", "s3://bucket/data/tbl") == "d=1/x.split"


def test_an_azure_url_must_name_the_account():
    url = "abfss://box@account.dfs.core.windows.net/data/tbl/x"
    assert canonical_path(url, AZURE) == "x"
    with pytest.raises(PathEscape):
        canonical_path(url.replace("account", "other"), AZURE)


def test_a_root_with_odd_characters_is_recognised():
    assert canonical_path("/data/my%20tbl%25/x", "file:///data/my%20tbl%25") == "x"


def test_an_absolute_path_is_refused_where_the_root_is_not_known():
    with pytest.raises(PathEscape):
        canonical_path("/data/tbl/x", "")


def test_an_escaped_slash_of_a_partition_value_stays_inside_its_folder():
    assert key_of("col=a%252Fb/x", ROOTS[0]) == "col=a%2Fb/x"
    assert key_of("col=..%252F../x", ROOTS[0]) == "col=..%2F../x"


def test_names_of_another_system_are_taken_as_they_stand():
    assert key_of("day=a%20b/part-1.split", ROOTS[0], encoded=False) == "day=a%20b/part-1.split"
    with pytest.raises(PathEscape):
        key_of("%2e%2e/x", ROOTS[0], encoded=False)


PART = st.text(st.characters(exclude_characters="/\\\x00", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda part: part not in {".", ".."} and "%" not in part
)
KEYS = st.lists(PART, min_size=1, max_size=4).map("/".join).filter(lambda k: not k.lower().startswith("_"))


@given(KEYS)
def test_every_legal_key_round_trips_byte_by_byte(key):
    logged = encode_path(key)
    assert logged.isascii()
    assert decode_path(logged) == key
    assert key_of(logged, ROOTS[0]) == key
    assert canonical_path(logged, ROOTS[0]) == logged
    assert canonical_path(f"s3a://bucket/data/tbl/{logged}", ROOTS[0]) == logged


@given(KEYS, st.data())
def test_spellings_of_a_key_have_one_canonical_form(key, data):
    logged = encode_path(key)
    respelled = "".join(
        f"%{ord(c):02{data.draw(st.sampled_from('xX'))}}"
        if c.isascii() and c != "/" and data.draw(st.booleans())
        else c
        for c in key
        if c.isascii()
    )
    plain = "".join(c for c in key if c.isascii())
    try:
        wanted = canonical_path(encode_path(plain), ROOTS[0]) if plain else None
    except PathEscape:
        wanted = None
    if wanted is not None and ":" not in respelled.split("/")[0]:
        assert canonical_path(respelled, ROOTS[0]) == wanted
    assert canonical_path(logged, ROOTS[0]) == logged


FRAGMENTS = [
    "a",
    "..",
    ".",
    "%2e",
    "%2f",
    "%25",
    "/",
    "\\",
    " ",
    "=",
    "col=",
    "%",
    "s3://",
    ":",
    "é",
    "_delta_log",
    "\n",
]


@given(st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join), min_size=1, max_size=40))
def test_a_column_gives_what_each_path_gives(paths):
    def one(path):
        try:
            return canonical_path(path, ROOTS[0])
        except PathEscape:
            return None

    expected = [one(path) for path in paths]
    if None in expected:
        with pytest.raises(PathEscape) as caught:
            canonical_paths(pa.array(paths), ROOTS[0])
        assert caught.value.details["row"] == expected.index(None)
    else:
        assert canonical_paths(pa.array(paths), ROOTS[0]).to_pylist() == expected


def test_folders_that_need_decoding_are_decoded_for_the_whole_column():
    paths = [f"day={i % 3} x/split-{i}.split" for i in range(100)]
    assert canonical_paths(pa.array(paths), ROOTS[0]).to_pylist() == [p.replace(" ", "%20") for p in paths]


def test_the_error_names_the_path_and_the_reason():
    with pytest.raises(PathEscape, match=r"'\.\./x' is refused.*no file was touched") as caught:
        key_of("../x", ROOTS[0])
    assert caught.value.details["path"] == "../x"
