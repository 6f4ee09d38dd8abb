"""Which column, which type, which terms? From the tree of a query to a plan, or to an error at a position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NoReturn, TypeVar

import msgspec
import pyarrow as pa

from indextables.errors import LimitExceeded, QueryInvalid
from indextables.split.index import MAX_RAW_BYTES, Analyzer, IndexPlan, analyzer
from indextables.split.query import ast, boolean, boosted, values
from indextables.split.query.language import MAX_CLAUSES, parse
from indextables.split.query.plan import (
    Everything,
    HasValue,
    Interval,
    LeafTarget,
    Near,
    Nothing,
    Plan,
    TermFuzzy,
    TermPrefix,
    TermRange,
    TermRegex,
    Terms,
    TermSet,
    ValueRange,
)
from indextables.split.query.regex import checked_regex, wildcard_regex
from indextables.split.query.scanner import invalid
from indextables.split.query.target import resolve_target

T = TypeVar("T")

_PLAIN = analyzer("default")


class Catalog(msgspec.Struct, frozen=True):
    """What a query may name: the columns of `schema`, as the index plan of the table has them.

    `default_fields` serve words without a field (None: all `text` columns), `time_zone` times without a zone.
    """

    schema: pa.Schema
    index: IndexPlan
    default_fields: tuple[str, ...] | None = None
    default_operator: ast.Operator = "or"
    time_zone: str = "UTC"


def plan_query(query: str, catalog: Catalog) -> Plan:
    """The plan of a query text. Raises QueryInvalid with the position, or LimitExceeded."""
    return _Resolver(query, catalog).node(parse(query, catalog.default_operator))


class _Resolver:
    def __init__(self, query: str, catalog: Catalog) -> None:
        self.query = query
        self.catalog = catalog
        self.planned = 0

    def fail(self, at: int, message: str) -> NoReturn:
        raise invalid(self.query, at, message)

    def node(self, node: ast.Node) -> Plan:
        if isinstance(node, ast.Boolean):
            return self.boolean(node)
        if isinstance(node, ast.Boost):
            return boosted(self.node(node.node), node.factor)
        if isinstance(node, ast.Everything):
            return Everything()
        targets = self.targets(node.field, node.at)
        self.planned += len(targets)
        if self.planned > MAX_CLAUSES:
            message = (
                f"the query has more than {MAX_CLAUSES} clauses over its {len(targets)} default fields: name a field"
            )
            raise LimitExceeded(message, limit=MAX_CLAUSES, actual=self.planned, position=node.at)
        plans = tuple(self.leaf(node, target) for target in targets)
        return plans[0] if len(plans) == 1 else boolean(should=plans)

    def boolean(self, node: ast.Boolean) -> Plan:
        if not node.clauses:
            return Nothing()
        sides: dict[str, list[Plan]] = {"must": [], "should": [], "must_not": []}
        for clause in node.clauses:
            sides[clause.occur].append(self.node(clause.node))
        return boolean(tuple(sides["must"]), tuple(sides["should"]), tuple(sides["must_not"]))

    def targets(self, field: ast.Field | None, at: int) -> Sequence[LeafTarget]:
        schema, index = self.catalog.schema, self.catalog.index
        if field is not None:
            try:
                return (resolve_target(schema, index, field.parts),)
            except LookupError as error:
                self.fail(field.at, str(error.args[0]))
        names = self.catalog.default_fields
        if names is None:
            names = tuple(f.column for f in index.fields if f.kind == "text" and f.column is not None)
        if not names:
            self.fail(at, "the table has no text column to search by default: write field:value")
        try:
            return [resolve_target(schema, index, tuple(name.split("."))) for name in names]
        except LookupError as error:
            raise QueryInvalid(f"default field: {error.args[0]}", query=self.query[:1000], position=at) from error

    def leaf(self, node: ast.Leaf, target: LeafTarget) -> Plan:
        if isinstance(node, ast.Exists):
            return HasValue(target)
        if target.kind == "other":
            what = "a path below it" if target.nested and not target.path else "another column"
            self.fail(
                node.at if node.field is None else node.field.at, f"{target.column} cannot be searched: name {what}"
            )
        if target.kind in ("text", "string"):
            return _TextLeaf(self, target).plan(node)
        if isinstance(node, ast.Prefix | ast.Wildcard | ast.Fuzzy | ast.Regex):
            self.fail(
                node.at, f"{target.column} holds {_NOUNS[target.kind]}: prefix, wildcards, fuzzy and regex need text"
            )
        if target.kind in ("float", "decimal", "binary"):
            return self.value_leaf(node, target)
        return self.interval_leaf(node, target)

    def interval_leaf(self, node: ast.Leaf, target: LeafTarget) -> Plan:
        def read(text: str, at: int) -> tuple[int, int]:
            return self.read(_interval_reader(target, self.catalog), text, at, target)

        if isinstance(node, ast.Word):
            return Interval(target, (read(node.text, node.at),))
        if isinstance(node, ast.OneOf):
            return Interval(target, tuple(read(t, at) for t, at in node.values)) if node.values else Nothing()
        if isinstance(node, ast.Range):
            low = high = None
            if node.lower is not None:
                low = read(node.lower.text, node.lower.at)[0 if node.lower.inclusive else 1]
            if node.upper is not None:
                high = read(node.upper.text, node.upper.at)[1 if node.upper.inclusive else 0]
            if low is None and high is None:
                return HasValue(target)
            return Interval(target, ((low, high),))
        raise AssertionError(node)

    def value_leaf(self, node: ast.Leaf, target: LeafTarget) -> Plan:
        readers: dict[str, Callable[[str], float | Decimal | bytes]] = {
            "float": values.read_float,
            "decimal": values.read_decimal,
            "binary": values.read_bytes,
        }

        def read(text: str, at: int) -> float | Decimal | bytes:
            return self.read(readers[target.kind], text, at, target)

        if isinstance(node, ast.Word):
            value = read(node.text, node.at)
            return ValueRange(target, value, value)
        if isinstance(node, ast.OneOf):
            found = [read(text, at) for text, at in node.values]
            return boolean(should=tuple(ValueRange(target, v, v) for v in found)) if found else Nothing()
        if isinstance(node, ast.Range):
            if node.lower is None and node.upper is None:
                return HasValue(target)
            return ValueRange(
                target,
                None if node.lower is None else read(node.lower.text, node.lower.at),
                None if node.upper is None else read(node.upper.text, node.upper.at),
                node.lower is None or node.lower.inclusive,
                node.upper is None or node.upper.inclusive,
            )
        raise AssertionError(node)

    def read(self, reader: Callable[[str], T], text: str, at: int, target: LeafTarget) -> T:
        try:
            return reader(text)
        except ValueError as error:
            self.fail(at, f"{text[:80]!r} is not {error}, which {target.column} holds")


class _TextLeaf:
    """Leaves on `text` and `string` columns and on texts inside nested ones."""

    def __init__(self, resolver: _Resolver, target: LeafTarget) -> None:
        self.resolver = resolver
        self.target = target
        self.raw = target.analyzer is None or target.analyzer.single_term
        self.analyzer: Analyzer = target.analyzer or analyzer("raw")

    def plan(self, node: ast.Leaf) -> Plan:
        if isinstance(node, ast.Word):
            return self.words(node.text, node.slop, node.at)
        if isinstance(node, ast.Prefix):
            return self.prefix(node)
        if isinstance(node, ast.Wildcard):
            return self.wildcard(node)
        if isinstance(node, ast.Fuzzy):
            return TermFuzzy(self.target, self.one_term(node.text, node.at), node.distance)
        if isinstance(node, ast.Regex):
            return self.regex(node)
        if isinstance(node, ast.Range):
            return self.range(node)
        if isinstance(node, ast.OneOf):
            return self.one_of(node)
        raise AssertionError(node)

    def words(self, text: str, slop: int, at: int) -> Plan:
        terms = self.terms(text, at)
        if not terms:
            return Nothing()
        if len(terms) == 1:
            return Terms(self.target, terms)
        if not self.analyzer.keeps_positions:
            return boolean(must=tuple(Terms(self.target, ((0, term),)) for term in dict.fromkeys(t for _, t in terms)))
        if not self.target.positions or (slop and len(terms) > 2):
            words = tuple(Terms(self.target, ((0, term),)) for term in dict.fromkeys(t for _, t in terms))
            return boolean(must=(*words, Near(self.target, terms, slop)))
        return Terms(self.target, terms, slop)

    def terms(self, text: str, at: int) -> tuple[tuple[int, str], ...]:
        tokens = self.analyzer.tokens(text)
        if len(tokens) > MAX_CLAUSES:
            message = f"the phrase at position {at} has more than {MAX_CLAUSES} words"
            raise LimitExceeded(message, limit=MAX_CLAUSES, actual=len(tokens), position=at)
        if any(len(t.text.encode()) > MAX_RAW_BYTES for t in tokens) and not self.raw:
            message = f"a word at position {at} is longer than {MAX_RAW_BYTES} bytes"
            raise LimitExceeded(message, limit=MAX_RAW_BYTES, position=at)
        first = tokens[0].position if tokens else 0
        return tuple((t.position - first, t.text) for t in tokens)

    def unstemmed(self, text: str) -> list[tuple[int, str]]:
        """The terms of a text that is not whole: stemming the beginning of a word would change it."""
        used = _PLAIN if self.analyzer.name.endswith("_stem") else self.analyzer
        tokens = used.tokens(text)
        return [(t.position - tokens[0].position, t.text) for t in tokens]

    def one_term(self, text: str, at: int) -> str:
        found = self.unstemmed(text)
        if len(found) != 1 or not self.analyzer.keeps_positions:
            column = self.target.column
            self.resolver.fail(at, f"{text[:80]!r} is {len(found)} words for {column}, where one is needed")
        return found[0][1]

    def prefix(self, node: ast.Prefix) -> Plan:
        if not self.analyzer.keeps_positions:
            self.resolver.fail(node.at, f"{self.target.column} holds n-grams, which match parts by themselves: omit *")
        found = self.unstemmed(node.text)
        if not found:
            return Nothing()
        position, last = found[-1]
        return TermPrefix(self.target, last, tuple(found[:-1]), position)

    def wildcard(self, node: ast.Wildcard) -> Plan:
        if self.target.nested or not self.analyzer.keeps_positions:
            self.resolver.fail(
                node.at, f"{self.target.column} cannot be searched with wildcards: use whole words or a prefix"
            )
        pieces = [piece.text if piece.is_wild or self.raw else self.part(piece.text, node.at) for piece in node.pieces]
        try:
            wild = [(text, piece.is_wild) for text, piece in zip(pieces, node.pieces, strict=True)]
            return TermRegex(self.target, wildcard_regex(wild))
        except ValueError as error:
            self.resolver.fail(node.at, f"these wildcards cannot be used: {error}")

    def part(self, text: str, at: int) -> str:
        """A part of a word as the index has it."""
        found = self.unstemmed(text)
        if len(found) != 1 or len(found[0][1]) != len(text):
            self.resolver.fail(at, f"{text[:80]!r} is not part of one word for {self.target.column}: quote what is not")
        return found[0][1]

    def regex(self, node: ast.Regex) -> Plan:
        if self.target.nested:
            self.resolver.fail(
                node.at, "a regular expression cannot search inside nested columns: use words or a prefix"
            )
        try:
            return TermRegex(self.target, checked_regex(node.pattern))
        except ValueError as error:
            self.resolver.fail(node.at, f"this regular expression cannot be used: {error}")

    def range(self, node: ast.Range) -> Plan:
        if node.lower is None and node.upper is None:
            return HasValue(self.target)

        def bound(end: ast.Bound | None) -> str | None:
            return None if end is None else end.text if self.raw else self.one_term(end.text, end.at)

        return TermRange(
            self.target,
            bound(node.lower),
            bound(node.upper),
            node.lower is None or node.lower.inclusive,
            node.upper is None or node.upper.inclusive,
        )

    def one_of(self, node: ast.OneOf) -> Plan:
        found = [self.terms(text, at) for text, at in node.values]
        single = tuple(dict.fromkeys(terms[0][1] for terms in found if len(terms) == 1))
        plans: list[Plan] = [TermSet(self.target, single)] if single else []
        plans.extend(self.words(text, 0, at) for (text, at), t in zip(node.values, found, strict=True) if len(t) > 1)
        return boolean(should=tuple(plans)) if plans else Nothing()


_NOUNS = {
    "int": "numbers",
    "bool": "true and false",
    "date": "dates",
    "timestamp": "times",
    "timestamp_ns": "times",
    "ip": "addresses",
    "float": "numbers",
    "decimal": "numbers",
    "binary": "bytes",
}


def _interval_reader(target: LeafTarget, catalog: Catalog) -> Callable[[str], tuple[int, int]]:
    def instant(text: str) -> tuple[int, int]:
        column = catalog.schema.field(target.column).type
        zoneless = pa.types.is_timestamp(column) and column.tz is None
        return values.read_instant(text, None if zoneless else catalog.time_zone)

    def nanos(text: str) -> tuple[int, int]:
        low, high = instant(text)
        return low * 1000, high * 1000

    def boolean(text: str) -> tuple[int, int]:
        number = int(values.read_bool(text))
        return number, number + 1

    readers: dict[str, Callable[[str], tuple[int, int]]] = {
        "int": values.read_int,
        "bool": boolean,
        "date": values.read_days,
        "timestamp": instant,
        "timestamp_ns": nanos,
        "ip": values.read_addresses,
    }
    return readers[target.kind]
