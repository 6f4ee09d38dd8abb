"""The reference: what a table holds at each version, as rows in plain Python. It knows nothing of the library."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Row = Mapping[str, Any]

WORDS = ("alpha", "beta", "gamma", "delta")
PLACES = ("a", "b", "", None, "c d/%2F=ü")
"""Values of the partition column."""


@dataclass(frozen=True)
class Shape:
    """Columns with the names of their types, and the partition columns."""

    columns: tuple[tuple[str, str], ...]
    partition_by: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    def type_of(self, name: str) -> str | None:
        return dict(self.columns).get(name)

    def having(self, name: str, kind: str) -> Shape:
        """The same with one column more, or with another type of it."""
        if name in self.names:
            return replace(self, columns=tuple((n, kind if n == name else k) for n, k in self.columns))
        return replace(self, columns=(*self.columns, (name, kind)))


@dataclass(frozen=True)
class Version:
    """One version: `operations` are those that its commit may tell.

    `schema` is the version that brought the schema: two of the same shape are not the same schema.
    """

    rows: tuple[Row, ...]
    shape: Shape
    operations: frozenset[str]
    txns: Mapping[str, int] = field(default_factory=dict)
    schema: int = 0


@dataclass(frozen=True)
class Where:
    """A predicate as text, the columns it reads, and what it means in Python: true or not."""

    text: str
    columns: frozenset[str]
    is_true: Callable[[Row], bool]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How an example that fails is printed."""
        printer.text(f"<{self.text}>")

    def fits(self, shape: Shape) -> bool:
        return self.columns <= set(shape.names)


def _where(text: str, columns: str, is_true: Callable[[Row], Any]) -> Where:
    return Where(text, frozenset(columns.split()), lambda row: bool(is_true(row)))


def _known(row: Row, name: str, test: Callable[[Any], bool]) -> bool:
    return row[name] is not None and test(row[name])


WHERES = (
    _where("p = 'a'", "p", lambda r: r["p"] == "a"),
    _where("p = ''", "p", lambda r: r["p"] == ""),
    _where("p IS NULL", "p", lambda r: r["p"] is None),
    _where("p <> 'a'", "p", lambda r: _known(r, "p", lambda p: p != "a")),
    _where("p IN ('b', 'c d/%2F=ü')", "p", lambda r: r["p"] in ("b", PLACES[-1])),
    _where("p = 'nowhere'", "p", lambda _: False),
    _where("n > 2", "n", lambda r: _known(r, "n", lambda n: n > 2)),
    _where("NOT (n > 2)", "n", lambda r: _known(r, "n", lambda n: not n > 2)),
    _where("n IS NULL OR n < 0", "n", lambda r: r["n"] is None or r["n"] < 0),
    _where("id % 2 = 0", "id", lambda r: r["id"] % 2 == 0),
    _where("id BETWEEN 3 AND 9", "id", lambda r: 3 <= r["id"] <= 9),
    _where("id >= 12", "id", lambda r: r["id"] >= 12),
    _where("p = 'a' AND n > 2", "p n", lambda r: r["p"] == "a" and _known(r, "n", lambda n: n > 2)),
    _where("p = 'b' OR id < 4", "p id", lambda r: r["p"] == "b" or r["id"] < 4),
    _where("message LIKE 'alpha%'", "message", lambda r: r["message"].startswith("alpha")),
    _where("extra = 'x'", "extra", lambda r: r["extra"] == "x"),
    _where("extra IS NULL", "extra", lambda r: r["extra"] is None),
    _where("size > 0.5", "size", lambda r: _known(r, "size", lambda s: s > 0.5)),
)
BY_PLACE = tuple(where for where in WHERES if where.columns == {"p"})


def has_word(row: Row, word: str) -> bool:
    return word in row["message"].split()


def as_seen(rows: Iterable[Row], names: Iterable[str]) -> Counter[tuple[Any, ...]]:
    """Rows as a multiset of their values in these columns; a column that a row lacks holds null."""
    wanted = tuple(names)
    return Counter(tuple(row.get(name) for name in wanted) for row in rows)


class Book:
    """All versions of one table, and which of them retention may have taken.

    Versions from `kept_from` on must be readable; those below `gone_below` must not be; of those between the two nobody
    has looked. What is readable is always the newest so many.
    """

    def __init__(self, shape: Shape) -> None:
        self.versions = [Version((), shape, frozenset({"CREATE TABLE"}))]
        self.kept_from = 0
        self.gone_below = 0
        self.cut_short = False
        """True once a cleanup may have taken something: the history need not reach back to version 0."""

    @property
    def newest(self) -> int:
        return len(self.versions) - 1

    @property
    def now(self) -> Version:
        return self.versions[-1]

    def commit(
        self,
        operation: str,
        *,
        rows: Iterable[Row] | None = None,
        shape: Shape | None = None,
        txn: tuple[str, int] | None = None,
        schema: int | None = None,
    ) -> None:
        """One more version: of these rows, or of the same as before."""
        now = self.now
        shape = shape or now.shape
        if schema is None:
            schema = now.schema if shape == now.shape else len(self.versions)
        txns = now.txns if txn is None else {**now.txns, txn[0]: txn[1]}
        held = now.rows if rows is None else tuple({name: row.get(name) for name in shape.names} for row in rows)
        if rows is None and shape != now.shape:
            held = tuple({name: row.get(name) for name in shape.names} for row in held)
        self.versions.append(Version(held, shape, frozenset({operation}), txns, schema))

    def changed_shape_since(self, version: int) -> bool:
        """True if some version above this one has another schema or partitioning."""
        return any(later.schema != self.versions[version].schema for later in self.versions[version + 1 :])

    def changed_properties_since(self, version: int) -> bool:
        """True if some version above this one was made by a verb that changes properties of the table."""
        return any("MIRROR" in later.operations for later in self.versions[version + 1 :])

    def changed_rows_since(self, version: int, inside: Callable[[Row], bool]) -> bool:
        """True if some commit above this version added or took rows in a range."""
        states = [sorted(row["id"] for row in v.rows if inside(row)) for v in self.versions[version:]]
        return any(before != after for before, after in itertools.pairwise(states))

    def may_go_below(self, version: int) -> None:
        """Something was free to delete what only versions below this one need."""
        self.kept_from = max(self.kept_from, version)
        self.cut_short = True

    def is_gone(self, version: int) -> None:
        """Somebody was told that this version is gone. Fails if it had to be there."""
        assert version < self.kept_from, f"version {version} must be readable, from {self.kept_from} on nothing may go"
        self.gone_below = max(self.gone_below, version + 1)

    def is_there(self, version: int) -> None:
        """Somebody read this version from the store."""
        assert version >= self.gone_below, f"version {version} was gone and is there again"
