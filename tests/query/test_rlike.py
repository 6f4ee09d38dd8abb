"""RLIKE means what it means in Java: a table recorded from `java.util.regex.Pattern`, answered again."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest
from tests.query.java.record import ANSWERS, TEXTS, WRITTEN, ask_java, invented

from indextables.errors import QueryInvalid
from indextables.query.evaluate import evaluate
from indextables.query.java_match import Automaton
from indextables.query.java_pattern import PatternRefused, read_pattern
from indextables.query.parse import parse

TABLE = pa.table({"s": pa.array([*TEXTS, None])})
# What Java accepts and we do not, with a word of the reason.
REFUSED = {
    r"\R+": "under a repetition",
    r"[\w-z]": "cannot begin with a class",
    "[&&a]": "on its left",
    "[a&&]": "on its right",
    "[a&&b&]": r"write \&",
    r"(a)\1": "back references",
    r"(?<n>a)\k<n>": "back references",
    r"\G": "write ^",
    r"\X": "write .",
    r"\N{LATIN SMALL LETTER A}": r"\x{...}",
    r"\b{g}": "not offered",
    r"\B": "beyond U+FFFF",
    r"(?i)\p{Lower}": "write [a-z]",
    r"\p{IsAlphabetic}": "write ranges",
    r"\p{IsLatin}": "write ranges",
    r"\p{InGreek}": "write ranges",
    r"\p{javaLowerCase}": "write ranges",
    "a{1001}": "up to 1000",
    "a{2}{3}": "put the repetition into",
    "a++a": "possessive",
    "(?:a|ab)++c": "possessive",
    "(?iu)é": "both cases",
    "(?x)a b": "(?x)",
    "(?U)é": r"\p{...}",
    "(?=a)": "combine two RLIKE",
    "(?!a)": "NOT RLIKE",
    "(?<=a)b": "look-behind",
    "(?<!a)b": "look-behind",
    "(?>a)b": "atomic",
}


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def rlike(pattern: str) -> str | None:
    """`T` or `F` for each text, as the predicate answers; None if it is refused."""
    try:
        predicate = parse(f"s RLIKE {literal(pattern)}", TABLE.schema)
    except QueryInvalid:
        return None
    *found, null = evaluate(predicate, TABLE).to_pylist()
    assert null is None
    return "".join("T" if one else "F" for one in found)


def automaton(pattern: str) -> str:
    """The same by our own automaton alone, without RE2."""
    ours = Automaton(read_pattern(pattern))
    return "".join("T" if ours.finds(text) else "F" for text in TEXTS)


def differences(answers: dict[str, str]) -> tuple[dict[str, str], int]:
    """Patterns that we answer otherwise than Java, with a text to look at; and how many we answer at all."""
    wrong, answered = {}, 0
    for pattern, java in answers.items():
        ours = rlike(pattern)
        if ours is None:
            continue
        answered += 1
        for found in (ours, automaton(pattern)):
            if found != java:
                place = next((i for i, (a, b) in enumerate(zip(found, java, strict=False)) if a != b), 0)
                wrong[pattern] = f"{TEXTS[place]!r}: {found[place]}, Java says {java[place]}"
    return wrong, answered


@pytest.mark.slow
def test_every_pattern_that_is_not_refused_matches_what_java_matches() -> None:
    wrong, answered = differences(json.loads(ANSWERS.read_text()))
    assert wrong == {}
    assert answered > 500


def test_patterns_that_java_accepts_and_that_are_refused_are_known() -> None:
    recorded = json.loads(ANSWERS.read_text())
    refused = {p for p in WRITTEN if recorded[p] != "!" and rlike(p) is None}
    more = {
        r"\1",
        "[a&&&&b]",
        "[^&&a]",
        "[a&&[b]&c]",
        r"[a\&&b]",
        r"\p{L1}",
        r"\Bb",
        r"a\B",
        "a?+a",
        "(a++)b",
        "a++.",
        "(?u)a",
    }
    assert refused == set(REFUSED) | more


@pytest.mark.parametrize(("pattern", "reason"), REFUSED.items())
def test_a_refusal_names_the_part_and_says_what_to_write(pattern: str, reason: str) -> None:
    with pytest.raises(QueryInvalid, match="has a pattern that cannot be used") as caught:
        parse(f"s RLIKE {literal(pattern)}", TABLE.schema)
    assert reason in str(caught.value)


def test_two_groups_of_one_name_are_refused_as_java_refuses_them() -> None:
    with pytest.raises(PatternRefused, match="two groups are named n"):
        read_pattern("(?<n>a)(?<n>b)")


def test_a_pattern_that_is_too_large_is_refused() -> None:
    with pytest.raises(PatternRefused, match="too large"):
        Automaton(read_pattern("(?:a{1000}){1000}"))
    with pytest.raises(PatternRefused, match="nested deeper"):
        read_pattern("(" * 60 + ")" * 60)
    with pytest.raises(PatternRefused, match="nested deeper"):
        read_pattern("[" * 60 + "a" + "]" * 60)


def test_a_pattern_that_re2_has_no_room_for_is_answered_all_the_same() -> None:
    table = pa.table({"s": ["é" * 998, "é" * 999 + "1"]})
    predicate = parse(r"s RLIKE r'^\p{L}{999}'", table.schema)
    assert evaluate(predicate, table).to_pylist() == [False, True]


def test_a_hostile_pattern_takes_time_linear_in_the_text() -> None:
    table = pa.table({"s": ["a" * 5_000 + "b\n", "a" * 5_000 + "\n"]})
    predicate = parse(r"s RLIKE r'^(a+)+\b$'", table.schema)
    assert evaluate(predicate, table).to_pylist() == [False, True]


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="asks a JDK")
def test_java_still_says_what_is_recorded_and_agrees_about_new_patterns() -> None:
    recorded = json.loads(ANSWERS.read_text())
    assert ask_java(WRITTEN, TEXTS) == {pattern: recorded[pattern] for pattern in WRITTEN}
    wrong, _ = differences(ask_java(list(dict.fromkeys(invented(2026, 300))), TEXTS))
    assert wrong == {}


@pytest.mark.parametrize("typed", [r"'^\d+'", r"'a\.b'", r'"\s"', r"'\u12'", r"'\q'", r"'it\'s \d'"])
def test_a_literal_whose_backslash_sql_would_drop_is_refused(typed: str) -> None:
    with pytest.raises(QueryInvalid, match="drops the backslash") as caught:
        parse(f"s RLIKE {typed}", TABLE.schema)
    assert caught.value.position == len("s RLIKE ")


def test_the_refusal_of_a_backslash_says_what_to_write() -> None:
    with pytest.raises(QueryInvalid) as caught:
        parse(r"s RLIKE '^\d+'", TABLE.schema)
    assert r"write '^\\d+' or r'^\d+'" in str(caught.value)


@pytest.mark.parametrize("typed", [r"'^\\d+$'", r"r'^\d+$'"])
def test_what_the_refusal_says_means_the_digits(typed: str) -> None:
    found = TABLE.filter(evaluate(parse(f"s RLIKE {typed}", TABLE.schema), TABLE))
    assert found["s"].to_pylist() == ["12", "007"]


@pytest.mark.parametrize(
    "typed", [r"'\n'", r"'\u0041'", r"'\\'", r"'\''", r"'\%'", r"'\_'", r"'\101'", r"'\U0001F600'"]
)
def test_escapes_that_sql_knows_are_taken(typed: str) -> None:
    parse(f"s = {typed}", TABLE.schema)
