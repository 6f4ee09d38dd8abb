"""Turns SQL text into a typed predicate: limits, tokens and positions. What the words mean is in `bind`.

sqlglot is imported on first use. It reads the text as Spark does; nothing is ever executed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from indextables.errors import LimitExceeded, QueryInvalid
from indextables.query.convert import check_zone
from indextables.query.expr import Node, walk
from indextables.query.literals import keeping_backslashes, meant_as_column
from indextables.query.scope import Scope
from indextables.query.simplify import simplify

__all__ = ["MAX_DEPTH", "MAX_TEXT_CHARS", "MAX_TOKENS", "depends_on_zone", "parse", "parse_value"]

MAX_TEXT_CHARS = 1_000_000
MAX_TOKENS = 200_000
MAX_DEPTH = 32

_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(text: str, schema: pa.Schema | Scope, *, time_zone: str = "UTC") -> Node:
    """The predicate that `text` states about rows of `schema`, typed and simplified.

    Columns are found in any case and named as the schema names them. Literals without a zone are in `time_zone`.
    Raises QueryInvalid (with `position`) for anything that is not such a predicate: unknown columns, types that do not
    compare, aggregates, subqueries, statements; LimitExceeded for text that is too long or too deep.
    """
    from indextables.query.bind import Binder

    check_zone(time_zone)
    scope = schema if isinstance(schema, Scope) else Scope(schema)
    try:
        tree = _read(text)
        _check_double_quotes(tree, text, scope.names)
        bound = Binder(text, scope, time_zone).predicate(tree)
    except RecursionError:
        raise _too_deep(text) from None
    except QueryInvalid as fault:
        raise _naming_columns(fault, text, scope.names) from fault.__cause__
    return simplify(bound)


def parse_value(text: str, schema: pa.Schema | Scope, *, time_zone: str = "UTC") -> Node:
    """The value of any type that `text` computes from a row of `schema`. Raises as `parse`."""
    from indextables.query.bind import Binder

    check_zone(time_zone)
    scope = schema if isinstance(schema, Scope) else Scope(schema)
    try:
        return simplify(Binder(text, scope, time_zone).value(_read(text)))
    except RecursionError:
        raise _too_deep(text) from None
    except QueryInvalid as fault:
        raise _naming_columns(fault, text, scope.names) from fault.__cause__


def _check_double_quotes(tree: Any, text: str, columns: Sequence[str]) -> None:
    if misread := meant_as_column(tree, text, columns):
        position, message = misread
        raise QueryInvalid(message, query=text, position=position)


def depends_on_zone(text: str, schema: pa.Schema) -> bool:
    """True if a predicate means other rows in another time zone. Raises as `parse`."""
    where = parse(text, schema)
    if not any(pa.types.is_timestamp(node.type) for node in walk(where)):
        return False
    return bool(where != parse(text, schema, time_zone="Etc/GMT+11"))


def _read(text: str) -> Any:
    if not isinstance(text, str):
        message = f"where takes SQL text, not {type(text).__name__}; a Spark Column belongs into DataFrame.where()"
        raise QueryInvalid(message, query="", position=0)
    if len(text) > MAX_TEXT_CHARS:
        message = f"the predicate has {len(text)} characters, the limit is {MAX_TEXT_CHARS}"
        raise LimitExceeded(message, limit=MAX_TEXT_CHARS, actual=len(text))
    surrogate = _SURROGATE.search(text)
    if surrogate is not None:
        message = f"half a surrogate pair is not a character: character {surrogate.start() + 1} of the predicate"
        raise QueryInvalid(message, query=text, position=surrogate.start())
    from sqlglot.errors import ParseError, TokenError

    from indextables.query.dialect import EXPRESSIONS

    try:
        tokens = EXPRESSIONS.tokenize(text)
        _check_size(text, tokens)
        _check_backslashes(text, tokens)
        _check_one_expression(text, tokens)
        trees = EXPRESSIONS.parser().parse(tokens, text)
    except TokenError as cause:
        raise _bad_token(text, cause) from cause
    except ParseError as cause:
        raise _bad_grammar(text, cause) from cause
    except RecursionError:
        raise _too_deep(text) from None
    found = [tree for tree in trees if tree is not None]
    if not found:
        raise QueryInvalid("the predicate is empty; give one SQL expression", query=text, position=0)
    return found[0]


def _check_one_expression(text: str, tokens: Any) -> None:
    """Raises QueryInvalid for two texts with a semicolon between them, and for a statement."""
    from sqlglot import TokenType

    from indextables.query.dialect import STATEMENTS

    ends = [place for place, token in enumerate(tokens) if token.token_type == TokenType.SEMICOLON]
    if ends and any(token.token_type != TokenType.SEMICOLON for token in tokens[ends[0] :]):
        message = "the predicate holds more than one statement; give one SQL expression"
        raise QueryInvalid(message, query=text, position=0)
    names = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.FROM}
    if len(tokens) > 1 and tokens[0].text.upper() in STATEMENTS and tokens[1].token_type in names:
        message = f"{_excerpt(text)} is a statement, which is not offered in a predicate: give one SQL expression"
        raise QueryInvalid(message, query=text, position=0)


def _naming_columns(fault: QueryInvalid, text: str, columns: Sequence[str]) -> QueryInvalid:
    """The fault, which also says how to write a column whose name stands in `text` as a word of SQL."""
    from sqlglot import TokenType
    from sqlglot.errors import TokenError

    from indextables.query.dialect import EXPRESSIONS

    names = {column.lower(): column for column in columns}
    try:
        tokens = EXPRESSIONS.tokenize(text)
    except (TokenError, TypeError):
        return fault
    plain = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING}
    words = [names.get(token.text.lower()) for token in tokens if token.token_type not in plain]
    column = next((word for word in words if word is not None), None)
    if column is None:
        return fault
    message = f"{fault}. {column} is a word of SQL; where the column is meant, write it in backticks: `{column}`"
    return QueryInvalid(message, **fault.details)


def _check_size(text: str, tokens: Any) -> None:
    from sqlglot import TokenType

    if len(tokens) > MAX_TOKENS:
        message = f"the predicate has {len(tokens)} words and signs, the limit is {MAX_TOKENS}"
        raise LimitExceeded(message, limit=MAX_TOKENS, actual=len(tokens))
    opening = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
    closing = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
    prefix = {TokenType.NOT, TokenType.DASH, TokenType.TILDE, TokenType.PLUS}
    depth = run = 0
    for token in tokens:
        run = run + 1 if token.token_type in prefix else 0
        if token.token_type in opening:
            depth += 1
        elif token.token_type in closing:
            depth -= 1
        if max(depth, run) > MAX_DEPTH:
            raise _too_deep(text)


def _check_backslashes(text: str, tokens: Any) -> None:
    """Raises QueryInvalid for a literal of which Spark's SQL would drop a backslash."""
    from sqlglot import TokenType

    for token in tokens:
        typed = text[token.start : token.end + 1]
        if token.token_type != TokenType.STRING or "\\" not in typed:
            continue
        if kept := keeping_backslashes(typed):
            message = f"SQL drops the backslash in {typed[:120]}: write {' or '.join(k[:120] for k in kept)} to keep it"
            raise QueryInvalid(message, query=text, position=token.start)


def _too_deep(text: str) -> LimitExceeded:
    message = f"the predicate is nested deeper than {MAX_DEPTH} levels: {_excerpt(text)}"
    return LimitExceeded(message, limit=MAX_DEPTH)


def _bad_token(text: str, cause: Exception) -> QueryInvalid:
    position = _open_quote(text)
    what = "a quote is not closed" if position < len(text) else str(cause)
    return QueryInvalid(f"{what} in the predicate {_excerpt(text)}", query=text, position=position)


def _bad_grammar(text: str, cause: Any) -> QueryInvalid:
    fault = cause.errors[0] if cause.errors else {}
    position = _offset(text, fault.get("line") or 1, (fault.get("col") or 1) - len(fault.get("highlight") or ""))
    what = fault.get("description") or "not a SQL expression"
    if "missing for <class" in what:
        what = "an operand is missing"
    message = f"{what} at character {position + 1} of the predicate {_excerpt(text)}"
    return QueryInvalid(message, query=text, position=position)


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    before = sum(len(part) + 1 for part in lines[: line - 1])
    return max(0, min(len(text), before + column))


def _open_quote(text: str) -> int:
    """Where the quote begins that never ends, or the end of the text if all are closed."""
    index = 0
    while index < len(text):
        char = text[index]
        if char in "'\"`":
            start = index
            index += 1
            while index < len(text) and text[index] != char:
                index += 2 if text[index] == "\\" and char != "`" else 1
            if index >= len(text):
                return start
        index += 1
    return len(text)


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:120] + "...")
