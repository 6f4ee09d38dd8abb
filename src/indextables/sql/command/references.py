"""Where does a statement of Spark speak about tables of ours? Found by position; the text itself stays as it is. Pure.

sqlglot reads the statement in Spark's dialect to find table references and searches. What it cannot read is left to
Spark, whose own error is the one to show. Spellings that it does not know (`t@v3`, `VERSION AS OF`, `TABLE t`,
`IDENTIFIER('t')`, `col INDEXQUERY 'q'`) are covered up by as many characters that it does, so that every position stays
true.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec

from indextables.errors import NotSupported, QueryInvalid
from indextables.query.literals import keeping_backslashes
from indextables.sql.command.cursor import Args
from indextables.sql.command.lexer import Token, tokens, unquoted

# What sqlglot cannot read is Spark's business; its warnings about it would go to the user's terminal.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

__all__ = [
    "FORMAT",
    "AsOf",
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
]

MAX_TEXT_CHARS = 1_000_000

FORMAT = "indextables"
_SIGNS = (FORMAT, "textsearch", "indexquery")
_FIRST_WORDS = frozenset(
    {"SELECT", "WITH", "FROM", "INSERT", "CREATE", "CACHE", "EXPLAIN", "DESCRIBE", "DESC"}
    | {"DELETE", "UPDATE", "MERGE", "TABLE", "VALUES"}
)
_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "INSERT", "TABLE", "VALUES"})
_PATH = re.compile(r"\bindextables\s*\.\s*`", re.IGNORECASE)
_EXPLAIN_WORDS = frozenset({"EXPLAIN", "EXTENDED", "CODEGEN", "COST", "FORMATTED", "DESCRIBE", "DESC", "QUERY"})
_TRAVEL = {"VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "timestamp", "SYSTEM_TIME": "timestamp"}
_TRAVELS = re.compile(r"\bAS\s+OF\b|@[vV]\d", re.IGNORECASE)
_BEFORE_TABLES = frozenset({"FROM", "JOIN", "INTO", "TABLE", "OVERWRITE", "UPDATE", "DESCRIBE", "DESC", "USING"})
_AFTER_TABLES = frozenset({"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "VALUES", "SET"})
# What stands before a query that is written as `TABLE t`, beside the beginning and a parenthesis.
_BEFORE_QUERIES = frozenset({"AS", "UNION", "EXCEPT", "INTERSECT", "MINUS", "ALL", "DISTINCT"})
_BEFORE_SUBQUERIES = frozenset({"", "AS", "FROM", "JOIN", "IN", "EXISTS", "LATERAL", "ANY", "SOME"}) | _BEFORE_QUERIES
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
    statement gives an alias or the place takes none; `shown_at` is where an alias stands, behind a sample.

    `shape` says what conditions beside it are about: its rows as they are (`plain`), a sample of them, or `other` rows
    and columns that the statement makes of them before (PIVOT, a list of names, a pipe).
    """

    number: int
    name: str
    is_path: bool
    role: Literal["read", "insert"]
    start: int
    end: int
    shown: str = ""
    shown_at: int = 0
    as_of: AsOf | None = None
    shape: Literal["plain", "sample", "other"] = "plain"


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


def has_path(text: str) -> bool:
    """True if the statement names a table by its path."""
    return _PATH.search(text) is not None


def may_read(text: str) -> bool:
    """True for a statement of a kind that may name tables: others are not looked at."""
    first = next(iter(tokens(text)), None)
    return first is not None and (first.upper in _FIRST_WORDS or first.text == "(")


def keeps_text(text: str) -> bool:
    """True for CREATE VIEW, temporary or not: Spark keeps its text, and reads it anew whenever the view is used."""
    words = [token.upper for _, token in zip(range(8), tokens(text), strict=False)]
    return words[:1] == ["CREATE"] and "VIEW" in words


def is_unread_query(text: str, args: Args | None = None) -> bool:
    """True for a query, or an INSERT, that cannot be read here: whose tables are not known."""
    listed = list(tokens(text))
    if not listed or (listed[0].upper not in _QUERY_WORDS and listed[0].text != "("):
        return False
    cover = _Cover(text)
    _cover_words(cover, listed, is_format=True)
    _cover_names(cover, listed, lambda _: True, args)
    return len(text) > MAX_TEXT_CHARS or _parsed(cover.text) is None


def table_names(text: str, args: Args | None = None) -> list[str]:
    """Names that stand where tables do, each once, parts joined by dots; there may be some that are none."""
    found: dict[str, None] = {}
    expected = False
    lists = [False]
    listed = list(tokens(text))
    for place, token in enumerate(listed):
        word = token.upper
        if word in _BEFORE_TABLES:
            expected = True
            lists[-1] = word == "FROM" or (lists[-1] and word in ("JOIN", "USING"))
        elif word in _AFTER_TABLES:
            expected = lists[-1] = False
        elif word == "ON":
            expected = False
        elif expected and (computed := _identifier_call(listed, place, args)) is not None:
            found[computed[1]] = None
            expected = False
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


def find_references(
    text: str, is_known: Callable[[str], bool], *, is_format: bool = False, args: Args | None = None
) -> Found | None:
    """The references to tables of ours in `text`; None if there are none, or if it is no statement that has any.

    `is_known` tells for a name (its parts joined by dots) whether it means a table of ours. `is_format` says that
    `{name}` in the text stands for something else. `args` are the values of parameters, of which a name may be one.
    Raises NotSupported for DELETE, UPDATE and MERGE of our tables.
    """
    if len(text) > MAX_TEXT_CHARS:
        return None
    listed = list(tokens(text))
    first = listed[0] if listed else None
    if first is None or (first.upper not in _FIRST_WORDS and first.text != "("):
        return None
    cover = _Cover(text)
    _cover_words(cover, listed, is_format=is_format)
    _cover_names(cover, listed, is_known, args)
    tree = _parsed(cover.text)
    return None if tree is None else _collect(text, tree, listed, cover, is_known)


def query_of(token: Token, found: Found, args: Args | None) -> object:
    """The query of a search. Raises QueryInvalid as `value_of`, and for a backslash that Spark's SQL would drop."""
    kept = keeping_backslashes(token.text) if token.kind == "text" else []
    if kept:
        message = f"SQL drops the backslash in {token.text[:120]}: write {kept[0][:120]} to keep it"
        raise QueryInvalid(message, query=found.text, position=token.start)
    return value_of(token, found.tokens, args)


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


class _Cover:
    """The text for sqlglot, and what it does not see of the statement's own."""

    def __init__(self, text: str) -> None:
        self._chars = list(text)
        self.travels: dict[int, AsOf] = {}
        """By the end of the table's name."""
        self.operators: dict[int, str] = {}
        """Of searches, by position."""
        self.names: dict[int, tuple[int, str]] = {}
        """End and name of each `IDENTIFIER(...)`, by position."""
        self.queries: set[int] = set()
        """Where tables stand that are a query by themselves, as in `TABLE t`."""

    def up(self, start: int, end: int, with_text: str = "") -> None:
        self._chars[start:end] = with_text.ljust(end - start)

    @property
    def text(self) -> str:
        return "".join(self._chars)


def _cover_words(cover: _Cover, listed: Sequence[Token], *, is_format: bool) -> None:
    """Versions, searches, EXPLAIN, and the braces of `{name}`."""
    for place, token in enumerate(listed):
        before = listed[place - 1] if place else None
        after = listed[place + 1] if place + 1 < len(listed) else None
        if place == 0 and token.upper in _EXPLAIN_WORDS:
            for word in _leading(listed):
                cover.up(word.start, word.end)
        elif token.upper in _TRAVEL and before is not None:
            found = _as_of(listed, place)
            if found is not None:
                name = before if before.upper != "FOR" or place < 2 else listed[place - 2]
                cover.travels[name.end] = found
                cover.up(found.start, found.end)
        elif token.text == "@" and before is not None and after is not None:
            if before.end == token.start and token.end == after.start and _is_version(after):
                number = Token("number", after.text[1:], after.start + 1)
                cover.travels[before.end] = AsOf("version", number, token.start, after.end)
                cover.up(token.start, after.end)
        elif token.upper in _OPERATORS and after is not None and after.kind in ("text", "parameter"):
            cover.operators[token.start] = token.upper
            cover.up(token.start, token.end, _OPERATORS[token.upper])
        elif is_format and token.text in "{}":
            cover.up(token.start, token.end, "_")


def _cover_names(cover: _Cover, listed: Sequence[Token], is_known: Callable[[str], bool], args: Args | None) -> None:
    """`TABLE t` as `FROM  t`, and `IDENTIFIER('t')` as a quoted name of the same length."""
    for place, token in enumerate(listed):
        computed = _identifier_call(listed, place, args)
        if computed is not None and is_known(computed[1]):
            end = listed[computed[0]].end
            cover.names[token.start] = (end, computed[1])
            cover.up(token.start, end, "`" + "_" * (end - token.start - 2) + "`")
        elif token.upper == "TABLE" and place + 1 < len(listed) and _is_query(listed, place):
            cover.queries.add(listed[place + 1].start)
            cover.up(token.start, token.end, "FROM")


def _is_query(listed: Sequence[Token], place: int) -> bool:
    """True if the TABLE at `place` begins a query."""
    if listed[place + 1].kind not in ("word", "name"):
        return False
    before = listed[len(_leading(listed)) : place]
    if not before:
        return True
    last = before[-1]
    if last.text == "(":
        return len(before) == 1 or before[-2].upper in _BEFORE_SUBQUERIES
    if last.upper in _BEFORE_QUERIES:
        return True
    return before[0].upper in ("INSERT", "WITH") and last.upper not in ("INTO", "OVERWRITE")


def _identifier_call(listed: Sequence[Token], place: int, args: Args | None) -> tuple[int, str] | None:
    """The place of the last token, and the name, of an `IDENTIFIER(...)` of a literal or a parameter with a value."""
    part = listed[place : place + 4]
    if len(part) < 4 or part[0].upper != "IDENTIFIER" or (part[1].text, part[3].text) != ("(", ")"):
        return None
    if part[2].kind not in ("text", "parameter"):
        return None
    try:
        value = value_of(part[2], listed, args)
    except QueryInvalid:
        return None
    if not isinstance(value, str):
        return None
    inside = list(tokens(value))
    is_name = len(inside) % 2 == 1 and all(part.kind in ("word", "name") for part in inside[::2])
    if not is_name or any(dot.text != "." for dot in inside[1::2]):
        return None
    return place + 3, ".".join(unquoted(part) for part in inside[::2])


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
    except (SqlglotError, RecursionError, AttributeError):
        # `SELECT * FROM t |> LIMIT 3` ends in an AttributeError of sqlglot.
        return None
    return trees[0] if len(trees) == 1 and not isinstance(trees[0], exp.Command) else None


def _collect(text: str, tree: Any, listed: list[Token], cover: _Cover, is_known: Callable[[str], bool]) -> Found | None:
    from sqlglot import exp

    references: list[Reference] = []
    nodes: list[Any] = []
    is_piped = any(a.text == "|" and b.text == ">" and a.end == b.start for a, b in pairwise(listed))
    for node in tree.find_all(exp.Table):
        parts = node.parts
        if not parts or not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts):
            continue
        start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        # The names in a hint have positions of their own.
        if node.find_ancestor(exp.Hint) is not None:
            continue
        _, computed = cover.names.get(start, (0, ""))
        name = computed or ".".join(part.name for part in parts)
        is_path = len(parts) == 2 and parts[0].name.lower() == FORMAT and bool(parts[1].args.get("quoted"))
        is_single = len(parts) == 1 and "." not in computed
        if not is_path and (not name or (is_single and _is_hidden(node, name)) or not is_known(name)):
            continue
        role = _role(text, node)
        if role is None:
            continue
        takes_alias = isinstance(node.parent, exp.From | exp.Join | exp.Merge) and not node.alias
        as_of = cover.travels.get(end)
        behind = end if as_of is None else as_of.end
        last = f"`{name.rpartition('.')[2]}`" if computed else text[parts[-1].meta["start"] : end]
        reference = Reference(
            number=len(references),
            name=parts[-1].name if is_path else name,
            is_path=is_path,
            role=role,
            start=start,
            end=end,
            shown=last if takes_alias and not is_path and start not in cover.queries else "",
            shown_at=_after_sample(listed, behind) if node.args.get("sample") else behind,
            as_of=as_of,
            shape="other" if is_piped else _shape(node),
        )
        _check_travel(text, reference, listed)
        references.append(reference)
        nodes.append(node)
    if not references:
        return None
    keeps = isinstance(tree, exp.Cache) or (isinstance(tree, exp.Create) and tree.kind == "VIEW")
    return Found(text, references, nodes, tree, listed, cover.operators, keeps)


def _shape(node: Any) -> Literal["plain", "sample", "other"]:
    """What the conditions of the SELECT around a table see of it."""
    from sqlglot import exp

    select = node.find_ancestor(exp.Select)
    first = None if select is None else select.args.get("from_") or select.args.get("from")
    beside = [] if first is None else [first.this, *(join.this for join in select.args.get("joins") or ())]
    alias = node.args.get("alias")
    if any(source.args.get("pivots") for source in (node, *beside)) or (alias is not None and alias.columns):
        return "other"
    return "sample" if node.args.get("sample") else "plain"


def _after_sample(listed: Sequence[Token], start: int) -> int:
    """Where `TABLESAMPLE (...) [REPEATABLE (...)]`, which begins behind `start`, ends."""
    depth, end = 0, start
    for token in listed:
        if token.start < start:
            continue
        if depth == 0 and token.text != "(" and token.upper not in ("TABLESAMPLE", "REPEATABLE"):
            break
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        end = token.end
    return end


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
        message = (
            f"{verb}: there is no table of IndexTables at {node.name}, and tables of other systems are only read here. "
            "Check the path, or copy the rows into a table of ours with convert. Nothing was written"
        )
        raise NotSupported(message, query=text)
    return None if isinstance(parent, exp.Create | exp.Cache) and is_target else "read"
