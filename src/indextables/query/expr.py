"""The predicate tree: frozen, typed nodes that parsing builds and that evaluation and pruning read.

Every node knows its Arrow type. The types of both sides of a comparison are equal: parsing has put a `Cast` where SQL
casts silently, so that nothing below has coercion rules of its own. Booleans follow SQL's three-valued logic, and
null is its "unknown".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal as OneOf

import msgspec
import pyarrow as pa

__all__ = [
    "And",
    "Call",
    "Cast",
    "Column",
    "CompareOp",
    "Comparison",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Node",
    "Not",
    "Or",
    "TextMatch",
    "columns_of",
    "conjuncts",
    "walk",
]

CompareOp = OneOf["=", "<>", "<", "<=", ">", ">=", "<=>"]


class Node(msgspec.Struct, frozen=True):
    """Base of all nodes."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values this node gives."""
        return pa.bool_()

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes below, in order."""
        return ()


class Column(Node, frozen=True):
    """A column in the table's own spelling; `path` leads to a field inside a struct."""

    name: str
    data_type: pa.DataType
    path: tuple[str, ...] = ()

    @property
    def type(self) -> pa.DataType:
        return self.data_type


class Literal(Node, frozen=True):
    """A typed constant; its scalar may be null."""

    value: pa.Scalar

    @property
    def type(self) -> pa.DataType:
        return self.value.type


class Cast(Node, frozen=True):
    """`child` as another type. A value that does not convert is an error, or null where `strict` is false.

    `zone` is the time zone in which texts and dates become instants and the other way round.
    """

    child: Node
    data_type: pa.DataType
    strict: bool = True
    zone: str = "UTC"

    @property
    def type(self) -> pa.DataType:
        return self.data_type

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


class Comparison(Node, frozen=True):
    """Two values of one type compared; `<=>` is never unknown."""

    op: CompareOp
    left: Node
    right: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


class In(Node, frozen=True):
    """`child` is one of `values`, which are distinct, not null and of its type; `has_null` if the list held a null."""

    child: Node
    values: tuple[pa.Scalar, ...]
    has_null: bool = False

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


class IsNull(Node, frozen=True):
    """`child` is null; never unknown."""

    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


class Like(Node, frozen=True):
    """`child` matches a constant pattern: `like`, `ilike` with `%`, `_` and `escape`, `rlike` a regular expression."""

    child: Node
    pattern: str
    kind: OneOf["like", "ilike", "rlike"] = "like"
    escape: str = "\\"

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


class TextMatch(Node, frozen=True):
    """`child` starts with, ends with or contains a constant text."""

    child: Node
    text: str
    kind: OneOf["startswith", "endswith", "contains"]

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


class And(Node, frozen=True):
    """All of them; true for none."""

    terms: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return self.terms


class Or(Node, frozen=True):
    """Any of them; false for none."""

    terms: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return self.terms


class Not(Node, frozen=True):
    """The opposite; unknown stays unknown."""

    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


class Call(Node, frozen=True):
    """A function or an operator of `indextables.query.functions`, applied to arguments of the right types."""

    name: str
    args: tuple[Node, ...]
    data_type: pa.DataType
    zone: str = "UTC"

    @property
    def type(self) -> pa.DataType:
        return self.data_type

    @property
    def children(self) -> tuple[Node, ...]:
        return self.args


def walk(expr: Node) -> Iterator[Node]:
    """`expr` and every node below it, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def columns_of(expr: Node) -> tuple[str, ...]:
    """The top-level columns that `expr` reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(node.name for node in walk(expr) if isinstance(node, Column)))


def conjuncts(expr: Node) -> tuple[Node, ...]:
    """The terms that must all hold for `expr` to hold."""
    if isinstance(expr, And):
        return tuple(part for term in expr.terms for part in conjuncts(term))
    return (expr,)
