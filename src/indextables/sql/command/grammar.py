"""The commands of IndexTables: text to values. Pure; nothing is looked up and nothing is run.

A statement that is none of ours is None, whatever is wrong with it: it belongs to the engine below. Statements that
Delta knows too are `OnlyIfOurs`. A command of ours that cannot be understood is a CommandSyntaxError that points at the
place and shows the grammar of that command.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from indextables.errors import CommandSyntaxError, InvalidArgument, LimitExceeded
from indextables.sql.command import statements as st
from indextables.sql.command.altering import ALTER_SYNTAX, alter_rule, begins_a_wish, comment_rule
from indextables.sql.command.cursor import KEYWORDS, Args, Cursor
from indextables.sql.command.lexer import Token, tokens
from indextables.sql.command.making import convert_rule, create_rule, drop_rule, once, place_of
from indextables.sql.command.row_grammar import (
    ROW_SYNTAX,
    explained,
    lead_of,
    rows_deleted,
    rows_merged,
    rows_updated,
)
from indextables.table.requests import (
    ClearSkips,
    DropPartitions,
    MergeSplits,
    Mirror,
    Prewarm,
    Purge,
    Reindex,
    Restore,
    TruncateTimeTravel,
    Verify,
)

__all__ = ["MAX_COMMAND_CHARS", "SYNTAX", "parse_command"]

MAX_COMMAND_CHARS = 1_000_000

_TABLE = "('<path>' | <name> | indextables.`<path>`)"
SYNTAX: dict[str, str] = {
    "MERGE SPLITS": f"MERGE SPLITS {_TABLE} [WHERE <partition predicate>] [TARGET SIZE <bytes>[K|M|G|T]] "
    "[MAX DEST SPLITS <n>] [MAX SOURCE SPLITS PER MERGE <n>] "
    "[CLUSTER BY (<column>, ...) [USING ZORDER | HILBERT]] [DRY RUN]",
    "OPTIMIZE": f"OPTIMIZE {_TABLE} [WHERE <partition predicate>] [ZORDER BY (<column>, ...)]",
    "PURGE": f"PURGE INDEXTABLE {_TABLE} [OLDER THAN <n> DAYS | HOURS] "
    "[TRANSACTION LOG RETENTION <n> DAYS | HOURS] [FORCE] [DRY RUN]",
    "VACUUM": f"VACUUM {_TABLE} [RETAIN <n> HOURS] [DRY RUN]",
    "DROP PARTITIONS": f"DROP INDEXTABLES PARTITIONS FROM {_TABLE} WHERE <partition predicate> [DRY RUN]",
    "DROP": f"DROP INDEXTABLE [IF EXISTS] {_TABLE}",
    "TRUNCATE TIME TRAVEL": f"TRUNCATE INDEXTABLES TIME TRAVEL {_TABLE} [DRY RUN]",
    "CHECKPOINT": f"CHECKPOINT INDEXTABLES {_TABLE}",
    "COMPACT": f"COMPACT INDEXTABLES {_TABLE}",
    "DESCRIBE": f"DESCRIBE INDEXTABLES (STATE | DETAIL | HEALTH | SKIPS | HISTORY | TRANSACTION LOG) {_TABLE} "
    "[LIMIT <n>, after HISTORY] [INCLUDE ALL, after TRANSACTION LOG]",
    "CLEAR SKIPS": f"CLEAR INDEXTABLES SKIPS FROM {_TABLE} [PATHS ('<path>', ...)]",
    "VERIFY": f"VERIFY INDEXTABLES {_TABLE} [LOG ONLY] [WITH RULES]",
    "REPAIR": f"REPAIR INDEXFILES TRANSACTION LOG {_TABLE} [AT LOCATION '<path>']",
    "INVALIDATE CACHE": f"INVALIDATE [INDEXTABLES] TRANSACTION LOG CACHE [FOR [TABLE] {_TABLE}]",
    "FLUSH CACHE": f"FLUSH INDEXTABLES [SEARCHER | DISK] CACHE [FOR [TABLE] {_TABLE}]",
    "PREWARM": f"PREWARM INDEXTABLES [CACHE] {_TABLE} [ON FIELDS (<column>, ...)] [WHERE <predicate>]",
    "MIRROR": f"MIRROR INDEXTABLES {_TABLE} [STOP]",
    "RESTORE": f"RESTORE [INDEXTABLE | TABLE] {_TABLE} TO (VERSION AS OF <n> | TIMESTAMP AS OF '<time>')",
    "REINDEX": f"REINDEX [INDEXTABLE] {_TABLE} [WHERE <predicate>] [FORCE]",
    "CREATE": "CREATE INDEXTABLE [IF NOT EXISTS] ('<path>' | <name> LOCATION '<path>') (<column> <type>, ...) "
    "[INDEXING (<column> text, ...)] [PARTITIONED BY (<column>, ...)] [COMMENT '<text>'] "
    "[TBLPROPERTIES ('<key>' = '<value>', ...)]",
    **ROW_SYNTAX,
    **ALTER_SYNTAX,
    "CONVERT": "CONVERT TO INDEXTABLES [DELTA | ICEBERG | PARQUET | INDEXTABLES4SPARK] '<source>' [VERSION AS OF <n>] "
    "[INDEXING (<column> text, ...)] [PARTITIONED BY (<column>, ...)] [COMMENT '<text>'] "
    "[TBLPROPERTIES ('<key>' = '<value>', ...)] AT LOCATION '<target>'",
}
"""The grammar of each command, as errors and documentation show it."""

_DESCRIBED = frozenset({"STATE", "DETAIL", "HEALTH", "SKIPS", "HISTORY"})
_HEAD_TOKENS = 5


def parse_command(text: str, args: Args | None = None) -> st.Command | st.OnlyIfOurs | None:
    """The command that `text` states; None if it is not a command of ours.

    `args` are the values of `:name` (a mapping) or `?` (a sequence): each stands for one value, never for a piece of
    the statement. Raises CommandSyntaxError, InvalidArgument for a value that the verb does not take, LimitExceeded for
    a command of ours that is too long.
    """
    head = list(islice(tokens(text), _HEAD_TOKENS))
    words = [token.upper for token in head]
    entry = _entry(words, head) if words and words[0] in _FIRST else None
    if entry is None:
        return None
    key, rule, is_shared = entry
    if len(text) > MAX_COMMAND_CHARS:
        if is_shared:
            return None
        message = f"the command has {len(text)} characters, the limit is {MAX_COMMAND_CHARS}"
        raise LimitExceeded(message, limit=MAX_COMMAND_CHARS, actual=len(text))
    found = list(tokens(text))
    if is_shared:
        return _shared(text, found, args, key, rule)
    return rule(Cursor(text, found, args, SYNTAX[key]))


_Rule = Callable[[Cursor], st.Command]


def _entry(words: list[str], head: list[Token]) -> tuple[str, _Rule, bool] | None:
    """Which command begins so, and whether another system may mean the same words."""
    first, second, third, *_ = [*words, "", "", ""]
    ours = second in KEYWORDS
    if first in ("DESCRIBE", "DESC"):
        # `DESCRIBE indextables state` asks Spark about a column of a table of that name.
        if ours and (third == "TRANSACTION" or (third in _DESCRIBED and len(head) > 3 and head[3].text != ";")):
            return "DESCRIBE", _describe, False
        if second in ("HISTORY", "DETAIL") and len(head) > 2:
            return "DESCRIBE", _describe_as_delta, True
        return None
    if first == "INVALIDATE" and (ours or words[1:4] == ["TRANSACTION", "LOG", "CACHE"]):
        return "INVALIDATE CACHE", _invalidate, False
    if first == "CONVERT":
        return ("CONVERT", convert_rule, False) if second == "TO" and third in KEYWORDS else None
    if first == "ALTER":
        return ("ALTER", alter_rule, True) if second == "TABLE" and len(head) > 2 else None
    if first == "COMMENT":
        return ("COMMENT", comment_rule, True) if words[1:3] == ["ON", "TABLE"] and len(head) > 3 else None
    if words[:2] == ["MERGE", "SPLITS"]:
        return "MERGE SPLITS", _merge_splits, False
    if (rule := _ROW_RULES.get(first)) is not None:
        return (first, rule, True) if _changes_rows(words) else None
    if first in _SHARED and not _names_a_table(ours=ours, head=head):
        return (first, _SHARED[first], True) if len(head) > 1 else None
    # What cannot be undone is asked for in one way only.
    if words[:2] == ["DROP", "INDEXTABLE"] and third != "PARTITIONS":
        return "DROP", drop_rule, False
    found = _RULES.get(first) if ours else None
    return None if found is None else (*found, False)


def _changes_rows(words: list[str]) -> bool:
    """True for `DELETE FROM`, `UPDATE`, `MERGE INTO` and `MERGE WITH`, and EXPLAIN before them."""
    words = words[1:] if words[0] == "EXPLAIN" else words
    first, second, *_ = [*words, "", ""]
    return first == "UPDATE" or (first, second) in {("DELETE", "FROM"), ("MERGE", "INTO"), ("MERGE", "WITH")}


def _names_a_table(*, ours: bool, head: list[Token]) -> bool:
    """True for `RESTORE INDEXTABLE t`; False where the keyword is part of the table: ``OPTIMIZE indextables.`p` ``."""
    return ours and (len(head) < 3 or head[2].text != ".")


def _shared(text: str, found: list[Token], args: Args | None, key: str, rule: _Rule) -> st.OnlyIfOurs | None:
    """A statement that may be another system's: its faults are told only once its table is known to be ours."""
    try:
        cursor = Cursor(text, found, args, SYNTAX[key])
        if key in ROW_SYNTAX:
            lead_of(key)(cursor)
        else:
            cursor.expect(found[0].upper)
            cursor.accept("ON")
            cursor.accept("TABLE|HISTORY|DETAIL")
        target = cursor.target()
    except CommandSyntaxError:
        return None
    if key == "ALTER" and not begins_a_wish(cursor):
        return None
    asked = st.OnlyIfOurs(target, changes_rows=key in ROW_SYNTAX, alters=key in ALTER_SYNTAX)
    try:
        return msgspec.structs.replace(asked, command=rule(Cursor(text, found, args, SYNTAX[key])))
    except InvalidArgument as error:
        return msgspec.structs.replace(asked, fault=error)


def _merge_splits(at: Cursor) -> st.Command:
    at.expect("MERGE", "SPLITS")
    target = at.target()
    given: dict[str, Any] = {}
    while at.token is not None and not at.accept_mark(";"):
        if at.accept("WHERE"):
            once(at, given, "where", at.predicate(*_MERGE_CLAUSES))
        elif at.accept("TARGET", "SIZE"):
            once(at, given, "target_size", at.size("a size"))
        elif at.accept("MAX", "DEST", "SPLITS"):
            once(at, given, "max_dest_splits", at.whole("a number of splits", least=1))
        elif at.accept("MAX", "SOURCE", "SPLITS", "PER", "MERGE"):
            once(at, given, "max_source_splits_per_merge", at.whole("a number of splits", least=2))
        elif at.accept("CLUSTER|ZORDER", "BY"):
            once(at, given, "cluster_by", at.names())
            if at.accept("USING"):
                given["curve"] = "hilbert" if at.accept("HILBERT") else "zorder"
                if given["curve"] == "zorder":
                    at.expect("ZORDER")
        elif at.accept("DRY", "RUN"):
            once(at, given, "dry_run", True)  # noqa: FBT003 - the value of a clause
        else:
            at.fail("WHERE, TARGET SIZE, MAX DEST SPLITS, MAX SOURCE SPLITS PER MERGE, CLUSTER BY, DRY RUN or the end")
    at.end()
    return st.Ask(target=target, request=MergeSplits(**given))


_MERGE_CLAUSES = (
    ("TARGET", "SIZE"),
    ("MAX", "DEST", "SPLITS"),
    ("MAX", "SOURCE", "SPLITS"),
    ("CLUSTER|ZORDER", "BY"),
    ("DRY", "RUN"),
)


def _optimize(at: Cursor) -> st.Command:
    at.expect("OPTIMIZE")
    if at.sees("|".join(KEYWORDS)) and not _is_dotted(at):
        at.accept_keyword()
    target = at.target()
    where = at.predicate(("ZORDER", "BY")) if at.accept("WHERE") else None
    columns = at.names() if at.accept("ZORDER", "BY") else ()
    at.end("WHERE", "ZORDER BY")
    return st.Ask(target=target, request=MergeSplits(where=where, cluster_by=columns))


def _purge(at: Cursor) -> st.Command:
    at.expect("PURGE", "|".join(KEYWORDS))
    target = at.target()
    given: dict[str, Any] = {}
    while at.token is not None and not at.accept_mark(";"):
        if at.accept("OLDER", "THAN"):
            once(at, given, "older_than_hours", at.hours("a number of days or hours"))
        elif at.accept("TRANSACTION", "LOG", "RETENTION"):
            once(at, given, "tx_log_retention_hours", at.hours("a number of days or hours"))
        elif at.accept("FORCE"):
            once(at, given, "force", True)  # noqa: FBT003
        elif at.accept("DRY", "RUN"):
            once(at, given, "dry_run", True)  # noqa: FBT003
        else:
            at.fail("OLDER THAN, TRANSACTION LOG RETENTION, FORCE, DRY RUN or the end")
    at.end()
    return st.Ask(target=target, request=Purge(**given))


def _vacuum(at: Cursor) -> st.Command:
    at.expect("VACUUM")
    if at.sees("|".join(KEYWORDS)) and not _is_dotted(at):
        at.accept_keyword()
    target = at.target()
    hours = None
    if at.accept("RETAIN"):
        hours = at.hours("a number of hours")
    dry = at.accept("DRY", "RUN")
    at.end("RETAIN", "DRY RUN")
    return st.Ask(target=target, request=Purge(older_than_hours=hours, dry_run=dry))


def _drop_partitions(at: Cursor) -> st.Command:
    at.expect("DROP", "|".join(KEYWORDS))
    at.expect("PARTITIONS")
    at.expect("FROM")
    target = at.target()
    at.expect("WHERE")
    where = at.predicate(("DRY", "RUN"))
    dry = at.accept("DRY", "RUN")
    at.end("DRY RUN")
    return st.Ask(target=target, request=DropPartitions(where=where, dry_run=dry))


def _truncate(at: Cursor) -> st.Command:
    at.expect("TRUNCATE", "|".join(KEYWORDS))
    at.expect("TIME", "TRAVEL")
    target = at.target()
    dry = at.accept("DRY", "RUN")
    at.end("DRY RUN")
    return st.Ask(target=target, request=TruncateTimeTravel(dry_run=dry))


def _checkpoint(at: Cursor) -> st.Command:
    compact = at.accept("COMPACT")
    if not compact:
        at.expect("CHECKPOINT")
    at.accept_keyword()
    target = at.target()
    at.end()
    return st.Checkpoint(target=target, compact=compact)


def _describe(at: Cursor) -> st.Command:
    at.expect("DESCRIBE|DESC", "|".join(KEYWORDS))
    if at.accept("TRANSACTION"):
        at.expect("LOG")
        target = at.target()
        everything = at.accept("INCLUDE", "ALL")
        at.end("INCLUDE ALL")
        return st.DescribeLog(target=target, include_all=everything)
    for word, kind in _DESCRIPTIONS.items():
        if at.accept(word):
            target = at.target()
            at.end()
            return kind(target=target)
    at.expect("HISTORY")
    return _history(at)


_DESCRIPTIONS: dict[str, Callable[..., st.Command]] = {
    "STATE": st.DescribeState,
    "DETAIL": st.DescribeDetail,
    "HEALTH": st.DescribeHealth,
    "SKIPS": st.DescribeSkips,
}


def _describe_as_delta(at: Cursor) -> st.Command:
    at.expect("DESCRIBE|DESC")
    if at.accept("HISTORY"):
        return _history(at)
    at.expect("DETAIL")
    target = at.target()
    at.end()
    return st.DescribeDetail(target=target)


def _history(at: Cursor) -> st.Command:
    target = at.target()
    limit = at.whole("a number of versions", least=1) if at.accept("LIMIT") else None
    at.end("LIMIT")
    return st.DescribeHistory(target=target, limit=limit)


def _clear_skips(at: Cursor) -> st.Command:
    at.expect("CLEAR", "|".join(KEYWORDS))
    at.expect("SKIPS")
    at.accept("FROM|FOR")
    target = at.target()
    paths = None
    if at.accept("PATHS"):
        at.expect_mark("(")
        found = [at.string("the path of a split in quotes")]
        while at.accept_mark(","):
            found.append(at.string("the path of a split in quotes"))
        at.expect_mark(")")
        paths = tuple(found)
    at.end("PATHS")
    return st.Ask(target=target, request=ClearSkips(paths=paths))


def _verify(at: Cursor) -> st.Command:
    at.expect("VERIFY", "|".join(KEYWORDS))
    target = at.target()
    log_only, rules = at.accept("LOG", "ONLY"), at.accept("WITH", "RULES")
    at.end("LOG ONLY", "WITH RULES")
    return st.Ask(target=target, request=Verify(data_files=not log_only, rules=rules))


def _repair(at: Cursor) -> st.Command:
    at.expect("REPAIR", "|".join(KEYWORDS))
    at.expect("TRANSACTION", "LOG")
    target = at.target()
    place = None
    if at.accept("AT"):
        at.expect("LOCATION")
        place = place_of(at)
    at.end("AT LOCATION")
    return st.Repair(target=target, at=place)


def _invalidate(at: Cursor) -> st.Command:
    at.expect("INVALIDATE")
    at.accept_keyword()
    at.expect("TRANSACTION", "LOG", "CACHE")
    return st.InvalidateCache(target=_of_table(at))


def _flush(at: Cursor) -> st.Command:
    at.expect("FLUSH", "|".join(KEYWORDS))
    at.accept("SEARCHER|DISK")
    at.expect("CACHE|CACHES")
    return st.FlushCache(target=_of_table(at))


def _of_table(at: Cursor) -> st.TableName | None:
    target = None
    if at.accept("FOR"):
        at.accept("TABLE")
        target = at.target()
    at.end("FOR")
    return target


def _prewarm(at: Cursor) -> st.Command:
    at.expect("PREWARM", "|".join(KEYWORDS))
    at.accept("CACHE")
    at.accept("FOR")
    target = at.target()
    columns = None
    if at.accept("ON"):
        at.expect("FIELDS|COLUMNS")
        columns = at.names()
    where = at.predicate() if at.accept("WHERE") else None
    at.end("ON FIELDS", "WHERE")
    return st.Ask(target=target, request=Prewarm(where=where, columns=columns))


def _mirror(at: Cursor) -> st.Command:
    at.expect("MIRROR", "|".join(KEYWORDS))
    target = at.target()
    stop = at.accept("STOP")
    at.end("STOP")
    return st.Ask(target=target, request=Mirror(stop=stop))


def _restore(at: Cursor) -> st.Command:
    at.expect("RESTORE")
    at.accept("TABLE") or (not _is_dotted(at) and at.accept_keyword())
    target = at.target()
    at.expect("TO")
    at.accept("FOR")
    if at.accept("VERSION"):
        at.expect("AS", "OF")
        version = at.whole("a version")
        at.end()
        return st.Ask(target=target, request=Restore(version=version))
    if not at.sees("TIMESTAMP"):
        at.fail("VERSION AS OF or TIMESTAMP AS OF")
    at.expect("TIMESTAMP")
    at.expect("AS", "OF")
    timestamp = at.moment()
    at.end()
    return st.Ask(target=target, request=Restore(timestamp=timestamp))


def _reindex(at: Cursor) -> st.Command:
    at.expect("REINDEX")
    at.accept("TABLE") or (not _is_dotted(at) and at.accept_keyword())
    target = at.target()
    where = at.predicate(("FORCE",)) if at.accept("WHERE") else None
    force = at.accept("FORCE")
    at.end("WHERE", "FORCE")
    return st.Ask(target=target, request=Reindex(where=where, force=force))


def _is_dotted(at: Cursor) -> bool:
    """True before ``indextables.`path` ``, which is a table, not a keyword."""
    ahead = at.ahead(1)
    return ahead is not None and ahead.text == "."


_SHARED: dict[str, _Rule] = {"OPTIMIZE": _optimize, "VACUUM": _vacuum, "RESTORE": _restore, "REINDEX": _reindex}

_ROW_RULES: dict[str, _Rule] = {
    "DELETE": rows_deleted,
    "UPDATE": rows_updated,
    "MERGE": rows_merged,
    "EXPLAIN": explained,
}

_RULES: dict[str, tuple[str, _Rule]] = {
    "PURGE": ("PURGE", _purge),
    "DROP": ("DROP PARTITIONS", _drop_partitions),
    "TRUNCATE": ("TRUNCATE TIME TRAVEL", _truncate),
    "CHECKPOINT": ("CHECKPOINT", _checkpoint),
    "COMPACT": ("COMPACT", _checkpoint),
    "CLEAR": ("CLEAR SKIPS", _clear_skips),
    "VERIFY": ("VERIFY", _verify),
    "REPAIR": ("REPAIR", _repair),
    "FLUSH": ("FLUSH CACHE", _flush),
    "PREWARM": ("PREWARM", _prewarm),
    "MIRROR": ("MIRROR", _mirror),
    "RESTORE": ("RESTORE", _restore),
    "REINDEX": ("REINDEX", _reindex),
    "OPTIMIZE": ("OPTIMIZE", _optimize),
    "VACUUM": ("VACUUM", _vacuum),
    "CREATE": ("CREATE", create_rule),
}

_FIRST = frozenset({"ALTER", "COMMENT", "CONVERT", "DESCRIBE", "DESC", "INVALIDATE", *_ROW_RULES, *_RULES, *_SHARED})
