"""Finds out what the words of a predicate mean for a schema: sqlglot's tree becomes ours, typed, all casts explicit."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pyarrow as pa
from sqlglot import exp

from indextables.errors import QueryInvalid
from indextables.query.coerce import INSTANT, common_type, nested_type
from indextables.query.convert import cast_or_null
from indextables.query.dialect import not_offered
from indextables.query.evaluate import like_to_regex
from indextables.query.expr import (
    And,
    Call,
    Cast,
    Column,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    TextMatch,
)
from indextables.query.functions import FUNCTIONS, is_number, is_text
from indextables.query.java_match import java_pattern
from indextables.query.scope import SEARCH, Scope, searched
from indextables.query.type_names import scalar_type, type_name

__all__ = ["Binder"]

_COMPARE: dict[type, CompareOp] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div"}
_FUNCTIONS: dict[type, str] = {
    exp.Abs: "abs",
    exp.Ceil: "ceil",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Floor: "floor",
    exp.Hour: "hour",
    exp.IsNan: "isnan",
    exp.Length: "length",
    exp.Lower: "lower",
    exp.Minute: "minute",
    exp.Month: "month",
    exp.Quarter: "quarter",
    exp.Reverse: "reverse",
    exp.Second: "second",
    exp.Upper: "upper",
    exp.Year: "year",
}
# What else of a node is looked at; the parser knows more forms, and what is not looked at would be left out in silence.
_MORE_PARTS: dict[type, frozenset[str]] = {
    **dict.fromkeys((exp.Cast, exp.TryCast), frozenset({"to", "safe"})),
    **dict.fromkeys((exp.Concat, exp.DPipe, exp.Div), frozenset({"safe"})),
    **dict.fromkeys((exp.Like, exp.ILike), frozenset({"negate"})),
    exp.Between: frozenset({"low", "high"}),
    exp.Case: frozenset({"ifs", "default"}),
    exp.Column: frozenset({"table", "db", "catalog"}),
    exp.If: frozenset({"true", "false"}),
    exp.In: frozenset({"query", "unnest", "field"}),
    exp.Literal: frozenset({"is_string"}),
    exp.Substring: frozenset({"start", "length"}),
    exp.Trim: frozenset({"position"}),
    exp.TsOrDsToDate: frozenset({"format", "safe"}),
}
_UNITS = {"DAY": "days", "HOUR": "hours", "MINUTE": "minutes", "SECOND": "seconds", "WEEK": "weeks"}


class Binder:
    """Turns one parsed text into nodes. Every refusal is a QueryInvalid that carries the text and a position."""

    def __init__(self, text: str, scope: Scope, zone: str) -> None:
        self._query = text
        self._scope = scope
        self._zone = zone

    def value(self, tree: Any) -> Node:
        """The whole text as a value, to be written: a number in it that no double holds does not become infinite."""
        node = self.bind(tree)
        for literal in tree.find_all(exp.Literal):
            if not literal.is_string and "e" in literal.this.lower() and math.isinf(float(literal.this)):
                raise self._fault(literal, "is larger than every double")
        return node

    def predicate(self, tree: Any) -> Node:
        """The whole text as a condition."""
        node = self.bind(tree)
        if pa.types.is_null(node.type):
            return Literal(pa.scalar(None, pa.bool_()))
        if not pa.types.is_boolean(node.type):
            raise self._fault(tree, f"gives {node.type}; a predicate must be true or false")
        return node

    def bind(self, tree: Any) -> Node:
        """Any expression."""
        kind = type(tree)
        if kind not in self._HANDLERS and kind not in _COMPARE and kind not in _ARITHMETIC and kind not in _FUNCTIONS:
            raise self._fault(tree, not_offered(tree))
        known = {"this", "expression", "expressions"} | _MORE_PARTS.get(kind, frozenset())
        if odd := [name for name, part in getattr(tree, "args", {}).items() if name not in known and part]:
            raise self._fault(tree, f"is not offered in this form ({', '.join(odd)})")
        if kind in _COMPARE:
            return self._comparison(tree, _COMPARE[kind], tree.this, tree.expression)
        if kind in _ARITHMETIC:
            return self._arithmetic(tree, _ARITHMETIC[kind])
        if kind in _FUNCTIONS:
            return self._call(tree, _FUNCTIONS[kind], [self.bind(tree.this)])
        return self._HANDLERS[kind](self, tree)

    # Conditions

    def _junction(self, tree: Any) -> Node:
        """Long chains lean to the left, so they are unrolled rather than recursed into."""
        kind = type(tree)
        terms = []
        while type(tree) is kind:
            terms.append(tree.expression)
            tree = tree.this
        terms.append(tree)
        bound = tuple(self.predicate(term) for term in reversed(terms))
        return And(bound) if kind is exp.And else Or(bound)

    def _not(self, tree: Any) -> Node:
        return Not(self.predicate(tree.this))

    def _between(self, tree: Any) -> Node:
        low = self._comparison(tree, ">=", tree.this, tree.args["low"])
        high = self._comparison(tree, "<=", tree.this, tree.args["high"])
        return And((low, high))

    def _comparison(self, tree: Any, op: CompareOp, left: Any, right: Any) -> Node:
        bound = self._met(tree, [self.bind(left), self.bind(right)])
        return Comparison(op, bound[0], bound[1])

    def _in(self, tree: Any) -> Node:
        if tree.args.get("query") is not None or tree.args.get("unnest") is not None or tree.args.get("field"):
            raise self._fault(tree, "has a subquery; give the values as a list")
        items = [self.bind(item) for item in tree.expressions]
        if not items:
            raise self._fault(tree, "has an empty list")
        child = self.bind(tree.this)
        data_type: pa.DataType | None = child.type
        for item in items:
            data_type = None if data_type is None else common_type(data_type, item.type)
        if data_type is None:
            raise self._fault(tree, f"compares {child.type} with values of other types")
        constants = [self._cast(tree, item, data_type) for item in items]
        if not all(isinstance(item, Literal) for item in constants):
            equals = (Comparison("=", self._cast(tree, child, data_type), item) for item in constants)
            return Or(tuple(equals))
        values = [item.value for item in constants if isinstance(item, Literal)]
        present = {repr(value): value for value in values if value.is_valid}
        has_null = any(not value.is_valid for value in values)
        return In(self._cast(tree, child, data_type), tuple(present.values()), has_null)

    def _is(self, tree: Any) -> Node:
        if isinstance(tree.expression, exp.Null):
            return IsNull(self.bind(tree.this))
        if isinstance(tree.expression, exp.Boolean):
            return Comparison("<=>", self.predicate(tree.this), Literal(pa.scalar(bool(tree.expression.this))))
        raise self._fault(tree, "is not offered in a predicate")

    def _like(self, tree: Any, escape: str = "\\") -> Node:
        kind = {exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike"}[type(tree)]
        child, pattern = self._text(tree.this), self._constant_text(tree.expression)
        if pattern is None:
            return Literal(pa.scalar(None, pa.bool_()))
        try:
            _ = java_pattern(pattern) if kind == "rlike" else like_to_regex(pattern, escape)
        except ValueError as cause:
            raise self._fault(tree, f"has a pattern that cannot be used: {cause}") from cause
        found = Like(child, pattern, kind, escape)  # type: ignore[arg-type]
        return Not(found) if tree.args.get("negate") else found

    def _escape(self, tree: Any) -> Node:
        escape = self._constant_text(tree.expression)
        if escape is None or len(escape) != 1 or not isinstance(tree.this, exp.Like | exp.ILike):
            raise self._fault(tree, "needs one escape character")
        return self._like(tree.this, escape)

    def _text_match(self, tree: Any) -> Node:
        kind = {exp.StartsWith: "startswith", exp.EndsWith: "endswith", exp.Contains: "contains"}[type(tree)]
        child, text = self._text(tree.this), self._constant_text(tree.expression)
        return Literal(pa.scalar(None, pa.bool_())) if text is None else TextMatch(child, text, kind)  # type: ignore[arg-type]

    # Values

    def _column(self, tree: Any) -> Node:
        parts = [part.name for part in tree.parts]
        try:
            index, taken = self._scope.find(parts)
        except LookupError as unknown:
            raise self._fault(tree, str(unknown)) from None
        field = self._scope.schema.field(index)
        name, data_type = field.name, field.type
        path = []
        for part in parts[taken:]:
            fields = data_type.fields if pa.types.is_struct(data_type) else []
            inner = [found for found in fields if found.name.lower() == part.lower()]
            if len(inner) != 1:
                raise self._fault(tree, f"has no field {part!r}; {name!r} is {field.type}")
            path.append(inner[0].name)
            data_type = inner[0].type
        column = Column(name, data_type, tuple(path))
        return Cast(column, data_type.value_type) if pa.types.is_dictionary(data_type) else column

    def _dot(self, tree: Any) -> Node:
        parts = []
        while isinstance(tree, exp.Dot):
            parts.append(tree.expression)
            tree = tree.this
        if not isinstance(tree, exp.Column):
            raise self._fault(tree, "is no column")
        return self._column(_FlatColumn([*tree.parts, *reversed(parts)]))

    def _literal(self, tree: Any) -> Node:
        if tree.is_string:
            return Literal(pa.scalar(tree.this))
        return Literal(self._number(tree, tree.this))

    def _number(self, tree: Any, digits: str) -> pa.Scalar:
        try:
            if "e" in digits.lower():
                return pa.scalar(float(digits))
            value = decimal.Decimal(digits)
        except (ValueError, decimal.InvalidOperation) as cause:
            raise self._fault(tree, "is no number") from cause
        if value == value.to_integral_value() and "." not in digits:
            whole = int(value)
            for data_type, bits in ((pa.int32(), 31), (pa.int64(), 63)):
                if -(2**bits) <= whole < 2**bits:
                    return pa.scalar(whole, data_type)
        scale = max(0, -int(value.as_tuple().exponent))
        precision = max(len(value.as_tuple().digits), scale, 1)
        if precision > 38:
            raise self._fault(tree, "has more than 38 digits")
        return pa.scalar(value, pa.decimal128(precision, scale))

    def _negative(self, tree: Any) -> Node:
        if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
            return Literal(self._number(tree, "-" + tree.this.this))
        return self._call(tree, "negative", [self.bind(tree.this)])

    def _concat(self, tree: Any) -> Node:
        items = tree.expressions if isinstance(tree, exp.Concat) else [tree.this, tree.expression]
        texts = [self._cast(tree, self.bind(item), pa.large_string()) for item in items]
        return self._call(tree, "concat", texts)

    def _cast_node(self, tree: Any) -> Node:
        target = self._target_type(tree)
        child = self.bind(tree.this)
        if not _is_castable(child.type, target):
            raise self._fault(tree, f"casts {child.type} to {target}, which SQL does not")
        return self._cast(tree, child, target, strict=tree.args.get("safe") is not True)

    def _target_type(self, tree: Any) -> pa.DataType:
        to = tree.args["to"]
        found = scalar_type(to)
        if found is None and type_name(to) == "DECIMAL":
            raise self._fault(tree, "has a decimal type that does not exist")
        if found is None:
            raise self._fault(tree, f"casts to {to.sql()}, which is not offered")
        return found

    def _to_date(self, tree: Any) -> Node:
        if tree.args.get("format") is not None:
            raise self._fault(tree, "takes no format here; give ISO dates")
        return self._cast(tree, self.bind(tree.this), pa.date32())

    def _coalesce(self, tree: Any) -> Node:
        values = [self.bind(tree.this), *map(self.bind, tree.expressions)]
        return self._call(tree, "coalesce", self._one_of(tree, values))

    def _nullif(self, tree: Any) -> Node:
        left, right = self._met(tree, [self.bind(tree.this), self.bind(tree.expression)])
        nothing = Literal(pa.scalar(None, left.type))
        return self._call(tree, "case", [Comparison("=", left, right), nothing, left])

    def _if(self, tree: Any) -> Node:
        return self._choose(tree, [(tree.this, tree.args["true"])], tree.args.get("false"))

    def _case(self, tree: Any) -> Node:
        cases = [(part.this, part.args["true"]) for part in tree.args["ifs"]]
        if tree.this is not None:
            cases = [(exp.EQ(this=tree.this, expression=when), then) for when, then in cases]
        return self._choose(tree, cases, tree.args.get("default"))

    def _choose(self, tree: Any, cases: list[tuple[Any, Any]], default: Any) -> Node:
        otherwise = Literal(pa.scalar(None)) if default is None else self.bind(default)
        values = self._one_of(tree, [*(self.bind(then) for _, then in cases), otherwise])
        args: list[Node] = []
        for (condition, _), value in zip(cases, values[:-1], strict=True):
            args += [self.predicate(condition), value]
        return self._call(tree, "case", [*args, values[-1]])

    def _substring(self, tree: Any) -> Node:
        args = [tree.this, tree.args.get("start"), tree.args.get("length")]
        bound = [self.bind(arg) for arg in args if arg is not None]
        if not all(isinstance(arg, Literal) for arg in bound[1:]):
            raise self._fault(tree, "takes constant positions only")
        return self._call(tree, "substring", bound)

    def _trim(self, tree: Any) -> Node:
        if tree.expression is not None and not isinstance(tree.expression, str):
            raise self._fault(tree, "trims spaces only")
        side = str(tree.args.get("position") or "").upper()
        return self._call(tree, {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), [self.bind(tree.this)])

    def _arithmetic(self, tree: Any, name: str) -> Node:
        if isinstance(tree.expression, exp.Interval):
            return self._shift(tree, name)
        left, right = self.bind(tree.this), self.bind(tree.expression)
        if name in "+-" and pa.types.is_date(left.type) and pa.types.is_integer(right.type):
            days = right if name == "+" else self._call(tree, "negative", [right])
            return self._call(tree, "date_add", [left, days])
        if name == "/":
            if any(pa.types.is_decimal(side.type) for side in (left, right)) and not any(
                pa.types.is_floating(side.type) or isinstance(side, Literal) for side in (left, right)
            ):
                raise self._fault(tree, "divides decimals; cast one side to double")
            sides = [self._cast(tree, side, pa.float64()) for side in (left, right)]
        else:
            sides = self._met(tree, [left, right])
        return self._call(tree, name, sides)

    def _shift(self, tree: Any, name: str) -> Node:
        """A constant date or instant moved by an interval of fixed length."""
        start, interval = self.bind(tree.this), tree.expression
        unit = _UNITS.get(str(interval.args.get("unit") or "").upper().rstrip("S"))
        amount = interval.this.name if interval.this is not None else ""
        if not isinstance(start, Literal) or unit is None or not amount.lstrip("-").isdigit() or len(amount) > 9:
            raise self._fault(
                tree, "moves by an interval; offered for constants and for days, weeks, hours, minutes, seconds"
            )
        if pa.types.is_date(start.type) and unit not in ("days", "weeks"):
            # A date has no hours: it is moved from its first moment.
            start = cast("Literal", self._cast(tree, start, INSTANT))
        value = start.value.as_py()
        if value is None or not isinstance(value, dt.date):
            raise self._fault(tree, "moves something that is neither date nor timestamp")
        step = dt.timedelta(**{unit: int(amount) * (1 if name == "+" else -1)})
        try:
            moved = value + step
        except OverflowError as cause:
            raise self._fault(tree, "leaves the years 1 to 9999") from cause
        return Literal(pa.scalar(moved, start.type))

    def _call(self, tree: Any, name: str, args: list[Node]) -> Node:
        if name in ("year", "month", "day", "quarter") and args and is_text(args[0].type):
            args = [self._cast(tree, args[0], pa.date32())]
        result = FUNCTIONS[name].result([arg.type for arg in args])
        if result is None:
            shown = ", ".join(str(arg.type) for arg in args)
            raise self._fault(tree, f"does not take {shown}")
        return Call(name, tuple(args), result, self._zone)

    def _anonymous(self, tree: Any) -> Node:
        name = tree.name.lower()
        if name in FUNCTIONS and name.isalpha() and name != "case":
            return self._call(tree, name, [self.bind(arg) for arg in tree.expressions])
        if name == SEARCH:
            try:
                return searched(tree, self._scope)
            except LookupError as wrong:
                raise self._fault(tree, str(wrong)) from None
        raise self._fault(tree, not_offered(tree))

    # Types

    def _met(self, tree: Any, nodes: list[Node]) -> list[Node]:
        """`nodes` in the type that all of them meet in."""
        data_type: pa.DataType | None = nodes[0].type
        for node in nodes[1:]:
            met = None if data_type is None else common_type(data_type, node.type)
            if met is None:
                advice = "compare what is in them" if pa.types.is_nested(node.type) else "cast one of them"
                raise self._fault(tree, f"combines {nodes[0].type} and {node.type}, which do not compare; {advice}")
            data_type = met
        return [self._cast(tree, node, data_type) for node in nodes]

    def _one_of(self, tree: Any, nodes: list[Node]) -> list[Node]:
        """`nodes` in one type; they need not compare, since one of them is chosen."""
        kind = nested_type([node.type for node in nodes])
        return self._met(tree, nodes) if kind is None else [self._cast(tree, node, kind) for node in nodes]

    def _cast(self, tree: Any, node: Node, data_type: pa.DataType, *, strict: bool = True) -> Node:
        """`node` as `data_type`; constants are converted at once."""
        if node.type == data_type:
            return node
        if not isinstance(node, Literal):
            return Cast(node, data_type, strict, self._zone)
        value = cast_or_null(pa.array([node.value.as_py()], node.type), data_type, zone=self._zone)[0]
        if strict and node.value.is_valid and not value.is_valid:
            raise self._fault(tree, f"needs {data_type}, which {node.value.as_py()!r} is not")
        return Literal(value)

    def _text(self, tree: Any) -> Node:
        node = self.bind(tree)
        if is_text(node.type):
            return node
        if is_number(node.type) or pa.types.is_null(node.type):
            return self._cast(tree, node, pa.string())
        raise self._fault(tree, f"is {node.type}, a text is needed")

    def _constant_text(self, tree: Any) -> str | None:
        node = self.bind(tree)
        if not isinstance(node, Literal) or not (is_text(node.type) or pa.types.is_null(node.type)):
            raise self._fault(tree, "must be a constant text here")
        value: str | None = node.value.as_py()
        return value

    def _fault(self, tree: Any, what: str) -> QueryInvalid:
        shown = tree.sql("spark") if isinstance(tree, exp.Expression) else str(tree)
        position = 0
        nodes = list(tree.walk())[:200] if isinstance(tree, exp.Expression) else getattr(tree, "parts", [])
        starts = [node.meta["start"] for node in nodes if "start" in node.meta]
        if starts:
            position = min(starts)
        if len(shown) > 120:
            shown = shown[:120] + "..."
        return QueryInvalid(f"{shown!r} {what}", query=self._query, position=position)

    _HANDLERS: ClassVar[dict[type, Callable[[Binder, Any], Node]]] = {
        exp.And: _junction,
        exp.Anonymous: _anonymous,
        exp.Between: _between,
        exp.Boolean: lambda _, tree: Literal(pa.scalar(bool(tree.this))),
        exp.Case: _case,
        exp.Cast: _cast_node,
        exp.Coalesce: _coalesce,
        exp.Column: _column,
        exp.Concat: _concat,
        exp.Contains: _text_match,
        exp.DPipe: _concat,
        exp.Dot: _dot,
        exp.EndsWith: _text_match,
        exp.Escape: _escape,
        exp.HexString: lambda _, tree: Literal(pa.scalar(bytes.fromhex("0" * (len(tree.name) % 2) + tree.name))),
        exp.ILike: _like,
        exp.If: _if,
        exp.In: _in,
        exp.Is: _is,
        exp.Like: _like,
        exp.Literal: _literal,
        exp.Neg: _negative,
        exp.Not: _not,
        exp.Null: lambda *_: Literal(pa.scalar(None)),
        exp.Nullif: _nullif,
        exp.NullSafeNEQ: lambda self, tree: Not(self._comparison(tree, "<=>", tree.this, tree.expression)),
        exp.Or: _junction,
        exp.Paren: lambda self, tree: self.bind(tree.this),
        exp.RawString: lambda _, tree: Literal(pa.scalar(tree.this)),
        exp.RegexpLike: _like,
        exp.StartsWith: _text_match,
        exp.Substring: _substring,
        exp.Trim: _trim,
        exp.TryCast: _cast_node,
        exp.TsOrDsToDate: _to_date,
    }


class _FlatColumn:
    """A column reference with any number of parts."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __str__(self) -> str:
        return ".".join(part.name for part in self.parts)


def _is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_null(source) or is_text(target) or is_text(source):
        return not pa.types.is_nested(source)
    if is_number(source) or pa.types.is_boolean(source):
        return is_number(target) or bool(pa.types.is_boolean(target))
    return common_type(source, target) is not None
