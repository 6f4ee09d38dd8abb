"""Plans are simple by construction: the builders fold what is known away and change no row and no score."""

from __future__ import annotations

import ast
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.split.query import (
    Bool,
    Boosted,
    Everything,
    HasValue,
    LeafTarget,
    Nothing,
    Terms,
    Unscored,
    boolean,
    boosted,
    leaves,
    unscored,
)

SOURCE = Path(__file__).parent.parent.parent / "src" / "indextables"
LEAVES = [
    HasValue(LeafTarget("a", "int")),
    Terms(LeafTarget("b", "text"), ((0, "x"),)),
    Terms(LeafTarget("c", "text"), ((0, "y"),)),
]

# A tree that is not folded: a leaf, or the name of a builder with what it is given.
raw_leaves = st.sampled_from([*LEAVES, Everything(), Nothing()])
raw_trees = st.recursive(
    raw_leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("bool"), *[st.lists(inner, max_size=2)] * 3),
        st.tuples(st.just("boosted"), inner),
        st.tuples(st.just("unscored"), inner),
    ),
    max_leaves=8,
)


def built(tree):
    match tree:
        case ("bool", must, should, must_not):
            return boolean(*(tuple(map(built, side)) for side in (must, should, must_not)))
        case ("boosted", inner):
            return boosted(built(inner), 2.0)
        case ("unscored", inner):
            return unscored(built(inner))
        case _:
            return tree


def meant(tree, holds):
    """Whether a row matches and its score, read off the docstrings of the nodes."""
    match tree:
        case ("bool", must, should, must_not):
            return joined(*([meant(part, holds) for part in side] for side in (must, should, must_not)))
        case Bool(must=must, should=should, must_not=must_not):
            return joined(*([meant(part, holds) for part in side] for side in (must, should, must_not)))
        case ("boosted", inner) | Boosted(plan=inner):
            matches, score = meant(inner, holds)
            return matches, 2 * score
        case ("unscored", inner) | Unscored(plan=inner):
            return meant(inner, holds)[0], 0
        case Everything():
            return True, 0
        case Nothing():
            return False, 0
        case _:
            return holds[tree], int(holds[tree] and isinstance(tree, Terms))


def joined(must, should, must_not):
    asked = bool(must or should or must_not)
    one = bool(must) or not should or any(matches for matches, _ in should)
    matches = asked and one and all(m for m, _ in must) and not any(m for m, _ in must_not)
    return matches, sum(score for m, score in (*must, *should) if m) if matches else 0


@given(raw_trees)
def test_builders_change_no_row_and_no_score(tree):
    plan = built(tree)
    for values in product([False, True], repeat=len(LEAVES)):
        holds = dict(zip(LEAVES, values, strict=True))
        assert meant(plan, holds) == meant(tree, holds)


@given(raw_trees)
def test_no_plan_holds_a_part_that_is_known_beforehand(tree):
    plan = built(tree)
    assert isinstance(plan, Everything | Nothing) or any(True for _ in leaves(plan))
    for node in _nodes(plan):
        match node:
            case Bool(must=must, should=should, must_not=must_not):
                assert not any(isinstance(part, Nothing) for part in (*must, *should, *must_not))
                assert not any(isinstance(part, Everything) for part in (*should, *must_not))
                assert must == (Everything(),) or not any(isinstance(part, Everything) for part in must)
                assert len(must) + len(should) + len(must_not) > 1
            case Boosted(plan=inner) | Unscored(plan=inner):
                assert not isinstance(inner, Everything | Nothing)


@pytest.mark.slow
def test_only_the_builders_make_nodes():
    made = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"Bool", "Boosted", "Unscored"}
    }
    assert made == {"split/query/plan.py"}


def _nodes(plan):
    yield plan
    match plan:
        case Bool(must=must, should=should, must_not=must_not):
            for part in (*must, *should, *must_not):
                yield from _nodes(part)
        case Boosted(plan=inner) | Unscored(plan=inner):
            yield from _nodes(inner)
