"""Commands that care for tables: this room reads their text and runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.sql.command import statements
    from indextables.sql.command.altering import wish_of
    from indextables.sql.command.changing import (
        CHANGED,
        Beside,
        Read,
        check_texts,
        explain_rows,
        told_of,
    )
    from indextables.sql.command.context import Context, LocalContext, is_table, moment_ms
    from indextables.sql.command.cursor import KEYWORDS, Args, Cursor, literal
    from indextables.sql.command.feeding import TABLE_CHANGES, FeedCall, feed_calls
    from indextables.sql.command.grammar import SYNTAX, parse_command
    from indextables.sql.command.kinds import check_kind
    from indextables.sql.command.lexer import Token, first_word, tokens, unquoted
    from indextables.sql.command.making import drop_rule, once, pairs
    from indextables.sql.command.references import (
        FORMAT,
        Found,
        Reference,
        find_references,
        has_path,
        has_signs,
        is_unread_query,
        keeps_text,
        may_read,
        query_of,
        table_names,
        value_of,
    )
    from indextables.sql.command.refusals import (
        QUOTED,
        check_comparisons,
        check_plan,
        check_statement,
        no_decimal,
        unsigned_zeros,
    )
    from indextables.sql.command.run import Consent, execute, run_command
    from indextables.sql.command.showing import ShowTable, describe_rule, show_rule, shown, what_to_show
    from indextables.sql.command.statements import (
        Ask,
        DeleteRows,
        DropTable,
        MergeRows,
        OnlyIfOurs,
        RowChange,
        SourceRows,
        TableName,
        UpdateRows,
    )

__all__ = [
    "CHANGED",
    "FORMAT",
    "KEYWORDS",
    "QUOTED",
    "SYNTAX",
    "TABLE_CHANGES",
    "Args",
    "Ask",
    "Beside",
    "Consent",
    "Context",
    "Cursor",
    "DeleteRows",
    "DropTable",
    "FeedCall",
    "Found",
    "LocalContext",
    "MergeRows",
    "OnlyIfOurs",
    "Read",
    "Reference",
    "RowChange",
    "ShowTable",
    "SourceRows",
    "TableName",
    "Token",
    "UpdateRows",
    "check_comparisons",
    "check_kind",
    "check_plan",
    "check_statement",
    "check_texts",
    "describe_rule",
    "drop_rule",
    "execute",
    "explain_rows",
    "feed_calls",
    "find_references",
    "first_word",
    "has_path",
    "has_signs",
    "is_table",
    "is_unread_query",
    "keeps_text",
    "literal",
    "may_read",
    "moment_ms",
    "no_decimal",
    "once",
    "pairs",
    "parse_command",
    "query_of",
    "run_command",
    "show_rule",
    "shown",
    "statements",
    "table_names",
    "tokens",
    "told_of",
    "unquoted",
    "unsigned_zeros",
    "value_of",
    "what_to_show",
    "wish_of",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "altering": ("wish_of",),
            "changing": (
                "CHANGED",
                "Beside",
                "Read",
                "check_texts",
                "explain_rows",
                "told_of",
            ),
            "context": ("Context", "LocalContext", "is_table", "moment_ms"),
            "cursor": ("Args", "Cursor", "KEYWORDS", "literal"),
            "feeding": ("TABLE_CHANGES", "FeedCall", "feed_calls"),
            "grammar": ("SYNTAX", "parse_command"),
            "kinds": ("check_kind",),
            "lexer": ("Token", "first_word", "tokens", "unquoted"),
            "making": ("drop_rule", "once", "pairs"),
            "references": (
                "FORMAT",
                "Found",
                "Reference",
                "find_references",
                "has_path",
                "has_signs",
                "is_unread_query",
                "keeps_text",
                "may_read",
                "query_of",
                "table_names",
                "value_of",
            ),
            "refusals": (
                "QUOTED",
                "check_comparisons",
                "check_plan",
                "check_statement",
                "no_decimal",
                "unsigned_zeros",
            ),
            "run": ("Consent", "execute", "run_command"),
            "showing": ("ShowTable", "describe_rule", "show_rule", "shown", "what_to_show"),
            "statements": (
                "Ask",
                "DeleteRows",
                "DropTable",
                "MergeRows",
                "OnlyIfOurs",
                "RowChange",
                "SourceRows",
                "TableName",
                "UpdateRows",
            ),
        },
    )
