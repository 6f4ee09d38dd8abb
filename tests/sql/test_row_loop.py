"""DELETE, UPDATE and MERGE in SQL against a plain loop over rows: any clauses in any order, any values."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import indextables
from indextables.errors import CardinalityViolation
from tests.table.test_merge_loop import (
    ALONE_ACTS,
    DELETE,
    EMPTY,
    PAIR_ACTS,
    SCHEMA,
    SOURCES,
    STATEMENTS,
    TARGET_TESTS,
    TARGETS,
    Twice,
    as_arrow,
    looped,
    seen,
)

# Without shrinking, which takes minutes here.
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.generate]}
UPDATES = [act for act in ALONE_ACTS if act is not DELETE]


def assignments(act):
    return ", ".join(f"{name} = {value}" for name, value in act.values.items())


def clause_of(when, test, act):
    condition = f" AND {test.text}" if test else ""
    if when == "NOT MATCHED":
        values = act.values
        what = "*" if values is None else f"({', '.join(values)}) VALUES ({', '.join(map(str, values.values()))})"
        return f"WHEN NOT MATCHED{condition} THEN INSERT {what}"
    if act is DELETE:
        return f"WHEN {when}{condition} THEN DELETE"
    return f"WHEN {when}{condition} THEN UPDATE SET {'*' if act.values is None else assignments(act)}"


def merge_text(statement, order):
    """The statement with the clauses of each kind in their order, and the kinds mixed."""
    on, *kinds = statement
    names = ("MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE")
    waiting = [[clause_of(when, *one) for one in clauses] for when, clauses in zip(names, kinds, strict=True)]
    texts = [waiting[turn].pop(0) for turn in [*order, 0, 1, 2] * 3 if waiting[turn]]
    source = "(SELECT * FROM src) AS s" if len(order) % 2 else "src s"
    return f"MERGE INTO t USING {source} ON {on.text} {' '.join(texts)}"


def told(rows):
    """Rows to compare; a zero that went through a query has no sign."""
    return seen([{**row, "k": row["k"] if row["k"] is None else row["k"] + 0.0} for row in rows])


def changed(rows, test, act):
    """The rows after a DELETE, or an UPDATE, and how many it took."""
    result, count = [], 0
    for row in rows:
        if test is not None and test.holds(row, EMPTY) is not True:
            result.append(row)
            continue
        count += 1
        new = act.change(row, EMPTY)
        result += [] if new is None else [new]
    return result, count


ORDERS = st.lists(st.integers(0, 2), max_size=6)
PLAIN = st.tuples(st.sampled_from([None, *TARGET_TESTS]), st.sampled_from([DELETE, *UPDATES]))
STEPS = st.lists(st.one_of(st.tuples(SOURCES, STATEMENTS, ORDERS), PLAIN), min_size=1, max_size=4)


@pytest.mark.slow
@settings(max_examples=8, **SETTINGS)
@given(TARGETS, st.booleans(), STEPS)
def test_statements_leave_what_a_loop_over_rows_leaves(parts, partitioned, steps):
    place = f"memory://loop{uuid.uuid4().hex}"
    table = indextables.create(f"{place}/t", SCHEMA, partition_by=["p"] if partitioned else [])
    source_table = indextables.create(f"{place}/src", SCHEMA)
    session = indextables.LocalSession({"t": table.url, "src": source_table.url})
    truth = [row for part in parts for row in part]
    for part in parts:
        table.append(as_arrow(part))
    for step in steps:
        if len(step) == 2:
            test, act = step
            truth, count = changed(truth, test, act)
            where = f" WHERE {test.text}" if test else ""
            verb = "DELETE FROM t" if act is DELETE else f"UPDATE t SET {assignments(act)}"
            assert session.run(verb + where)["num_affected_rows"].to_pylist() == [count]
        else:
            source, statement, order = step
            source_table.overwrite(as_arrow(source))
            text = merge_text(statement, order)
            try:
                expected, counts = looped(truth, source, statement)
            except Twice:
                before = table.refresh().version
                with pytest.raises(CardinalityViolation):
                    session.run(text)
                assert table.refresh().version == before
                continue
            report = session.run(text)
            found = [report[f"num_{what}_rows"][0].as_py() for what in ("updated", "deleted", "inserted")]
            assert found == list(counts)
            truth = expected
        assert told(table.refresh().to_arrow().to_pylist()) == told(truth)


def test_every_action_of_the_loop_is_said_in_sql():
    texts = {clause_of("MATCHED", None, act) for act in PAIR_ACTS}
    texts |= {clause_of("NOT MATCHED BY SOURCE", None, act) for act in ALONE_ACTS}
    assert len(texts) == len(PAIR_ACTS) + len(ALONE_ACTS)
