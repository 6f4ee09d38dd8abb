"""Which statements are no queries, and which were meant as commands of ours? They are refused before planning. Pure."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import islice
from typing import Literal

from indextables.errors import CommandSyntaxError, NotSupported, QueryInvalid
from indextables.sql.command.cursor import KEYWORDS, fault
from indextables.sql.command.grammar import SYNTAX, parse_command
from indextables.sql.command.lexer import Token, tokens
from indextables.sql.command.statements import OnlyIfOurs

__all__ = ["check_kind"]

_ALIKE = 0.75
_HEAD_TOKENS = 4
_ONLY_QUERIES = "only queries (SELECT ...) and commands of ours are run here"
_INSTEAD = {
    "ALTER": "ALTER TABLE changes columns and properties of a table of ours",
    "COPY": "to_arrow(), to_pandas() and `indextables search --json` give rows to others",
    "DELETE": "delete(where) of a table deletes rows, as this statement does in a LocalSession",
    "CREATE": "CREATE INDEXTABLE makes a table",
    "DROP": "DROP INDEXTABLE deletes a table with all its rows and versions",
    "INSERT": "append(rows) of a table, or `indextables ingest`, adds rows",
    "MERGE": "merge(rows, on) of a table merges rows, as this statement does in a LocalSession",
    "SHOW": "SHOW TABLES, COLUMNS, PARTITIONS, TBLPROPERTIES and CREATE TABLE are for names of a LocalSession",
    "TABLE": "write SELECT * FROM the table",
    "TRUNCATE": "delete() of a table, or DELETE FROM in a LocalSession, deletes all of its rows",
    "UPDATE": "update(values, where) of a table changes rows, as this statement does in a LocalSession",
}
_NO_QUERIES = frozenset(_INSTEAD) | {
    *("ANALYZE", "ATTACH", "BEGIN", "CACHE", "CALL", "COMMENT", "COMMIT", "DEALLOCATE", "DECLARE"),
    *("DETACH", "END", "EXECUTE", "EXPORT", "FETCH", "GRANT", "IMPORT", "KILL", "LOAD", "LOCK"),
    *("PRAGMA", "PREPARE", "REFRESH", "RENAME", "REPLACE", "RESET", "REVOKE", "ROLLBACK", "SAVEPOINT", "SET"),
    *("START", "UNCACHE", "UNLOAD", "UNLOCK", "UPSERT", "USE"),
}
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "FROM", "EXPLAIN"})
_HEADS = {
    # The words up to the first choice.
    key: [word for word in grammar.partition("(")[0].split() if word.isalpha()][:2]
    for key, grammar in SYNTAX.items()
    if key != "EXPLAIN"
} | {"MERGE": ["MERGE", "INTO"]}


def check_kind(text: str) -> None:
    """Raises NotSupported for a statement that is no query, CommandSyntaxError for one that is almost a command.

    A command is left alone, and so is what begins as no statement does. Raises QueryInvalid for SELECT alone.
    """
    head = list(islice(tokens(text), _HEAD_TOKENS))
    words = [token.upper for token in head if token.text != ";"]
    if not words or head[0].kind != "word" or (words[0] in _QUERIES and words != ["SELECT"]):
        return
    kind = _kind_of(text)
    if kind == "command":
        return
    if words == ["SELECT"]:
        message = "SELECT says nothing to select: write SELECT * FROM t"
        raise QueryInvalid(message, query=text, position=head[0].start)
    if kind == "other" and (almost := _almost_a_command(text, head, words)) is not None:
        raise almost
    if words[0] in _NO_QUERIES:
        instead = _INSTEAD.get(words[0])
        message = f"{words[0]} is no query, and {_ONLY_QUERIES}" + (f"; {instead}" if instead else "")
        raise NotSupported(message, query=text, position=head[0].start)


def _kind_of(text: str) -> Literal["command", "change", "other"]:
    """What a text is. One that changes rows is not left alone: who runs those has not taken it."""
    try:
        found = parse_command(text)
    except CommandSyntaxError:
        return "command"
    if found is None:
        return "other"
    return "change" if isinstance(found, OnlyIfOurs) and found.changes_rows else "command"


def _almost_a_command(text: str, head: list[Token], words: list[str]) -> CommandSyntaxError | None:
    """The error that shows the command which was surely meant; None if the statement may be anything else."""
    second = words[1] if len(words) > 1 else ""
    if words[0] in ("DESCRIBE", "DESC") and len(words) < 4:
        # What a table looks like: a query, whatever its table is called.
        return None
    best, found = 0.0, ""
    for key, (first, *more) in _HEADS.items():
        likeness = _likeness(words[0], first)
        wanted = KEYWORDS if more and more[0] in KEYWORDS else frozenset(more)
        next_likeness = max((_likeness(second, word) for word in wanted), default=0.0)
        # Words that other statements begin with are meant as ours only where the next word is ours, too.
        is_shared = first in _NO_QUERIES or first == "DESCRIBE" or words[0] in _NO_QUERIES
        if likeness >= _ALIKE and (next_likeness >= _ALIKE or not is_shared) and likeness + next_likeness > best:
            best, found = likeness + next_likeness, key
    if not found:
        return None
    known = {word for pair in _HEADS.values() for word in pair} | KEYWORDS | {"DESC"}
    odd = next((token for token in head if token.upper not in known), head[-1])
    message = f"{text.strip()[:60]!r} is no command; the nearest is {found}"
    return fault(text, odd.start, message, SYNTAX[found])


def _likeness(one: str, other: str) -> float:
    if one == "DESC" and other == "DESCRIBE":
        return 1.0
    return SequenceMatcher(None, one, other).ratio()
