"""Reads conditions and values of a statement, as text of SQL or as Spark's `Column`, and tells what is known of them.

Spark evaluates them. Where a text means the same to this library, its bounds leave files out, and its index answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import InvalidArgument, LimitExceeded, NotSupported, QueryInvalid
from indextables.query.expr import Node
from indextables.query.functions import is_number
from indextables.query.parse import parse
from indextables.query.scope import SEARCH, Scope
from indextables.spark.scan import means_another_zone
from indextables.spark.session import computes_otherwise, raising_ours, reads_otherwise
from indextables.table.change import check_storable
from indextables.table.rows import fits

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

__all__ = [
    "Text",
    "analysed",
    "check_text_or_column",
    "expression",
    "fitting",
    "named_columns",
    "names_search",
    "quoted",
    "told",
    "understood",
    "value",
]

Text: TypeAlias = "str | Column"

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
_SEARCH = re.compile(rf"\b{SEARCH}\b", re.IGNORECASE)
_SQL_IN_TREE = re.compile(r"SqlExpression\((.*?),Origin\(", re.DOTALL)
_SUBQUERY = re.compile(
    r"\b(?:SELECT|WITH)\b[\s*(]|(?<!trim)\(\s*FROM\b|"
    r"\(\s*TABLE\s+(?!(?:IS|IN|NOT|LIKE|ILIKE|RLIKE|BETWEEN|AND|OR|DIV)\b)[\w']",
    re.IGNORECASE,
)


def check_text_or_column(what: str, given: object) -> Text:
    """Raises InvalidArgument for anything else, NotSupported for a subquery."""
    if isinstance(given, str):
        if not given.strip():
            raise InvalidArgument(f"{what} is empty: give a text of SQL, or leave it out")
    elif not is_column(given):
        raise InvalidArgument(f"{what} is a text of SQL or a Column, not {given!r}")
    if any(_SUBQUERY.search(_QUOTED.sub("''", text)) for text in _texts_of(given)):
        message = (
            f"{what} = {told(given)!r} holds a subquery, which others may change before the commit: make it a "
            "DataFrame and use merge(). Nothing was written"
        )
        raise NotSupported(message)
    return given


def _texts_of(given: object) -> Iterator[str]:
    """The SQL in a condition or value; a subquery that a Column was made of is one of its own."""
    if isinstance(given, str):
        yield given
        return
    java = getattr(given, "_jc", None)
    if java is not None:
        tree = str(java.node().toString())
        yield from _SQL_IN_TREE.findall(tree)
        yield "SELECT " * ("SubqueryExpression(" in tree)
        return
    found: list[str] = []

    def look(one: Any) -> None:
        kind = type(one).__name__
        found.append(one._expr if kind == "SQLExpression" else "SELECT " * (kind == "SubqueryExpression"))  # noqa: SLF001

    given._expr.foreach(look)  # type: ignore[attr-defined]  # noqa: SLF001
    yield from found


def names_search(text: str) -> bool:
    """True if a text asks the index, which Spark cannot."""
    return _SEARCH.search(_QUOTED.sub("''", text)) is not None


def is_column(given: object) -> bool:
    """True for a Column of Spark's, classic or Connect."""
    return type(given).__name__ == "Column" and type(given).__module__.startswith("pyspark.sql")


def expression(given: Text) -> Column:
    """What Spark evaluates."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    return F.expr(given) if isinstance(given, str) else given


def value(what: str, given: object) -> Column:
    """What a column is set to: a text of SQL, a Column, or a value. Raises InvalidArgument, NotSupported."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    if isinstance(given, str) or is_column(given):
        return expression(check_text_or_column(what, given))
    try:
        return F.lit(given)
    except PySparkException as cause:
        raise InvalidArgument(f"{what} is a text of SQL, a Column or a value, not {given!r}") from cause


def told(given: object) -> str:
    """As the history shows it."""
    text = str(given)
    return text.removeprefix("Column<'").removesuffix("'>") if is_column(given) else text


def understood(spark: SparkSession, env: Env, given: Text | None, scope: Scope, schema: pa.Schema) -> Node | None:
    """What a text means where the session and this library mean the same by it; None where that is not known."""
    if not isinstance(given, str) or reads_otherwise(spark, given, schema):
        return None
    try:
        node = parse(given, scope, time_zone=env.options[opt.TIME_ZONE])
    except (QueryInvalid, LimitExceeded):
        return None
    return None if means_another_zone(spark, env, node) or computes_otherwise(spark, node) else node


@contextmanager
def analysed(what: str) -> Iterator[None]:
    """What Spark does not understand is a QueryInvalid; errors of ours from a task are themselves."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        with raising_ours():
            yield
    except (AnalysisException, ParseException) as cause:
        first = str(cause).partition("\n")[0]
        raise QueryInvalid(f"{what} cannot be understood: {first}. Nothing was written") from cause


def fitting(column: Column, given: DataType, wanted: DataType, name: str) -> Column:
    """What a column holds, in its type; no value is cut or rounded. Raises InvalidArgument where none ever fits."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    if given == wanted:
        return column
    kind = wanted.simpleString()
    if given.typeName() == "void":
        return column.cast(wanted)
    have, want = _arrow(given), _arrow(wanted)
    if _is_nested(wanted):
        if given.simpleString() == kind:
            return column.cast(wanted)
        raise InvalidArgument(
            f"column {name} is {kind}, and is set to {given.simpleString()}: write a CAST. Nothing was written",
            columns=[name],
        )
    check_storable(have, want, name)
    if fits(have, want) or not (is_number(have) and is_number(want)):
        return column.cast(wanted)
    kept = column.try_cast(wanted)
    # A decimal is seldom a float: it becomes the nearest one.
    same = kept.isNotNull() if pa.types.is_decimal(have) else kept.try_cast(given).eqNullSafe(column)
    message = (
        f" indextables.errors.InvalidArgument: what column {name} is set to does not fit {kind}: a value would become "
        "another number. Nothing was written\n"
    )
    return F.when(column.isNull() | same, kept).otherwise(F.raise_error(F.lit(message)).cast(wanted))


def _arrow(kind: DataType) -> pa.DataType:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkException as cause:
        message = f"a column cannot be set to {kind.simpleString()}: write a CAST. Nothing was written"
        raise InvalidArgument(message) from cause


def _is_nested(kind: DataType) -> bool:
    return kind.typeName() in ("array", "map", "struct", "variant")


def quoted(name: str) -> str:
    """A name of a column, whatever letters it has."""
    return "`" + name.replace("`", "``") + "`"


def named_columns(values: Mapping[str, Any], names: list[str], what: str) -> dict[str, Any]:
    """Values by the names that the table has, found in any case. Raises InvalidArgument."""
    spelled = {name.lower(): name for name in names}
    found: dict[str, Any] = {}
    for given, one in values.items():
        name = spelled.get(given.strip("`").lower())
        if name is None:
            raise InvalidArgument(f"there is no column {given}: the table has {', '.join(names)}", columns=[given])
        if name in found:
            raise InvalidArgument(f"column {name} is set twice", columns=[given])
        found[name] = one
    if not found:
        raise InvalidArgument(f"{what} names no column: give each column that changes with its new value")
    return found
