"""What stands behind a name that is a view: the SELECT over tables of ours that gives its rows.

A search needs the table, and Spark tells nobody what a temporary view reads. So `enable` keeps the SELECT of views
that are made from DataFrames and statements of ours, with a fingerprint of the plan: a view that somebody replaced
meanwhile is not taken for the old one. Of views of the catalog Spark keeps the text itself.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from indextables.errors import NotSupported
from indextables.spark.session import fingerprint, is_unknown_search, jvm_errors, note_rows, path_at, registry
from indextables.sql.command import FORMAT, Args, Found, find_references, first_word, table_names, tokens

if TYPE_CHECKING:
    from indextables.spark.session import DataFrame, SparkSession

__all__ = [
    "REFUSED",
    "SEARCHES_ITSELF",
    "forget_views",
    "keep_view",
    "noted",
    "noted_text",
    "pinned",
    "refused_search",
    "rows_of_view",
    "searches",
    "with_views",
]

_VIEWS = "_indextables_views"
"""Attribute of a session: what is known of its temporary views, by name."""
_SEARCHES = ("TEXTSEARCH", "INDEXQUERY", "INDEXQUERYALL")
_DEEPEST = 16
_QUERIES = frozenset({"SELECT", "WITH"})

REFUSED = (
    "{} is answered by the index of a table of IndexTables, and none stands beside it: name the table in FROM, or a "
    "subquery, WITH name or view that hands on its rows"
)

SEARCHES_ITSELF = (
    "a view of the catalog is for all, and others cannot answer the search in its text: make the view without the "
    "search, and search in what is selected from it, or write CREATE TEMPORARY VIEW"
)


class _Kept(msgspec.Struct, frozen=True):
    rows: str
    known_by: str


def searches(text: str) -> bool:
    """True if a text holds a search."""
    lower = text.lower()
    return any(word.lower() in lower for word in _SEARCHES) and any(token.upper in _SEARCHES for token in tokens(text))


def keep_view(spark: SparkSession, name: str, rows: str | None) -> None:
    """Note which SELECT gives the rows of a temporary view that was just made; None forgets what was known."""
    kept = vars(spark).setdefault(_VIEWS, {})
    kept.pop(_key(name), None)
    if rows is not None:
        kept[_key(name)] = _Kept(rows, fingerprint(type(spark).table(spark, registry.quoted(name))))


def forget_views(spark: SparkSession) -> None:
    """Forget all of them."""
    vars(spark).pop(_VIEWS, None)


def noted(
    spark: SparkSession, answer: DataFrame, found: Found, place_of: Callable[[Any], tuple[str, int | None]]
) -> DataFrame:
    """The answer of a statement, which knows its rows where they are those of our tables alone; views are noted too.

    `place_of` tells the URL and the version that a reference means.
    """
    if first_word(found.text) in _QUERIES:
        return note_rows(answer, pinned(found, place_of))
    _keep_made(spark, found, place_of)
    return answer


def noted_text(spark: SparkSession, text: str, is_ours: Callable[[str], bool]) -> None:
    """Note a temporary view that Spark keeps as text: it shows the newest version whenever it is used."""
    head = {token.upper for token in islice(tokens(text), 5)}
    if not head & {"TEMP", "TEMPORARY"} or not any(is_ours(name) for name in table_names(text)):
        return
    found = find_references(text, is_ours)
    if found is not None:
        _keep_made(spark, found, lambda one: (registry.resolve(spark, one.name), None))


def _keep_made(spark: SparkSession, found: Found, place_of: Callable[[Any], tuple[str, int | None]]) -> None:
    """Note the temporary view that a statement has made, if it has."""
    from sqlglot import exp

    made = found.tree.this if isinstance(found.tree, exp.Create) and found.keeps_names else None
    is_global = any(token.upper == "GLOBAL" for token in islice(tokens(found.text), 4))
    if isinstance(made, exp.Table) and not made.db and not is_global:
        rows = pinned(found, place_of) or ""
        begin = next((token.end for token in tokens(rows) if token.upper == "AS"), 0)
        body = rows[begin:].strip()
        keep_view(spark, made.name, body if first_word(body) in _QUERIES else None)


def pinned(found: Found, place_of: Callable[[Any], tuple[str, int | None]]) -> str | None:
    """The statement with paths and versions in the place of names; None if it reads what is not ours.

    `place_of` tells the URL and the version that a reference means.
    """
    from sqlglot import exp

    from indextables.sql.tracing import cte_of

    ours = {id(node) for node in found.nodes}
    targets = {id(found.tree.this)} if isinstance(found.tree, exp.Create) else set()
    others = [
        node for node in found.tree.find_all(exp.Table) if id(node) not in ours | targets and cte_of(node) is None
    ]
    if others or any(reference.role != "read" or reference.shape != "plain" for reference in found.references):
        return None
    text = found.text
    for reference in sorted(found.references, key=lambda one: one.start, reverse=True):
        end = reference.end if reference.as_of is None else reference.as_of.end
        url, version = place_of(reference)
        alias = f" AS {reference.shown}" if reference.shown else ""
        text = f"{text[: reference.start]}{path_at(url, version)}{alias}{text[end:]}"
    return text.rstrip("; \n")


def rows_of_view(spark: SparkSession, name: str) -> str | None:
    """The SELECT behind a view; None for what is none, or of which that is not known."""
    kept = vars(spark).get(_VIEWS, {}).get(_key(name))
    spelled = registry.quoted(name)
    try:
        if kept is not None and kept.known_by == fingerprint(type(spark).table(spark, spelled)):
            return str(kept.rows)
        known = spark.catalog.getTable(spelled) if spark.catalog.tableExists(spelled) else None
    except jvm_errors():
        return None
    if known is None or known.isTemporary or known.tableType != "VIEW":
        return None
    return _text_of_catalog(spark, spelled)


def with_views(spark: SparkSession, text: str, args: Args | None, is_ours: Callable[[str], bool]) -> str:
    """A statement with subqueries in the place of views whose SELECT is known."""
    for _ in range(_DEEPEST):
        known = {}
        for name in table_names(text, args):
            rows = None if _is_path(name) or is_ours(name) else rows_of_view(spark, name)
            if rows is not None:
                known[name] = rows
        found = find_references(text, known.__contains__, args=args) if known else None
        if found is None:
            return text
        for reference in sorted(found.references, key=lambda one: one.start, reverse=True):
            if reference.as_of is not None or reference.role != "read":
                return text
            alias = f" AS {reference.shown}" if reference.shown else ""
            text = f"{text[: reference.start]}({known[reference.name]}\n){alias}{text[reference.end :]}"
    return text


def refused_search(text: str, run: Callable[[], DataFrame]) -> DataFrame:
    """What Spark says to a statement with a search and no table of ours. Raises NotSupported for the search."""
    try:
        frame = run()
        # Connect looks at a statement when it is asked what comes of it.
        _ = frame.schema
    except jvm_errors() as error:
        if not is_unknown_search(error):
            raise
        raise NotSupported(REFUSED.format("a search"), query=text) from error
    return frame


def _text_of_catalog(spark: SparkSession, spelled: str) -> str | None:
    told = type(spark).sql(spark, f"DESCRIBE TABLE EXTENDED {spelled}").collect()
    facts = {row.col_name: row.data_type for row in told}
    columns = [row.col_name for row in told][: len(type(spark).table(spark, spelled).columns)]
    text = facts.get("View Text")
    home = [part.strip("`") for part in str(facts.get("View Catalog and Namespace", "")).split(".")]
    here = [spark.catalog.currentCatalog(), spark.catalog.currentDatabase()]
    shown = [name.strip(" `") for name in str(facts.get("View Query Output Columns", "")).strip("[]").split(",")]
    if text is None or home != here or shown != columns or first_word(text) not in _QUERIES:
        return None
    return str(text).rstrip("; \n")


def _is_path(name: str) -> bool:
    """True for a path behind the name of our format: no view is called so, and Spark need not be asked."""
    first, _, rest = name.partition(".")
    return first.lower() == FORMAT and "/" in rest


def _key(name: str) -> str:
    return name.strip("`").lower()
