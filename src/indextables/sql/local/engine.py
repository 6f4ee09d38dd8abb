"""One SELECT over pinned snapshots: rewrite, plan on empty tables, read what the plan needs, run.

DataFusion plans the statement twice: first over tables without rows, to learn which columns, rows and searches each
table has to give, then over the tables themselves. Only queries are accepted; nothing can be written or configured,
and no file can be named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions, udf

from indextables.errors import ForkUnsafe, NotSupported, QueryInvalid
from indextables.process import NativeThreads
from indextables.query.functions import ValueFault, apply
from indextables.sql.command import (
    QUOTED,
    check_comparisons,
    check_kind,
    check_plan,
    check_statement,
    unsigned_zeros,
)
from indextables.sql.local.division import SIGNS, ZERO, with_quotients, without_quotients
from indextables.sql.local.ends import columns_with_ends
from indextables.sql.local.explaining import ONE_NAME, explained, placed_in
from indextables.sql.local.intervals import hours_dropped, with_durations
from indextables.sql.local.lists import SIMPLIFIER, has_lists, may_merge
from indextables.sql.local.meanings import check_casts, check_meanings, looks_for_backslashes
from indextables.sql.local.names import aliased, readable
from indextables.sql.local.provider import Provider, Source, register, registered_schema
from indextables.sql.local.pushdown import Need, needs_of, row_limit
from indextables.sql.local.rewrite import Rewritten, rewrite
from indextables.sql.local.spelled import as_shown, with_parts
from indextables.sql.local.subqueries import check_subqueries
from indextables.sql.local.widths import as_narrow, in_types, widened

__all__ = ["run"]

_BATCH_ROWS = 8192
_LEAST_BATCH_ROWS = 64
# The two plans must agree on constants. These are evaluated while planning, so they would differ.
_MOVING = re.compile(r"\b(now|today|current_(date|time|timestamp)|localtime(stamp)?)\b", re.IGNORECASE)
# DataFusion 55 takes a column that its filters pin to one value for sorted, loses that in a join of several partitions,
# and refuses its own plan. With one partition there is nothing to merge in order.
_PLANNER_BUG = "SanityCheckPlan"


def run(
    text: str,
    sources: Mapping[str, Source],
    *,
    params: Mapping[str, object] | None = None,
    memory_limit: int,
    names: Sequence[str] = (),
) -> pa.Table:
    """The answer to the SELECT statement `text` over `sources` (names in lower case).

    `names` are the tables that a statement could read, where those are more than `sources`.

    Raises QueryInvalid for a statement that cannot be understood or evaluated, NotSupported for one that is not
    a query, CommandSyntaxError for one that is almost a command, ForkUnsafe in a child of a process that has run one,
    and whatever reading the tables raises.
    """
    _note_use()
    try:
        return _answer(text, sources, params, memory_limit, names)
    except (QueryInvalid, NotSupported) as fault:
        placed = placed_in(text, fault)
        if placed is fault:
            raise
        raise placed from fault.__cause__


def _answer(
    text: str,
    sources: Mapping[str, Source],
    params: Mapping[str, object] | None,
    memory_limit: int,
    names: Sequence[str],
) -> pa.Table:
    text = _one_quote(text)
    check_kind(text)
    check_statement(text)
    check_meanings(text)
    spelled = {field.name.lower(): field.name for source in sources.values() for field in source.schema}
    typed = text
    text = with_quotients(with_parts(_lower_quoted(unsigned_zeros(text), spelled)))
    schemas = {name: source.schema for name, source in sources.items()}
    rewritten = widened(text, rewrite(text, schemas, params), schemas)
    values = None if not params else {n: _one_zero(v) for n, v in params.items() if f"${n}" in rewritten.text}
    rewritten, planned, shown = _named(rewritten, schemas, values, names or list(sources))
    if _MOVING.search(text):
        needs = {name: Need(need.columns, None, need.required) for name, need in planned.needs.items()}
        planned = planned._replace(needs=needs)
    try:
        context = _context(memory_limit, limit=planned.limit, without=planned.without)
        result = _execute(rewritten, sources, planned, values, context)
    except QueryInvalid as fault:
        if _PLANNER_BUG not in str(fault.__cause__):
            raise
        context = _context(memory_limit, partitions=1, without=planned.without)
        result = _execute(rewritten, sources, planned, values, context)
    narrow = as_narrow(rewritten)
    if narrow is not None:
        result = in_types(typed, result, _over_nothing(narrow, schemas, values).schema())
    hidden = [search.name for target in rewritten.targets.values() for search in target.searches]
    columns = [shown.get(name, name) for name in result.column_names]
    columns = columns if shown else readable(rewritten.text, columns)
    return _as_asked(result, [without_quotients(as_shown(name, typed)) for name in columns], spelled, hidden)


def _one_zero(value: object) -> object:
    """A floating-point number with the bits that the tables' columns have for it."""
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0


_DATAFUSION = NativeThreads("DataFusion in use", f"{__name__}._DATAFUSION")


def _note_use() -> None:
    """Raises ForkUnsafe where a statement would wait for threads that only the parent has."""
    if _DATAFUSION.inherited:
        message = (
            "a SELECT was run before this process was forked, and none can be run in the child: start workers with "
            "the 'spawn' or 'forkserver' method, or run SELECT after the fork only; reads and searches work"
        )
        raise ForkUnsafe(message)
    _DATAFUSION.used = True


def _execute(
    rewritten: Rewritten, sources: Mapping[str, Source], planned: _Planned, values: Any, context: Any
) -> pa.Table:
    providers = []
    for name, target in rewritten.targets.items():
        # A table that the plan does not read (its condition is never true) still has to exist.
        need = planned.needs.get(name, Need(frozenset()))
        provider = Provider(sources[target.table], target, need, planned.without_nan)
        register(context, name, provider)
        providers.append(provider)
    plan = _plan(context, rewritten.text, values)
    try:
        return plan.to_arrow_table()
    except Exception as cause:
        # DataFusion raises bare Exceptions, also for what our own reading raised inside it.
        failure = next((p.failure for p in providers if p.failure is not None), None)
        raise failure or explained(rewritten.text, cause) from cause
    finally:
        for provider in providers:
            provider.close()


def _named(
    rewritten: Rewritten, schemas: Mapping[str, pa.Schema], values: Any, names: Sequence[str]
) -> tuple[Rewritten, _Planned, Mapping[str, str]]:
    """The statement as DataFusion takes it, its plan, and the names to show for those that it did not have before."""
    try:
        return rewritten, _planned(rewritten, schemas, values, names), {}
    except QueryInvalid as fault:
        renamed = aliased(rewritten.text) if ONE_NAME in str(fault.__cause__) else None
        if renamed is None:
            raise
        other = Rewritten(renamed.text, rewritten.targets)
        try:
            return other, _planned(other, schemas, values, names), renamed.shown
        except QueryInvalid as second:
            # Names that nobody gave are not spoken of.
            raise (fault if any(name in str(second) for name in renamed.shown) else second) from second.__cause__


class _Planned(NamedTuple):
    """What each table must give, after how many rows the statement stops, and the rule it is planned without.

    And the columns in which NaN would be taken wrong.
    """

    needs: dict[str, Need]
    limit: int | None
    without: str | None
    without_nan: frozenset[str]


def _planned(rewritten: Rewritten, schemas: Mapping[str, pa.Schema], values: Any, names: Sequence[str]) -> _Planned:
    frame = _over_nothing(rewritten, schemas, values, names=names)
    meant = frame.logical_plan().display_indent()
    check_subqueries(rewritten.text, meant)
    check_comparisons(rewritten.text, meant)
    check_casts(rewritten.text, meant, schemas.values())
    _check_hours(rewritten, schemas, values)
    plan = _optimized(frame, rewritten, values)
    without = None
    loses = looks_for_backslashes(rewritten.text, (values or {}).values())
    if loses or has_lists(rewritten.text):
        other = _optimized(_over_nothing(rewritten, schemas, values, SIMPLIFIER), rewritten, values)
        if loses or may_merge(other.display_indent()):
            plan, without = other, SIMPLIFIER
    own = {name: schemas[target.table] for name, target in rewritten.targets.items()}
    hidden = {name: frozenset(s.name for s in target.searches) for name, target in rewritten.targets.items()}
    without_nan = columns_with_ends(plan.display_indent(), schemas.values())
    return _Planned(needs_of(plan, own, hidden), row_limit(plan), without, without_nan)


def _check_hours(rewritten: Rewritten, schemas: Mapping[str, pa.Schema], values: Any) -> None:
    """Raises NotSupported where hours would be added to a date, and lost."""
    probe = with_durations(rewritten.text)
    if probe is None:
        return
    try:
        _over_nothing(Rewritten(probe, rewritten.targets), schemas, values).optimized_logical_plan()
    except Exception as cause:
        refused = hours_dropped(rewritten.text, f"{cause} {cause.__cause__}")
        if refused is not None:
            raise refused from cause


def _over_nothing(
    rewritten: Rewritten,
    schemas: Mapping[str, pa.Schema],
    values: Any,
    without: str | None = None,
    names: Sequence[str] = (),
) -> Any:
    """The statement over tables without rows."""
    context = _context(None, without=without)
    for name, target in rewritten.targets.items():
        schema = registered_schema(schemas[target.table], target)
        empty = [pa.array([], field.type) for field in schema]
        context.register_record_batches(name, [[pa.RecordBatch.from_arrays(empty, schema=schema)]])
    return _plan(context, rewritten.text, values, names)


def _optimized(frame: Any, rewritten: Rewritten, values: Any) -> Any:
    """The optimized plan; the numbers in it are those of the statement."""
    try:
        plan = frame.optimized_logical_plan()
    except Exception as cause:
        raise explained(rewritten.text, cause) from cause
    check_plan(rewritten.text, plan.display_indent(), (values or {}).values())
    return plan


def _context(
    memory_limit: int | None, *, partitions: int | None = None, limit: int | None = None, without: str | None = None
) -> Any:
    runtime = RuntimeEnvBuilder()
    if memory_limit is not None:
        runtime = runtime.with_disk_manager_os().with_fair_spill_pool(memory_limit)
    config = SessionConfig() if partitions is None else SessionConfig().with_target_partitions(partitions)
    if limit is not None and limit < _BATCH_ROWS:
        # Filters collect a whole batch before they pass it on; a statement that stops early should not wait for one.
        config = config.with_batch_size(max(limit, _LEAST_BATCH_ROWS))
    context = SessionContext(config, runtime)
    for name, sign in SIGNS.items():
        kind = pa.int64() if sign == "div" else pa.float64()
        context.register_udf(udf(_divided_by(sign), [kind, kind], kind, "immutable", name))
    if without is not None and not context.remove_optimizer_rule(without):
        raise NotSupported(
            f"this release of DataFusion plans this statement wrongly (it has no rule {without}): install another"
        )
    return context


def _divided_by(sign: str) -> Any:
    """The operator as predicates compute it."""

    def run(left: pa.Array, right: pa.Array) -> pa.Array:
        try:
            return apply(sign, [left, right], "UTC")
        except ValueFault as fault:
            raise ArithmeticError(ZERO if "by zero" in str(fault) else str(fault)) from None

    return run


def _plan(context: Any, text: str, values: Any, tables: Sequence[str] = ()) -> Any:
    try:
        return context.sql_with_options(text, _queries_only(), param_values=values)
    except Exception as cause:
        # DataFusion raises ValueErrors and bare Exceptions for the same kinds of fault.
        raise explained(text, cause, tables) from cause


def _queries_only() -> Any:
    no = False
    return SQLOptions().with_allow_ddl(no).with_allow_dml(no).with_allow_statements(no)


def _one_quote(text: str) -> str:
    """`text`, as long as it was, with double quotes around names in backticks, which not every step knows."""

    def doubled(match: re.Match[str]) -> str:
        found = match.group()
        return f'"{found[1:-1]}"' if found.startswith("`") and not set('`"') & set(found[1:-1]) else found

    return QUOTED.sub(doubled, text)


def _lower_quoted(text: str, spelled: Mapping[str, str]) -> str:
    """Quoted column names in any case find their column, as all names do."""

    def lowered(match: re.Match[str]) -> str:
        found = match.group()
        return found.lower() if found.startswith('"') and found[1:-1].lower() in spelled else found

    # Texts and comments are matched too, so that quotes inside them are left alone.
    return QUOTED.sub(lowered, text)


def _as_asked(result: pa.Table, names: Sequence[str], spelled: Mapping[str, str], hidden: Sequence[str]) -> pa.Table:
    """Names in the tables' own spelling, and text as plain strings."""
    columns = [_plain(column) for column in result.columns]
    names = [spelled.get(name, name) for name in names]
    for name in hidden:
        names = [shown.replace(name, "textsearch") for shown in names]
    return pa.Table.from_arrays(columns, names=names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_binary_view(column.type):
        return column.cast(pa.binary())
    return column
