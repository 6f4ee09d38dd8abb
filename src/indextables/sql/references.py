"""Where does a statement of Spark speak about tables of ours? Found by position; the text itself stays as it is. Pure.

sqlglot reads the statement in Spark's dialect to find table references and searches. What it cannot read is left to
Spark, whose own error is the one to show. Spellings that only we know (`t@v3`, `VERSION AS OF`, `col INDEXQUERY 'q'`)
are covered up for sqlglot by as many characters that it knows, so that every position stays true.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from indextables.errors import NotSupported, QueryInvalid
from indextables.sql.cursor import Args
from indextables.sql.tokens import Token, tokens, unquoted

# What sqlglot cannot read is Spark's business; its warnings about it would go to the user's terminal.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

__all__ = ["AsOf", "Found", "Reference", "find_references", "has_signs", "table_names", "value_of"]

MAX_TEXT_CHARS = 1_000_000

FORMAT = "indextables"
_SIGNS = (FORMAT, "textsearch", "indexquery")
_FIRST_WORDS = frozenset(
    {"SELECT", "WITH", "FROM", "INSERT", "CREATE", "CACHE", "EXPLAIN", "DESCRIBE", "DESC"}
    | {"DELETE", "UPDATE", "MERGE"}
)
_EXPLAIN_WORDS = frozenset({"EXPLAIN", "EXTENDED", "CODEGEN", "COST", "FORMATTED", "DESCRIBE", "DESC", "QUERY"})
_TRAVEL = {"VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "timestamp", "SYSTEM_TIME": "timestamp"}
_TRAVELS = re.compile(r"\bAS\s+OF\b|@[vV]\d", re.IGNORECASE)
_BEFORE_TABLES = frozenset({"FROM", "JOIN", "INTO", "TABLE", "OVERWRITE", "UPDATE", "DESCRIBE", "DESC", "USING"})
_AFTER_TABLES = frozenset({"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "ON", "UNION", "VALUES", "SET"})
_BETWEEN = frozenset({"TABLE", "EXTENDED", "FORMATTED", "LATERAL", "QUERY", "ONLY"})
_OPERATORS = {"INDEXQUERY": "RLIKE     ", "INDEXQUERYALL": "RLIKE        "}


class AsOf(msgspec.Struct, frozen=True):
    """A version or a time, behind a table; `start` to `end` is its place."""

    kind: Literal["version", "timestamp"]
    token: Token
    start: int
    end: int


class Reference(msgspec.Struct, frozen=True):
    """One mention of a table. `is_path` for ``indextables.`path` ``, whose path is then `name`.

    `role` is `insert` for the target of an INSERT. `shown` is what columns may be qualified with, empty if the
    statement gives an alias or the place takes none.
    """

    number: int
    name: str
    is_path: bool
    role: Literal["read", "insert"]
    start: int
    end: int
    shown: str = ""
    as_of: AsOf | None = None


class Found(msgspec.Struct, frozen=True):
    """A statement with its references, the tree that they come from, and what was covered up in it."""

    text: str
    references: list[Reference]
    nodes: list[Any]
    tree: Any
    tokens: list[Token]
    operators: dict[int, str]
    keeps_names: bool
    """True for statements that store their text (CREATE VIEW, CACHE TABLE): what they name must stay."""


def has_signs(text: str) -> bool:
    """True if the statement may say something that only we understand: a path, a search, or a version."""
    lower = text.lower()
    return any(sign in lower for sign in _SIGNS) or _TRAVELS.search(text) is not None


def table_names(text: str) -> list[str]:
    """Names that stand where tables do, each once, parts joined by dots; there may be some that are none."""
    found: dict[str, None] = {}
    expected = False
    lists = [False]
    listed = list(tokens(text))
    for place, token in enumerate(listed):
        word = token.upper
        if word in _BEFORE_TABLES:
            expected = True
            lists[-1] = word == "FROM"
        elif word in _AFTER_TABLES:
            expected = lists[-1] = False
        elif token.text == "(":
            lists.append(lists[-1] and expected)
        elif token.text == ")":
            lists[-1:] = [] if len(lists) > 1 else [False]
            expected = False
        elif token.text == ",":
            expected = lists[-1]
        elif expected and token.kind in ("word", "name") and word not in _BETWEEN:
            found[_dotted(listed, place)] = None
            expected = False
    return list(found)


def find_references(text: str, is_known: Callable[[str], bool], *, is_format: bool = False) -> Found | None:
    """The references to tables of ours in `text`; None if there are none, or if it is no statement that has any.

    `is_known` tells for a name (its parts joined by dots) whether it means a table of ours. `is_format` says that
    `{name}` in the text stands for something else. Raises NotSupported for DELETE, UPDATE and MERGE of our tables.
    """
    if len(text) > MAX_TEXT_CHARS:
        return None
    listed = list(tokens(text))
    first = listed[0] if listed else None
    if first is None or (first.upper not in _FIRST_WORDS and first.text != "("):
        return None
    travels, operators, covered = _covered(text, listed, is_format=is_format)
    tree = _parsed(covered)
    if tree is None:
        return None
    return _collect(text, tree, listed, travels, operators, is_known)


def value_of(token: Token, listed: Sequence[Token], args: Args | None) -> object:
    """What a literal or a parameter stands for. Raises QueryInvalid for a parameter without a value."""
    if token.kind == "text":
        return unquoted(token)
    if token.kind == "number":
        return int(token.text) if token.text.isdigit() else float(token.text)
    if token.text == "?":
        marks = [t.start for t in listed if t.kind == "parameter" and t.text == "?"]
        place = marks.index(token.start)
        if args is not None and not isinstance(args, Mapping) and place < len(args):
            return args[place]
    elif isinstance(args, Mapping) and token.text[1:] in args:
        return args[token.text[1:]]
    raise QueryInvalid(f"no value is bound to {token.text}: give it in args", position=token.start)


def _dotted(listed: Sequence[Token], place: int) -> str:
    parts = [unquoted(listed[place])]
    while place + 2 < len(listed) and listed[place + 1].text == "." and listed[place + 2].kind in ("word", "name"):
        place += 2
        parts.append(unquoted(listed[place]))
    return ".".join(parts)


def _covered(text: str, listed: Sequence[Token], *, is_format: bool) -> tuple[dict[int, AsOf], dict[int, str], str]:
    """Time travel by the end of the table's name, search operators by position, and the text for sqlglot."""
    travels: dict[int, AsOf] = {}
    operators: dict[int, str] = {}
    chars = list(text)

    def cover(start: int, end: int, with_text: str = "") -> None:
        chars[start:end] = with_text.ljust(end - start)

    for place, token in enumerate(listed):
        before = listed[place - 1] if place else None
        after = listed[place + 1] if place + 1 < len(listed) else None
        if place == 0 and token.upper in _EXPLAIN_WORDS:
            for word in _leading(listed):
                cover(word.start, word.end)
        elif token.upper in _TRAVEL and before is not None:
            found = _as_of(listed, place)
            if found is not None:
                name = before if before.upper != "FOR" or place < 2 else listed[place - 2]
                travels[name.end] = found
                cover(found.start, found.end)
        elif token.text == "@" and before is not None and after is not None:
            if before.end == token.start and token.end == after.start and _is_version(after):
                number = Token("number", after.text[1:], after.start + 1)
                travels[before.end] = AsOf("version", number, token.start, after.end)
                cover(token.start, after.end)
        elif token.upper in _OPERATORS and after is not None and after.kind in ("text", "parameter"):
            operators[token.start] = token.upper
            cover(token.start, token.end, _OPERATORS[token.upper])
        elif is_format and token.text in "{}":
            cover(token.start, token.end, "_")
    return travels, operators, "".join(chars)


def _leading(listed: Sequence[Token]) -> list[Token]:
    """`EXPLAIN EXTENDED`, `DESCRIBE QUERY`; a plain DESCRIBE names a table and stays."""
    words: list[Token] = []
    for token in listed:
        if token.upper not in _EXPLAIN_WORDS:
            break
        words.append(token)
    return [] if [word.upper for word in words] in (["DESCRIBE"], ["DESC"]) else words


def _as_of(listed: Sequence[Token], place: int) -> AsOf | None:
    """`[FOR] VERSION AS OF 3`, `TIMESTAMP AS OF [TIMESTAMP] '...'` whose first keyword stands at `place`."""
    words = [token.upper for token in listed[place + 1 : place + 3]]
    if words != ["AS", "OF"]:
        return None
    at = place + 3
    if at < len(listed) and listed[at].upper in ("TIMESTAMP", "DATE"):
        at += 1
    if at >= len(listed) or listed[at].kind not in ("text", "number", "parameter"):
        return None
    first = listed[place - 1] if listed[place - 1].upper == "FOR" else listed[place]
    kind: Any = _TRAVEL[listed[place].upper]
    return AsOf(kind, listed[at], first.start, listed[at].end)


def _is_version(token: Token) -> bool:
    return token.kind == "word" and token.text[0] in "vV" and token.text[1:].isascii() and token.text[1:].isdigit()


def _parsed(text: str) -> Any:
    """One statement as a tree; None if it is none that sqlglot knows."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from indextables.query.dialect import DIALECT

    try:
        trees = [tree for tree in DIALECT.parser().parse(DIALECT.tokenize(text), text) if tree is not None]
    except (SqlglotError, RecursionError):
        return None
    return trees[0] if len(trees) == 1 and not isinstance(trees[0], exp.Command) else None


def _collect(
    text: str,
    tree: Any,
    listed: list[Token],
    travels: Mapping[int, AsOf],
    operators: dict[int, str],
    is_known: Callable[[str], bool],
) -> Found | None:
    from sqlglot import exp

    references: list[Reference] = []
    nodes: list[Any] = []
    for node in tree.find_all(exp.Table):
        parts = node.parts
        if not parts or not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts):
            continue
        name = ".".join(part.name for part in parts)
        is_path = len(parts) == 2 and parts[0].name.lower() == FORMAT and bool(parts[1].args.get("quoted"))
        if not is_path and (not name or (len(parts) == 1 and _is_hidden(node, name)) or not is_known(name)):
            continue
        role = _role(text, node)
        if role is None:
            continue
        end = parts[-1].meta["end"] + 1
        takes_alias = isinstance(node.parent, exp.From | exp.Join) and not node.alias and not node.args.get("sample")
        reference = Reference(
            number=len(references),
            name=parts[-1].name if is_path else name,
            is_path=is_path,
            role=role,
            start=parts[0].meta["start"],
            end=end,
            shown=text[parts[-1].meta["start"] : end] if takes_alias and not is_path else "",
            as_of=travels.get(end),
        )
        _check_travel(text, reference, listed)
        references.append(reference)
        nodes.append(node)
    if not references:
        return None
    keeps = isinstance(tree, exp.Cache) or (isinstance(tree, exp.Create) and tree.kind == "VIEW")
    return Found(text, references, nodes, tree, listed, operators, keeps)


def _is_hidden(node: Any, name: str) -> bool:
    """True if a name means what a WITH around it defines: there, or before it in the same WITH."""
    from sqlglot import exp

    below, at = node, node.parent
    while at is not None:
        if isinstance(at, exp.With):
            place = next((place for place, cte in enumerate(at.expressions) if cte is below), 0)
            seen = at.expressions[: place + bool(at.args.get("recursive"))]
        else:
            around = None if isinstance(below, exp.With) else at.args.get("with_") or at.args.get("with")
            seen = [] if around is None else around.expressions
        if any(cte.alias.lower() == name.lower() for cte in seen):
            return True
        below, at = at, at.parent
    return False


def _check_travel(text: str, reference: Reference, listed: Sequence[Token]) -> None:
    """Raises NotSupported for a version or a time that has to be computed."""
    words = [token.upper for token in listed if token.start >= reference.end][:4]
    words = words[1:] if words[:1] == ["FOR"] else words[:3]
    if reference.as_of is None and words[:1] and words[0] in _TRAVEL and words[1:3] == ["AS", "OF"]:
        message = f"{words[0]} AS OF takes a literal or a parameter for tables of IndexTables: compute it before"
        raise NotSupported(message, query=text, position=reference.end)


def _role(text: str, node: Any) -> Literal["read", "insert"] | None:
    """What is done with a table; None for what is none of our business. Raises NotSupported."""
    from sqlglot import exp

    parent = node.parent.parent if isinstance(node.parent, exp.Schema) else node.parent
    is_target = parent is not None and (parent.this is node or parent.this is node.parent)
    if isinstance(parent, exp.Insert) and is_target:
        return "insert"
    if isinstance(parent, exp.Delete | exp.Update | exp.Merge) and is_target:
        verb = type(parent).__name__.upper()
        message = f"{verb} is not offered for tables of IndexTables: overwrite partitions with replaceWhere instead"
        raise NotSupported(message, query=text)
    return None if isinstance(parent, exp.Create | exp.Cache) and is_target else "read"
