"""MERGE against a plain loop over rows: any clauses, any values, and any others beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.table.test_delete import meanwhile

import indextables
from indextables.errors import CardinalityViolation

SCHEMA = pa.schema([("k", pa.float64()), ("v", pa.int32()), ("w", pa.string()), ("p", pa.int32())])
Row = dict[str, Any]


class If(NamedTuple):
    """A condition as SQL and as a function of both rows that tells True, False or None for unknown."""

    text: str
    holds: Callable[[Row, Row], bool | None]


class Act(NamedTuple):
    """What a clause does: `values` for the builder, None for all columns; `change` makes the row, None deletes it."""

    values: dict[str, object] | None
    change: Callable[[Row, Row], Row | None]


def equal(a, b):
    if a is None or b is None:
        return None
    return a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


def less(a, b):
    return None if a is None or b is None else a < b


def one_more(number):
    return None if number is None else number + 1


def both(*flags):
    return False if False in flags else None if None in flags else True


ONS = [
    If("t.k = s.k", lambda t, s: equal(t["k"], s["k"])),
    If("s.k = t.k AND t.v < s.v", lambda t, s: both(equal(t["k"], s["k"]), less(t["v"], s["v"]))),
    If("t.w = s.w AND t.k = s.k", lambda t, s: both(equal(t["k"], s["k"]), equal(t["w"], s["w"]))),
    If("t.k = s.k AND t.p = 1", lambda t, s: both(equal(t["k"], s["k"]), equal(t["p"], 1))),
    If("t.k = s.k AND s.v IS NOT NULL", lambda t, s: both(equal(t["k"], s["k"]), s["v"] is not None)),
]
PAIR_TESTS = [
    If("s.v > t.v", lambda t, s: less(t["v"], s["v"])),
    If("t.w = 'a' OR s.w IS NULL", lambda t, s: True if s["w"] is None else equal(t["w"], "a")),
    If("NOT (s.v = 1)", lambda t, s: None if s["v"] is None else s["v"] != 1),
]
SOURCE_TESTS = [
    If("s.v > 1", lambda t, s: less(1, s["v"])),
    If("w = 'b'", lambda t, s: equal(s["w"], "b")),
]
TARGET_TESTS = [
    If("t.v < 2", lambda t, s: less(t["v"], 2)),
    If("k IS NULL", lambda t, s: t["k"] is None),
    If("p = 1", lambda t, s: equal(t["p"], 1)),
]
DELETE = Act({}, lambda t, s: None)
PAIR_ACTS = [
    Act(None, lambda t, s: dict(s)),
    Act({"v": "coalesce(t.v, 0) + 1", "w": "s.w"}, lambda t, s: {**t, "v": (t["v"] or 0) + 1, "w": s["w"]}),
    Act({"p": "s.v", "v": 7}, lambda t, s: {**t, "p": s["v"], "v": 7}),
    DELETE,
]
INSERT_ACTS = [
    Act(None, lambda t, s: dict(s)),
    Act({"k": "s.k", "w": "concat(w, '!')"}, lambda t, s: {**EMPTY, "k": s["k"], "w": s["w"] and s["w"] + "!"}),
]
ALONE_ACTS = [
    Act({"v": "t.v + 1", "w": "'alone'"}, lambda t, s: {**t, "v": one_more(t["v"]), "w": "alone"}),
    DELETE,
]
EMPTY: Row = {"k": None, "v": None, "w": None, "p": None}


def clauses_of(tests, acts):
    """Some clauses; only the last may take every row."""
    first = st.lists(st.tuples(st.sampled_from(tests), st.sampled_from(acts)), max_size=2)
    last = st.lists(st.tuples(st.none(), st.sampled_from(acts)), max_size=1)
    return st.tuples(first, last).map(lambda parts: parts[0] + parts[1])


ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, float("nan")]),
        "v": st.sampled_from([None, 0, 1, 2, 3]),
        "w": st.sampled_from([None, "a", "b"]),
        "p": st.sampled_from([0, 1]),
    }
)
TARGETS = st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=3)
SOURCES = st.one_of(st.lists(ROWS, max_size=5), st.lists(ROWS, max_size=5, unique_by=lambda row: repr(row["k"])))
STATEMENTS = st.tuples(
    st.sampled_from(ONS),
    clauses_of(PAIR_TESTS, PAIR_ACTS),
    clauses_of(SOURCE_TESTS, INSERT_ACTS),
    clauses_of(TARGET_TESTS, ALONE_ACTS),
).filter(lambda one: any(one[1:]))


class Twice(Exception):
    """A row that would be changed twice."""


def first(clauses, t, s):
    return next((act for test, act in clauses if test is None or test.holds(t, s) is True), None)


def looped(target, source, statement):
    """The rows after a MERGE, and how many were updated, deleted and inserted."""
    on, matched, inserts, alone = statement
    result, used, updated, deleted = [], set(), 0, 0
    one_delete = len(matched) == 1 and matched[0] == (None, DELETE)
    for t in target:
        pairs = [place for place, s in enumerate(source) if on.holds(t, s) is True]
        used |= set(pairs)
        if pairs:
            wanted = [(act, source[place]) for place in pairs if (act := first(matched, t, source[place])) is not None]
        else:
            act = first(alone, t, EMPTY)
            wanted = [] if act is None else [(act, EMPTY)]
        if len(wanted) > 1 and not one_delete:
            raise Twice
        row = t if not wanted else wanted[0][0].change(t, wanted[0][1])
        deleted += row is None
        updated += bool(wanted) and row is not None
        result += [] if row is None else [row]
    new = [(first(inserts, EMPTY, s), s) for place, s in enumerate(source) if place not in used]
    come = [act.change(EMPTY, s) for act, s in new if act is not None]
    return result + come, (updated, deleted, len(come))


def as_arrow(rows):
    return pa.table({name: pa.array([row[name] for row in rows], SCHEMA.field(name).type) for name in SCHEMA.names})


def run(table, source, statement, **more):
    on, matched, inserts, alone = statement
    merged = table.merge(as_arrow(source), on.text)
    for test, act in matched:
        text = test and test.text
        if act is DELETE:
            merged.when_matched_delete(text)
        elif act.values is None:
            merged.when_matched_update_all(text)
        else:
            merged.when_matched_update(act.values, text)
    for test, act in inserts:
        text = test and test.text
        if act.values is None:
            merged.when_not_matched_insert_all(text)
        else:
            merged.when_not_matched_insert(act.values, text)
    for test, act in alone:
        text = test and test.text
        if act is DELETE:
            merged.when_not_matched_by_source_delete(text)
        else:
            merged.when_not_matched_by_source_update(act.values, text)
    return merged.execute(**more)


def seen(rows):
    return sorted(repr([row[name] for name in SCHEMA.names]) for row in rows)


def check(table, truth):
    fresh = indextables.open(table.url)
    assert seen(fresh.to_arrow().to_pylist()) == seen(truth)
    assert fresh.count() == len(truth)


SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.slow
@settings(max_examples=25, **SETTINGS)
@given(TARGETS, st.integers(0, 3), st.booleans(), st.lists(st.tuples(SOURCES, STATEMENTS), min_size=1, max_size=3))
def test_a_merge_leaves_what_a_loop_over_rows_leaves(tmp_path_factory, parts, form, partitioned, steps):
    table = indextables.create(tmp_path_factory.mktemp("loop") / "t", SCHEMA, partition_by=["p"] if partitioned else [])
    truth: list[Row] = []
    for part in parts:
        table.append(as_arrow(part))
        truth += part
    if form & 1:
        table.delete("w = 'b'")
        truth = [row for row in truth if row["w"] != "b"]
    if form & 2:
        table.merge_splits()
    for source, statement in steps:
        before = table.version
        try:
            expected, counts = looped(truth, source, statement)
        except Twice:
            try:
                run(table, source, statement)
            except CardinalityViolation:
                assert indextables.open(table.url).version == before
                continue
            raise AssertionError("a row was changed twice") from None
        dry = run(table, source, statement, dry_run=True)
        report = run(table, source, statement)
        for told in (dry, report):
            assert (told.updated, told.deleted, told.inserted) == counts
        assert report.version == (before + 1 if any(counts) else None)
        truth = expected
        check(table, truth)


RIVALS = st.one_of(
    st.tuples(st.just("merge"), st.tuples(SOURCES, STATEMENTS)),
    st.tuples(st.just("delete"), st.sampled_from([0, 1, 2, 3])),
    st.tuples(st.just("update"), st.sampled_from([0, 1, 2, 3])),
    st.tuples(st.just("append"), st.lists(ROWS, min_size=1, max_size=3)),
    st.just(("splits", None)),
    st.just(("restore", None)),
)


@pytest.mark.slow
@settings(max_examples=20, **SETTINGS)
@given(TARGETS, st.lists(st.tuples(SOURCES, STATEMENTS, RIVALS), min_size=1, max_size=3))
def test_a_merge_beside_any_other_leaves_what_one_after_the_other_leaves(tmp_path_factory, parts, steps):
    """Under Serializable the rival came first, as the versions say."""
    table = indextables.create(
        tmp_path_factory.mktemp("rival") / "t", SCHEMA, properties={"isolationLevel": "Serializable"}
    )
    for part in parts:
        table.append(as_arrow(part))
    first_rows = truth = [row for part in parts for row in part]
    start = table.version
    for source, statement, rival in steps:

        def act(rival=rival):
            nonlocal truth
            truth = play(indextables.open(table.url), rival, truth, (start, first_rows))

        try:
            report = run(table, source, statement, progress=meanwhile(act))
        except CardinalityViolation:
            check(table, truth)
            try:
                looped(truth, source, statement)
            except Twice:
                continue
            raise AssertionError("no row would be changed twice") from None
        if report.version is not None:
            truth, _ = looped(truth, source, statement)
        check(table, truth)


def play(other, rival, truth, beginning):
    what, given = rival
    if what == "merge":
        try:
            expected, _ = looped(truth, *given)
        except Twice:
            return truth
        run(other, *given)
        return expected
    if what == "delete":
        other.delete(f"v = {given}")
        return [row for row in truth if row["v"] != given]
    if what == "update":
        other.update({"k": "0.0"}, f"v = {given}")
        return [{**row, "k": 0.0} if row["v"] == given else row for row in truth]
    if what == "append":
        other.append(as_arrow(given))
        return truth + given
    if what == "splits":
        other.merge_splits()
        return truth
    other.restore(version=beginning[0])
    return list(beginning[1])
