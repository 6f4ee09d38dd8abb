"""What exactly is asked of the rows? The query after its words met the columns: typed, analysed, ready for any engine.

Every leaf has one meaning, stated here, whoever answers it: the index, a scan of columns, or an index made on the fly.
A *term* is a piece of text as the analyzer of the column makes it; for `string` columns it is the whole value.

Only `Terms` leaves score, by BM25 over the field; everything else is a filter and adds 0. A Boolean adds up the scores
of the clauses that match.

`boolean`, `boosted` and `unscored` are the only ways to a node above the leaves: no plan holds a part that is known to
match always or never, but `Everything` in front of what is only banned or only scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

import msgspec

from indextables.query.expr import Node as Predicate
from indextables.split.index import Analyzer

LeafKind = Literal[
    "text", "string", "int", "bool", "date", "timestamp", "ip", "float", "decimal", "binary", "timestamp_ns", "other"
]


class LeafTarget(msgspec.Struct, frozen=True):
    """Where a leaf looks: a column, or a path inside a nested one.

    `field` is the Tantivy field (None: the index does not hold this column), of which `indexed`, `fast` and `positions`
    say what it has. `multi` columns hold several values: a leaf holds if it holds for one of them.
    """

    column: str
    kind: LeafKind
    path: tuple[str, ...] = ()
    field: str | None = None
    analyzer: Analyzer | None = None
    indexed: bool = False
    fast: bool = False
    positions: bool = False
    nested: bool = False
    multi: bool = False

    @property
    def address(self) -> str:
        """The field as Tantivy takes it: the name, with the path of a JSON field behind it."""
        escaped = (part.replace("\\", "\\\\").replace(".", "\\.") for part in self.path)
        return ".".join((self.field or "", *escaped))


class Terms(msgspec.Struct, frozen=True):
    """One term, or several in their order at most `slop` moves apart. Positions start at 0. Scores."""

    target: LeafTarget
    terms: tuple[tuple[int, str], ...]
    slop: int = 0


class Near(msgspec.Struct, frozen=True):
    """Three or more terms at most `slop` moves apart: how far each is from its place in the order differs by no more.

    A filter: Tantivy counts such phrases differently depending on which term is rarer in a segment. Phrases on
    columns that are indexed without positions are of this kind too, from two terms on.
    """

    target: LeafTarget
    terms: tuple[tuple[int, str], ...]
    slop: int


class TermPrefix(msgspec.Struct, frozen=True):
    """The terms `before` in order (may be none), and right behind them one that starts with `prefix`."""

    target: LeafTarget
    prefix: str
    before: tuple[tuple[int, str], ...] = ()
    position: int = 0


class TermFuzzy(msgspec.Struct, frozen=True):
    """A term within `distance` insertions, deletions, substitutions or swaps of neighbours."""

    target: LeafTarget
    text: str
    distance: int


class TermRegex(msgspec.Struct, frozen=True):
    """A term that the pattern matches as a whole."""

    target: LeafTarget
    pattern: str


class TermRange(msgspec.Struct, frozen=True):
    """A term between two, in the order of UTF-8 bytes; None is open."""

    target: LeafTarget
    lower: str | None
    upper: str | None
    include_lower: bool = True
    include_upper: bool = True


class TermSet(msgspec.Struct, frozen=True):
    """A term that is one of these."""

    target: LeafTarget
    terms: tuple[str, ...]


class Interval(msgspec.Struct, frozen=True):
    """A value in one of the half-open intervals [low, high) of integers; None is open.

    Booleans are 0 and 1, dates days, timestamps microseconds (nanoseconds for `timestamp_ns`), addresses the numbers of
    IPv6.
    """

    target: LeafTarget
    intervals: tuple[tuple[int | None, int | None], ...]


class ValueRange(msgspec.Struct, frozen=True):
    """A float, decimal or binary value between two; None is open. -0.0 is 0.0, NaN equals itself and is above all."""

    target: LeafTarget
    lower: float | Decimal | bytes | None
    upper: float | Decimal | bytes | None
    include_lower: bool = True
    include_upper: bool = True


class HasValue(msgspec.Struct, frozen=True):
    """The column (or path) is not null; a list has an element that is not."""

    target: LeafTarget


class Where(msgspec.Struct, frozen=True):
    """Rows for which a predicate of `indextables.query` is true."""

    predicate: Predicate


class Mask(msgspec.Struct, frozen=True):
    """Rows of a set that was computed beforehand, by its number. Adds 0."""

    number: int


class Everything(msgspec.Struct, frozen=True):
    """Every row."""


class Nothing(msgspec.Struct, frozen=True):
    """No row."""


class Bool(msgspec.Struct, frozen=True):
    """All of `must`, none of `must_not`; and one of `should` at least if nothing must and there is one."""

    must: tuple[Plan, ...] = ()
    should: tuple[Plan, ...] = ()
    must_not: tuple[Plan, ...] = ()


class Boosted(msgspec.Struct, frozen=True):
    """The score times `factor`."""

    plan: Plan
    factor: float


class Unscored(msgspec.Struct, frozen=True):
    """Matches as `plan`, adds 0."""

    plan: Plan


Leaf = (
    Terms | Near | TermPrefix | TermFuzzy | TermRegex | TermRange | TermSet | Interval | ValueRange | HasValue | Where
)
Plan = Leaf | Mask | Everything | Nothing | Bool | Boosted | Unscored


def leaves(plan: Plan) -> Iterator[Leaf]:
    """Every leaf that looks at a column, left to right, repeated ones too."""
    stack: list[Plan] = [plan]
    while stack:
        node = stack.pop()
        if isinstance(node, Bool):
            stack.extend(reversed((*node.must, *node.should, *node.must_not)))
        elif isinstance(node, Boosted | Unscored):
            stack.append(node.plan)
        elif not isinstance(node, Everything | Nothing | Mask):
            yield node


def scored_leaves(plan: Plan) -> Iterator[Terms]:
    """The leaves that score: not below a negation or an `Unscored`."""
    stack: list[Plan] = [plan]
    while stack:
        node = stack.pop()
        if isinstance(node, Bool):
            stack.extend(reversed((*node.must, *node.should)))
        elif isinstance(node, Boosted):
            stack.append(node.plan)
        elif isinstance(node, Terms):
            yield node


def boosted(plan: Plan, factor: float) -> Plan:
    """The score times `factor`; what never scores is left as it is."""
    return plan if isinstance(plan, Nothing | Everything) else Boosted(plan, factor)


def unscored(plan: Plan) -> Plan:
    """Matches as `plan`, adds 0."""
    return plan if isinstance(plan, Nothing | Everything | Unscored) else Unscored(plan)


def boolean(must: tuple[Plan, ...] = (), should: tuple[Plan, ...] = (), must_not: tuple[Plan, ...] = ()) -> Plan:
    """The rows and scores of `Bool`, with constant parts folded away."""
    settled = bool(must) or any(isinstance(s, Everything) for s in should)
    is_empty = not (must or should or must_not)
    if any(isinstance(m, Nothing) for m in must) or any(isinstance(n, Everything) for n in must_not):
        return Nothing()
    must = tuple(m for m in must if not isinstance(m, Everything))
    must_not = tuple(n for n in must_not if not isinstance(n, Nothing))
    # What one `should` settles need not be asked again, but the others still score.
    asked = tuple(s for s in should if not isinstance(s, Nothing | Everything))
    if is_empty or (should and not asked and not settled):
        return Nothing()
    if not must and not asked and not must_not:
        return Everything()
    if not must and (settled or not asked):
        return Bool((Everything(),), asked, must_not)
    if len(must) == 1 and not asked and not must_not:
        return must[0]
    if not must and len(asked) == 1 and not must_not:
        return asked[0]
    return Bool(must, asked, must_not)
