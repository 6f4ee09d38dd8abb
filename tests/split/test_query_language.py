"""The language: Tantivy's where both read a text, our own where Tantivy has no meaning, and errors that point."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import tantivy
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.split.search_world import OPTIONS, SCHEMA

from indextables.errors import LimitExceeded, QueryInvalid
from indextables.options import Options
from indextables.split.index.fields import plan_fields
from indextables.split.query import ast
from indextables.split.query.language import MAX_CLAUSES, MAX_DEPTH, doubts, parse
from indextables.split.query.plan import Bool, Everything, Nothing, Terms
from indextables.split.query.resolve import Catalog, plan_query

CATALOG = Catalog(SCHEMA, plan_fields(SCHEMA, Options(OPTIONS, environ={})))

WORD = st.sampled_from(["a", "bc", "x1", "naïve", "foo.bar", "a-b", "2024-01-01", "10.0.0.1"])
FIELD = st.sampled_from(["", "f:", "a.b:", "f-1:"])


def _leaf() -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(str.__add__, FIELD, WORD),
        st.builds(lambda f, a, b: f'{f}"{a} {b}"', FIELD, WORD, WORD),
        st.builds(lambda f, a, b, s: f'{f}"{a} {b}"~{s}', FIELD, WORD, WORD, st.integers(0, 9)),
        st.builds(lambda f, a, b: f'{f}"{a} {b}"*', FIELD, WORD, WORD),
        st.builds(lambda a, b, o, c: f"f:{o}{a} TO {b}{c}", WORD, WORD, st.sampled_from("[{"), st.sampled_from("]}")),
        st.builds(lambda s, a: f"f:{s}{a}", st.sampled_from([">", ">=", "<", "<="]), WORD),
        st.builds(lambda a, b: f"f:IN [{a} {b}]", WORD, WORD),
        st.just("f:/a.*b/"),
        st.just("*"),
        st.just("f:*"),
        st.builds(lambda a: f"{a}^2.5", WORD),
    )


def _query() -> st.SearchStrategy[str]:
    def joined(left: str, right: str, how: str) -> str:
        return {
            "and": f"({left}) AND ({right})",
            "or": f"({left}) OR ({right})",
            "next": f"({left}) ({right})",
            "not": f"({left}) AND NOT ({right})",
            "signs": f"+({left}) -({right})",
        }[how]

    ways = st.sampled_from(["and", "or", "next", "not", "signs"])
    return st.recursive(_leaf(), lambda inner: st.builds(joined, inner, inner, ways), max_leaves=6)


def _ours(node: ast.Node, true: Callable[[object], bool]) -> bool:
    """Whether a row matches our tree, if `true` says so of each leaf."""
    match node:
        case ast.Boolean(clauses=clauses):
            return _holds([(c.occur, _ours(c.node, true)) for c in clauses])
        case ast.Boost(node=inner):
            return _ours(inner, true)
        case ast.Everything():
            return true("all") or True
        case ast.Exists(field=field):
            return true(("exists", _name(field)))
        case ast.Regex(pattern=pattern, field=field):
            return true(("regex", _name(field), pattern))
        case ast.OneOf(values=found, field=field):
            return true(("set", _name(field), tuple(text for text, _ in found)))
        case ast.Range(lower=lower, upper=upper, field=field):
            ends = tuple(None if end is None else (end.text, end.inclusive) for end in (lower, upper))
            return true(("range", _name(field), ends))
        case ast.Prefix(text=text, field=field):
            return true(("literal", _name(field), text, 0, True))
        case ast.Word(text=text, slop=slop, field=field):
            return true(("literal", _name(field), text, slop, False))
    raise AssertionError(node)


def _theirs(node: dict[str, Any], true: Callable[[object], bool]) -> bool:
    """Whether a row matches Tantivy's tree; a clause without an occur is a `should`."""
    match node["type"]:
        case "bool":
            return _holds([(occur or "should", _theirs(inner, true)) for occur, inner in node["clauses"]])
        case "boost":
            return _theirs(node["underlying"], true)
        case "all":
            return true("all") or True
        case "exists":
            return true(("exists", node["field"]))
        case "regex":
            return true(("regex", node["field"], node["pattern"]))
        case "set":
            return true(("set", node["field"], tuple(node["elements"])))
        case "range":
            ends = (node["lower"], node["upper"])
            known = (None if e["type"] == "unbounded" else (e["value"], e["type"] == "inclusive") for e in ends)
            return true(("range", node["field"], tuple(known)))
    return true(("literal", node["field_name"], node["phrase"], node["slop"], node["prefix"]))


def _holds(clauses: list[tuple[str, bool]]) -> bool:
    must = [held for occur, held in clauses if occur == "must"]
    should = [held for occur, held in clauses if occur == "should"]
    banned = [held for occur, held in clauses if occur == "must_not"]
    return all(must) and not any(banned) and (bool(must) or not should or any(should))


def _name(field: ast.Field | None) -> str | None:
    return None if field is None else ".".join(field.parts)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(_query(), st.integers(0, 2**32))
@example("a OR b AND c", 1)
@example('f:"a b"~2^3', 1)
def test_it_reads_what_tantivy_reads_in_the_same_way(text, seed):
    """The trees need not be equal, but no assignment of truth to the leaves may tell them apart.

    Leaves are distinct, because Tantivy makes `x (a AND a)` into `x +a`.
    """
    ours, theirs = parse(text), tantivy.parse_query(text)
    atoms: list[object] = []
    _ours(ours, lambda atom: atoms.append(atom) is None)
    assume(len(set(atoms)) == len(atoms))
    for round_ in range(16):

        def true(atom: object, salt: int = seed + round_) -> bool:
            return zlib.crc32(repr((salt, atom)).encode()) % 2 == 0

        assert _ours(ours, true) == _theirs(theirs, true), text


@pytest.mark.parametrize(
    ("habit", "meaning"),
    [
        ("a && b", "a AND b"),
        ("a || b && c", "a OR b AND c"),
        ("!a", "NOT a"),
        ("! a", "NOT a"),
        ("a !b", "a -b"),
        ("a AND !b", "a AND NOT b"),
        ("a || !(b c)", "a OR NOT (b c)"),
        ("!!a", "a"),
        ("!message:a", "NOT message:a"),
        ("*:*", "*"),
        ("a AND *:*", "a AND *"),
    ],
)
def test_operators_of_other_engines_mean_ours(habit, meaning):
    assert plan_query(habit, CATALOG) == plan_query(meaning, CATALOG)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("a and b", ["'and'"]),
        ("not a", ["'not'"]),
        ("a or b not c", ["'or'"]),
        ("*a", ["beginning"]),
        ("?a or b", ["'or'", "beginning"]),
        ("Not a", ["'Not'"]),
        ("a And b", ["'And'"]),
        ("and", []),
        ("a AND b", []),
        ('a "and" b', []),
        ("a \\and b", []),
        ("message:and b", []),
        ("a*b", []),
        ("a*", []),
    ],
)
def test_what_a_query_may_not_mean_is_told(query, words):
    told = doubts(query)
    assert len(told) == len(words)
    assert all(word in one for word, one in zip(words, told, strict=True))


@pytest.mark.parametrize("query", ["status:-5", "price:-1.5", "message:NOT", "message:OR", "foo\\~1", "a\\~b"])
def test_a_sign_or_a_word_that_is_the_value_is_read(query):
    plan_query(query, CATALOG)


def test_what_tantivy_gets_wrong_has_its_plain_meaning():
    assert isinstance(parse("tim*"), ast.Prefix)
    assert parse("time~2") == ast.Fuzzy(None, "time", 2, 0)
    assert parse("time~").distance == 1
    assert parse("ip:2001:db8::1").text == "2001:db8::1"
    assert parse("it's").text == "it's"
    assert parse("http://x.y/z").text == "http://x.y/z"
    assert isinstance(plan_query("NOT message:foo", CATALOG), Bool)
    assert plan_query("NOT message:foo", CATALOG).must == (Everything(),)


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("nowhere:x", 0),
        ("foo AND nowhere:x", 8),
        ("status:abc", 7),
        ("status:[1 TO z]", 13),
        ("at:2024-13", 3),
        ("at:noon", 3),
        ("ip:999.1.1.1", 3),
        ("ok:maybe", 3),
        ("blob:xyz", 5),
        ("price:1.2.3", 6),
        ("attrs.nothing:1", 0),
        ("attrs:foo", 0),
        ("status.inner:1", 0),
        ("status:1*", 7),
        ("status:/1/", 7),
        ("status:1~1", 7),
        ("attrs.user:/a/", 11),
        ("message:/(a/", 8),
        ("message:/a{9999}/", 8),
        ("message:/(?i)a/", 8),
        ("message:/a*?/", 8),
        ("message:foo~3", 8),
        ("status:*1", 7),
        ("status:1?1", 7),
        ("foo?", 3),
        ("fo?o~1", 0),
        ("**?", 0),
        ("message:f.o*o", 8),
        ("foo&&bar", 3),
        ("foo ||bar", 4),
        ("message:!foo", 8),
        ("foo~0.8", 3),
        ("foo~AUTO", 3),
        ("foo ~1", 4),
        ("~foo", 0),
        ("foo~~1", 3),
        ("(foo bar)~2", 9),
        ("status > 500", 7),
        (">foo", 0),
        ("status IN [1 2]", 7),
        ("status:IN (1 2)", 7),
        ("status:in [1 2]", 7),
        ("message:NOT foo", 8),
        ("message:-foo", 8),
        ('message:+"foo bar"', 8),
        ("/var/log/syslog", 0),
        ("*:foo", 0),
        ("_exists_:message", 0),
        ("foo !", 4),
        ("&& foo", 0),
        ("foo &&", 4),
        ("message:[a*b TO c]", 10),
        ('"open', 0),
        ("(open", 0),
        ("close)", 5),
        ("()", 0),
        ("a AND", 2),
        ("OR a", 0),
        ("NOT", 0),
        ("a^", 1),
        ("a^x", 1),
        ("a^99999999999", 1),
        ("message:", 8),
        ("[a TO", 5),
        ("f:[a b]", 5),
        ("message:IN [a", 8),
        ("a\\", 1),
        ("--a", 0),
        ("a\ud800b", 1),
    ],
)
def test_a_fault_is_shown_where_it_is(query, position):
    with pytest.raises(QueryInvalid) as caught:
        plan_query(query, CATALOG)
    assert caught.value.position == position
    assert str(position) in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        " ".join(["a"] * (MAX_CLAUSES + 1)),
        " OR ".join(["message:a"] * 10_000),
        "(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1),
        "(" * 10_000,
        "NOT (" * 10_000,
        '"a b"~' + "9" * 100,
        '"a b"~70000',
        "x" * 2_000_000,
        "message:IN [" + "a " * 20_000 + "]",
        'message:"' + "a " * 2_000 + '"',
        "message:" + "a" * 70_000,
    ],
)
@pytest.mark.timeout(120)
def test_too_much_is_refused_at_once(query):
    with pytest.raises(LimitExceeded):
        plan_query(query, CATALOG)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                [
                    *'()[]{}"*~^:/\\+-<>=. \n\0',
                    "AND",
                    "OR",
                    "NOT",
                    "TO",
                    "IN",
                    "message",
                    "status",
                    "attrs.user",
                    "a",
                    "1",
                    "é",
                ]
            ),
            max_size=30,
        ).map("".join),
    )
)
def test_any_text_is_planned_or_refused_with_a_typed_error(text):
    with contextlib.suppress(QueryInvalid, LimitExceeded):
        plan_query(text, CATALOG)


def test_default_operator_and_default_fields_can_be_set():
    both = Catalog(SCHEMA, CATALOG.index, ("title",), "and")
    plan = plan_query("foo bar", both)
    assert isinstance(plan, Bool)
    assert [leaf.target.column for leaf in plan.must] == ["title", "title"]
    either = plan_query("foo", CATALOG)
    assert {leaf.target.column for leaf in either.should} == {"message", "title"}
    with pytest.raises(QueryInvalid):
        plan_query("foo", Catalog(SCHEMA, CATALOG.index, ("nowhere",)))


def test_columns_are_found_in_any_case_and_with_dots_in_their_names():
    schema = pa.schema([("A.b", pa.string()), ("x", pa.struct([("Y.z", pa.string())]))])
    catalog = Catalog(schema, plan_fields(schema, Options({}, environ={})))
    assert plan_query("a.B:v", catalog).target.column == "A.b"
    assert plan_query("X.y\\.z:v", catalog).target.path == ("Y.z",)


def test_a_text_without_words_matches_nothing():
    assert plan_query('message:"!?"', CATALOG) == Nothing()
    assert plan_query("", CATALOG) == Nothing()


def test_the_words_of_a_query_are_those_of_the_column():
    schema = pa.schema([("t", pa.string()), ("w", pa.string()), ("n", pa.string())])
    options = {
        "indexing.typemap.t": "text",
        "indexing.tokenizer.t": "en_stem",
        "indexing.typemap.w": "text",
        "indexing.tokenizer.w": "whitespace",
        "indexing.typemap.n": "text",
        "indexing.tokenizer.n": "ngram(2,3)",
    }
    catalog = Catalog(schema, plan_fields(schema, Options(options, environ={})))
    assert plan_query("t:Running", catalog) == Terms(plan_query("t:run", catalog).target, ((0, "run"),))
    assert plan_query("w:Foo-Bar", catalog).terms == ((0, "Foo-Bar"),)
    assert {leaf.terms[0][1] for leaf in plan_query("n:ABC", catalog).must} == {"ab", "abc", "bc"}
    with pytest.raises(QueryInvalid):
        plan_query("n:ab*", catalog)
