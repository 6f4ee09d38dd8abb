"""Wildcards find the words that they would find in a list of words; a query that may mean something else says so."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import indextables
from indextables.errors import QueryInvalid, QueryWarning

WORDS = [
    "parquet",
    "parquets",
    "parget",
    "quet",
    "uet",
    "tantivy",
    "p",
    "pet",
    "Par-Quet",
    "a\nb",
    "p.t",
    "pät",
    "日本",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = indextables.create(
        tmp_path_factory.mktemp("wild") / "t",
        pa.schema([("id", pa.int64()), ("words", pa.string()), ("whole", pa.string()), ("plain", pa.string())]),
        indexing={"words": "text", "whole": "string", "plain": "none"},
        options={"storage.fsync": "false"},
    )
    for half in (WORDS[::2], WORDS[1::2]):
        made.append([{"id": WORDS.index(word), "words": word, "whole": word, "plain": word} for word in half])
    return made


def _pattern(wildcard: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(wildcard), re.DOTALL)


_pieces = st.lists(
    st.sampled_from(["*", "?", "p", "par", "quet", "et", "t", "u", "ä", "本", "."]), min_size=1, max_size=5
)


@pytest.mark.filterwarnings("ignore::indextables.errors.QueryWarning")
@settings(max_examples=80, deadline=None)
@given(_pieces.map("".join))
@example("*uet")
@example("*quet*")
@example("par?uet")
@example("a*b")
@example("日?本")
def test_a_wildcard_finds_what_a_list_of_words_has(table, pattern):
    if pattern.endswith("?") or not re.search(r"[*?]", pattern) or not re.search(r"[^*?]", pattern):
        return
    for column in ("whole", "plain"):
        wanted = [number for number, word in enumerate(WORDS) if _pattern(pattern).fullmatch(word)]
        assert sorted(table.search(f"{column}:{pattern}", limit=None)["id"].to_pylist()) == wanted, column
    if "." in pattern or (pattern.endswith("*") and not re.search(r"[*?]", pattern[:-1])):
        return
    wanted = [
        number
        for number, text in enumerate(WORDS)
        if any(_pattern(pattern).fullmatch(word) for word in re.findall(r"\w+", text.lower()))
    ]
    assert sorted(table.search(pattern, limit=None)["id"].to_pylist()) == wanted


def test_a_wildcard_is_marked_in_the_text(table):
    found = table.search("words:par?uet", highlight=["words"])
    assert found["_highlight_words"].to_pylist() == ["<em>parquet</em>"]


def test_a_wildcard_in_sql_finds_the_same(table):
    assert table.sql("SELECT id FROM t WHERE TEXTSEARCH(words, 'par?uet')")["id"].to_pylist() == [0]


def test_a_wildcard_in_two_words_is_refused_where_words_are_looked_for(table):
    with pytest.raises(QueryInvalid, match="not part of one word"):
        table.search("words:http://a?b")


def test_lower_case_operators_are_words_and_one_warning_says_so(table):
    with pytest.warns(QueryWarning, match="the operator is AND") as told:
        assert table.count("parquet and nothing") == 1
    assert len(told) == 1


@pytest.mark.slow
def test_the_shell_tells_what_a_query_may_not_mean_in_one_line(table):
    command = [sys.executable, "-m", "indextables", "count", table.url, "parquet or tantivy"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "2"
    assert ran.stderr == ("indextables: 'or' in 'parquet or tantivy' is searched for as a word: the operator is OR\n")
