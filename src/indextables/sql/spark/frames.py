"""Searches in `where`, `filter`, `select` and the like of DataFrames that read tables of ours.

A DataFrame of ours knows the SELECT that gives its rows (`note_rows`), over paths and versions. A search in one of its
methods becomes one more SELECT around that, which the session answers as it answers every statement. The methods of
Spark's class are wrapped as long as a session is enabled; a call without a search goes through unchanged, and so does
every call in other sessions.
"""

from __future__ import annotations

import functools
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indextables.errors import NotSupported
from indextables.spark.search import Asked, asked_in
from indextables.spark.session import (
    column_named,
    expression_text,
    frame_class,
    is_column,
    is_unknown_search,
    jvm_errors,
    note_rows,
    rows_of_frame,
    select_of,
)
from indextables.sql.command import literal, tokens, unquoted
from indextables.sql.spark.views import REFUSED, forget_views, keep_view, searches

if TYPE_CHECKING:
    from indextables.spark.session import DataFrame, SparkSession

__all__ = ["unwrap_frames", "wrap_frames"]

_BEFORE, _SESSIONS = "_indextables_before", "_indextables_sessions"
_SCORED = "_indextables_scored"
"""Attribute of the answer of a search: the SELECT that gives its rows with their scores."""

_NOT_OURS = REFUSED.format("TEXTSEARCH") + (
    ". Of DataFrames, those are searched that IndexTable.toDF, spark.read, spark.table, spark.sql, and where, filter "
    "and select of columns by their names give: search first, then do the rest"
)
_INSIDE = (
    "a search inside of a larger Column is not seen: write textsearch(column, query) of indextables.functions there, "
    "or the whole condition as one text"
)
_NO_GROUPS = "rows are not grouped by a search: withColumn('hit', textsearch(column, query)) first, then group by 'hit'"
_NO_SCORE = "score() stands in select, withColumn or orderBy right behind the where or filter that has the one search"


def wrap_frames(spark: SparkSession) -> None:
    """Let DataFrames of a session understand searches."""
    kind = frame_class(spark)
    for name, method in _METHODS.items():
        now = getattr(kind, name)
        sessions = getattr(now, _SESSIONS, None)
        sessions = weakref.WeakSet() if sessions is None else sessions
        sessions.add(spark)
        before = getattr(now, _BEFORE, now)
        setattr(kind, name, _wrapper(method, before, sessions))


def unwrap_frames(spark: SparkSession) -> None:
    """Take back what `wrap_frames` did; the methods are Spark's own again when no session is left."""
    kind = frame_class(spark)
    forget_views(spark)
    for name in _METHODS:
        now = getattr(kind, name)
        sessions = getattr(now, _SESSIONS, None)
        if sessions is None:
            continue
        sessions.discard(spark)
        if not sessions:
            setattr(kind, name, getattr(now, _BEFORE))


def _wrapper(method: Callable[..., Any], before: Any, sessions: Any) -> Any:
    @functools.wraps(before)
    def wrapped(self: DataFrame, *args: Any, **kwargs: Any) -> Any:
        if self.sparkSession not in sessions:
            return before(self, *args, **kwargs)
        return method(self, before, *args, **kwargs)

    setattr(wrapped, _BEFORE, before)
    setattr(wrapped, _SESSIONS, sessions)
    return wrapped


def _filter(frame: DataFrame, before: Any, condition: Any) -> DataFrame:
    rows = rows_of_frame(frame)
    if rows is None:
        return _not_ours(frame, before, condition)
    asked = asked_in([condition])
    text = expression_text(condition) if is_column(condition) and not asked else condition
    if len(asked) == 1 and asked[0].query is not None and str(condition) == str(column_named(asked[0].name)):
        text = _call(asked[0])
    elif asked:
        return _with_answers(frame, asked, lambda found: before(found, condition)).drop(*(one.name for one in asked))
    if not isinstance(text, str):
        return _not_ours(frame, before, condition, message=_INSIDE)
    is_search = searches(text)
    selected = select_of("*", _subquery(rows), text)
    if not is_search:
        return note_rows(before(frame, condition), selected)
    answer = note_rows(frame.sparkSession.sql(selected), selected)
    vars(answer)[_SCORED] = select_of(f"*, _score AS `{Asked().name}`", _subquery(rows), text)
    return answer


def _select(frame: DataFrame, before: Any, *columns: Any) -> DataFrame:
    if rows_of_frame(frame) is None:
        return _not_ours(frame, before, *columns)
    names = _flat(columns)
    given, texts = _expressed(names, is_shown=True)
    asked = asked_in(given)
    if asked or texts:
        return _shown(_with_answers(frame, asked, lambda found: before(found, *given), texts), asked)
    rows, answer = rows_of_frame(frame), _not_ours(frame, before, *columns, message=_INSIDE)
    if rows is None or not names or not all(isinstance(name, str) and _is_name(name) for name in names):
        return answer
    return note_rows(answer, select_of(", ".join(names), _subquery(rows)))


def _select_expr(frame: DataFrame, before: Any, *expr: Any) -> DataFrame:
    rows, texts = rows_of_frame(frame), _flat(expr)
    if rows is None or not any(isinstance(text, str) and searches(text) for text in texts):
        return _not_ours(frame, before, *expr)
    answer: DataFrame = frame.sparkSession.sql(select_of(",\n".join(texts), _subquery(rows)))
    return answer


def _with_column(frame: DataFrame, before: Any, *args: Any, **kwargs: Any) -> DataFrame:
    if rows_of_frame(frame) is None:
        return _not_ours(frame, before, *args, **kwargs)
    (given, more), texts = _expressed((args, kwargs))
    asked = asked_in([*_flat(given), *more.values()])
    if not asked and not texts:
        return _not_ours(frame, before, *args, message=_INSIDE, **kwargs)
    found_rows = _with_answers(frame, asked, lambda found: before(found, *given, **more), texts)
    return found_rows.drop(*(one.name for one in asked), *texts)


def _with_columns(frame: DataFrame, before: Any, *args: Any, **kwargs: Any) -> DataFrame:
    listed = [*args, *kwargs.values()]
    if len(listed) != 1 or not isinstance(listed[0], dict):
        return _not_ours(frame, before, *args, **kwargs)
    return _with_column(frame, lambda found, **columns: before(found, columns), **listed[0])


def _agg(frame: DataFrame, before: Any, *exprs: Any) -> DataFrame:
    asked = asked_in(exprs) if rows_of_frame(frame) is not None else []
    if not asked:
        return _not_ours(frame, before, *exprs, message=_INSIDE if rows_of_frame(frame) else _NOT_OURS)
    return _shown(_with_answers(frame, asked, lambda found: before(found, *exprs)), asked)


def _group_by(frame: DataFrame, before: Any, *columns: Any) -> Any:
    if asked_in(columns) or any(is_column(one) and searches(expression_text(one) or "") for one in _flat(columns)):
        raise NotSupported(_NO_GROUPS)
    return before(frame, *columns)


def _flat(columns: Sequence[Any]) -> list[Any]:
    return list(columns[0]) if len(columns) == 1 and isinstance(columns[0], list | tuple) else list(columns)


def _expressed(
    given: Any, texts: dict[str, str] | None = None, *, is_shown: bool = False
) -> tuple[Any, dict[str, str]]:
    """Columns that are `F.expr(text)` with a search become the names of columns, and these the texts to answer."""
    texts = {} if texts is None else texts
    if isinstance(given, dict):
        return {key: _expressed(one, texts)[0] for key, one in given.items()}, texts
    if isinstance(given, list | tuple):
        return type(given)(_expressed(one, texts, is_shown=is_shown)[0] for one in given), texts
    text = expression_text(given) if is_column(given) else None
    if text is None or not searches(text):
        return given, texts
    words = list(tokens(text))
    alias = unquoted(words[-1]) if len(words) > 2 and words[-2].upper == "AS" else None
    name = f"indextables_search_{len(texts)}"
    texts[name] = text if alias is None else text[: words[-2].start]
    shown = column_named(name)
    return (shown.alias(alias or " ".join(text.split())) if is_shown else shown), texts


def _shown(answer: DataFrame, asked: Sequence[Asked]) -> DataFrame:
    """With the names that people know in the place of ours."""
    for name in answer.columns:
        told = name
        for one in asked:
            told = told.replace(one.name, one.shown)
        answer = answer if told == name else answer.withColumnRenamed(name, told)
    return answer


def _keep_view(frame: DataFrame, before: Any, name: str) -> None:
    rows = rows_of_frame(frame)
    # A name of its own by which the plan is known again: rows that stand in a plan are not told by its text.
    before(frame if rows is None else frame.alias(f"indextables_{uuid.uuid4().hex}"), name)
    keep_view(frame.sparkSession, name, rows)


_METHODS: dict[str, Callable[..., Any]] = {
    # `where` calls it.
    "filter": _filter,
    "select": _select,
    "selectExpr": _select_expr,
    "withColumn": _with_column,
    "withColumns": _with_columns,
    "agg": _agg,
    "groupBy": _group_by,
    "groupby": _group_by,
    "rollup": _group_by,
    "cube": _group_by,
    "sort": _with_column,
    "orderBy": _with_column,
    "createTempView": _keep_view,
    "createOrReplaceTempView": _keep_view,
}


def _with_answers(
    frame: DataFrame, asked: Sequence[Asked], then: Callable[[Any], DataFrame], texts: Mapping[str, str] | None = None
) -> DataFrame:
    """What `then` makes of the rows with a column for each search, and for each of `texts`."""
    rows = rows_of_frame(frame)
    if any(one.query is None for one in asked):
        rows = vars(frame).get(_SCORED)
        if rows is None:
            raise NotSupported(_NO_SCORE)
    if rows is None:
        raise NotSupported(_NOT_OURS)
    marks = [f"{_call(one)} AS `{one.name}`" for one in asked if one.query is not None]
    marks += [f"({text}\n) AS `{name}`" for name, text in (texts or {}).items()]
    text = select_of(", ".join(["*", *marks]), _subquery(rows)) if marks else rows
    return then(frame.sparkSession.sql(text))


def _not_ours(frame: DataFrame, before: Any, *args: Any, message: str = _NOT_OURS, **kwargs: Any) -> DataFrame:
    """What Spark says to a call. Raises NotSupported where it does not know a search."""
    try:
        answer: DataFrame = before(frame, *args, **kwargs)
        if not hasattr(answer, "_jdf") and any(searches(_told(one)) for one in [*_flat(args), *kwargs.values()]):
            # Connect looks at it when it is asked what comes of it.
            _ = answer.schema
    except jvm_errors() as error:
        if not is_unknown_search(error):
            raise
        raise NotSupported(message) from error
    return answer


def _told(value: Any) -> str:
    """The text of a value; that of a Column without the quotes around it."""
    return str(value).removeprefix("Column<'").removesuffix("'>")


def _subquery(rows: str) -> str:
    # A name, because Spark takes `FROM (...) WHERE (x)` for a subquery that is called `where`.
    return f"({rows}\n) AS indextables_rows"


def _call(asked: Asked) -> str:
    column = asked.column if asked.column == "*" else ".".join(f"`{part}`" for part in asked.column.split("."))
    return f"TEXTSEARCH({column}, {literal(asked.query)})"


def _is_name(name: str) -> bool:
    listed = list(tokens(name))
    if [token.text for token in listed] == ["*"]:
        return True
    return len(listed) % 2 == 1 and all(
        token.text == "." if place % 2 else token.kind in ("word", "name") for place, token in enumerate(listed)
    )
