"""Turns what DataFusion says about a statement that it does not run into one sentence with what to do next. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from indextables.errors import IndexTablesError, NotSupported, QueryInvalid
from indextables.sql.command import no_decimal
from indextables.sql.local.division import SIGNS, ZERO
from indextables.sql.local.spelled import INSTEAD

__all__ = ["ONE_NAME", "explained", "placed_in"]

ONE_NAME = "Projections require unique expression names"
"""What DataFusion says of a SELECT with two columns of one name."""

# Functions that only DataFusion's simplifier can evaluate, in a statement that runs without it.
_UNSIMPLIFIED = re.compile(r"(?:on a simplified )?\b(?P<name>\w+)(?: should have been simplified|\(\) function\b)")
_PREFIXES = re.compile(
    r"^(DataFusion error: |Error during planning: |Schema error: |SQL error: |Execution error: |Arrow error: |"
    r"This feature is not implemented: |Optimizer rule '\w+' failed\s+caused by\s+|\w+\ncaused by\n)+"
)
_KINDS = (
    (re.compile("Interval|Duration"), "a span of time"),
    (re.compile("U?Int"), "a whole number"),
    (re.compile("Float|Decimal"), "a number"),
    (re.compile("Boolean"), "true or false"),
    (re.compile("Date"), "a date"),
    (re.compile("Timestamp|Time"), "a time"),
    (re.compile("(Large)?Utf8|String"), "a text"),
    (re.compile("(Large|FixedSize)?Binary"), "bytes"),
    (re.compile("(Large|FixedSize)?List"), "a list"),
    (re.compile("Struct"), "a struct"),
    (re.compile("Map"), "a map"),
    (re.compile("Null"), "null"),
)
_ALIKE = 0.88

_NO_TABLE = re.compile(r"table '(?P<name>.*)' not found$")
_NO_COLUMN = re.compile(
    r"No field named (?P<name>.+?)\.(?: Did you mean '(?P<near>[^']*)'\?)?(?: Valid fields are (?P<known>.*)\.)?$"
)
_NO_FUNCTION = re.compile(r"Invalid function '(?P<name>[^']*)'\.(?: Did you mean '(?P<near>[^']*)'\?)?")
_NO_VALUE = re.compile(r"Cast error: Cannot cast (?:string|value) '?(?P<value>.*?)'? to value of (?P<kind>\w+)")
_NO_PARSE = re.compile(r"(?:Cast|Parser) error: Error parsing (?:timestamp from )?'(?P<value>.*?)'")
# What DataFusion says, in many ways, of a function whose arguments are of other types than it takes.
_NO_CALL = re.compile(
    r"name and argument types '(?P<name>\w+)\((?P<kinds>.*?)\)'\.|"
    r"Function '(?P<other>\w+)' (?:failed to match|requires|expects).*?received (?P<kind>[A-Z][^,.]*)|"
    r"\b(?P<third>\w+)\(?\)? (?:function )?(?:does not support|not supported for|can only take|expects?|requires?) .*?"
    r"(?:got|received|found):? (?P<last>\w+)"
)
_COUNT = re.compile(r"[Ff]unction '?(?P<name>\w+)'? expects (?P<wanted>\d+) arguments? but received (?P<given>\d+)")
_NO_SUM = re.compile(
    r"Cannot (?:coerce arithmetic expression|infer common argument type for comparison operation|get result type for "
    r"(?:arithmetic|temporal) operation|"
    r"infer common (?:string )?type for (?:bitwise|string concat) operation) "
    r"(?P<left>\S.*?) (?P<sign>[-+*/%<>=!~|&^]+) "
    r"(?P<right>\w.*?)(?: to valid types|: .*)?$"
)
_NO_RESULT = re.compile(r"ArithmeticError\('(?P<what>[^']*)'\)")
_NO_LIKE = re.compile(r"There isn't a common type to coerce (?P<left>.+) and (?P<right>.+) in (?P<word>LIKE|RLIKE)")
_BUG = re.compile(r"Internal error: |\.?\s*This issue was likely caused by a bug in DataFusion.*", re.DOTALL)
_NOT_GROUPED = re.compile(r'column "(?P<name>[^"]*)" must appear in the GROUP BY')
_NO_FIELD = re.compile(r"Field (?P<name>\S+) not found in struct")
_NO_INFIX = re.compile(r".*No infix parser for token Word\(Word \{ value: \\?\"(?P<word>\w+)")
_LOCATION = re.compile(r"(?:Location\(|Line: )(?P<line>\d+)(?:,| Column:|, Column:) ?(?P<column>\d+)")
_UNNEST = re.compile(r"\bunnest\s*\(", re.IGNORECASE)
_NO_BOOLEANS = re.compile(
    r"logical boolean operation (?P<left>\S+) (?P<sign>AND|OR) (?P<right>\S+)|"
    r"operator 'NOT' requires a boolean expression, got (?P<negated>\w+)|"
    r"non-boolean predicate .* returning (?P<whole>\w+)"
)
_TOO_LARGE = re.compile(
    r"(?:Overflow happened on: |Array overflow on )(?P<what>.*)$|Can't cast value (?P<value>\S+) to type"
)
_OPERATORS = {
    "PGOverlap": "&& is not offered: write AND",
    "BitwiseNot": "~ before a value is not offered: write -x - 1",
}
_NO_OPERATOR = re.compile(r"Unsupported (?:SQL )?(?:binary|unary) operator:? ?(?P<name>\w+)")
_NO_NODE = re.compile(r"Unsupported ast node (?P<name>\w+)")


def explained(text: str, cause: Exception, tables: Sequence[str] = ()) -> IndexTablesError:
    """The error to raise for what DataFusion raised about `text`; `tables` are those that it could have read."""
    message = " ".join(_PREFIXES.sub("", str(cause)).replace("datafusion.public.", "").split())
    refused = _not_offered(text, message)
    if refused is not None:
        return refused
    if "only supports a single SQL statement" in message:
        return QueryInvalid("give one statement, not several", query=text, position=0)
    if message.startswith("No SQL statements were provided"):
        return QueryInvalid("the statement is empty", query=text, position=0)
    plain = _about_names(message, tables) or _about_values(message) or _about_types(message)
    if plain is not None:
        return QueryInvalid(plain[:500], query=text, position=_place_of(_word_of(message), text))
    plain, position = _placed(text, message)
    return QueryInvalid(plain[:500], query=text, position=position)


def placed_in(text: str, fault: IndexTablesError) -> IndexTablesError:
    """The same error about `text`, where it speaks of what that was rewritten to."""
    query, position = fault.details.get("query"), fault.details.get("position")
    if not isinstance(query, str) or query == text or query in text:
        return fault
    word = re.match(r"'[^']*'|[^\W\d]\w*|\S", query[position:]) if isinstance(position, int) else None
    place = None if word is None else _place_of(word[0], text)
    moved = type(fault)(str(fault), **{**fault.details, "query": text, "position": place})
    moved.__cause__ = fault.__cause__
    return moved


_QUOTED = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)


def _word_of(message: str) -> str:
    """The name or the value that DataFusion complains about; empty if it is none of the statement."""
    for pattern in (_NO_TABLE, _NO_COLUMN, _NO_FUNCTION, _NO_FIELD, _NOT_GROUPED, _NO_VALUE, _NO_PARSE, _COUNT):
        if found := pattern.search(message):
            parts = found.groupdict()
            return f"'{parts['value']}'" if "value" in parts else parts["name"].split(".")[-1].strip('"')
    found = _NO_CALL.search(message)
    return (found["name"] or found["other"] or found["third"]) if found else ""


def _place_of(word: str, text: str) -> int | None:
    """Where a word stands in a statement, outside of quotes and comments; a text in quotes where it stands."""
    if not word:
        return None
    if word.startswith("'"):
        at = text.find(word)
        return None if at < 0 else at
    blank = _QUOTED.sub(lambda found: " " * len(found[0]), text)
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", blank, re.IGNORECASE)
    return None if found is None else found.start()


def _not_offered(text: str, message: str) -> NotSupported | None:
    if "Cannot cast to Decimal128(" in message:
        return no_decimal(text)
    what = None
    if re.search(r"(DDL|DML|Statement) not supported", message):
        what = "only queries are run here: give a SELECT statement"
    elif found := _UNSIMPLIFIED.search(message):
        what = (
            f"{found['name']} is not offered beside lists of values that meet in one condition: write CASE WHEN a IS "
            "NULL THEN b ELSE a END for coalesce(a, b), give the time as a parameter, or make one list of them"
        )
    elif _UNNEST.search(text) and ("outer_ref" in message or "does not support logical expression" in message):
        what = (
            "unnest of a column is offered in the SELECT list, not in FROM or in a subquery: write SELECT id, "
            "unnest(tags) AS tag FROM t, and conditions on it in a query around that; array_has(tags, 'x') tells "
            "whether a list holds a value"
        )
    elif message.startswith("LATERAL VIEW"):
        what = "LATERAL VIEW is not offered: write SELECT id, unnest(tags) AS tag FROM t"
    elif found := _NO_INFIX.match(message):
        what = f"{found['word']} is no operator here"
    elif message.startswith("Dot access not supported"):
        what = "a field of what an expression gives is written (expression)['field']"
    elif "Physical plan does not support logical expression" in message:
        what = (
            "a subquery of this kind is not offered at this place: write (SELECT count(*) > 0 FROM ...) for EXISTS "
            "(SELECT ... FROM ...), a join, or WITH and a join"
        )
    elif message == "TOP":
        what = "TOP is not offered: write LIMIT at the end of the statement"
    elif message.startswith("FETCH clause"):
        what = "FETCH is not offered: write LIMIT 5 for FETCH FIRST 5 ROWS ONLY"
    elif found := _NO_NODE.match(message):
        name = found["name"].upper()
        instead = ": write sum(x) FILTER (WHERE ...) or CASE WHEN for each column" if name == "PIVOT" else ""
        what = f"{name} is not offered{instead}"
    place = _LOCATION.search(message)
    at = None if place is None else _offset(text, int(place["line"]), int(place["column"]))
    return None if what is None else NotSupported(what, query=text, position=at)


def _about_names(message: str, tables: Sequence[str]) -> str | None:
    if message.startswith("No field named") and "__search" in message:
        return "TEXTSEARCH cannot be used at this place; use it in WHERE beside the table's FROM"
    if found := _NO_TABLE.match(message):
        known = f"the tables are {', '.join(tables)}" if len(tables) > 1 else f"the table is called {''.join(tables)}"
        return f"there is no table {found['name']!r} here: {known}"
    if found := _NO_COLUMN.match(message):
        near = f" (is {found['near']} meant?)" if found["near"] else ""
        known = f"; the columns are {_columns(found['known'])}" if found["known"] else ""
        return f"there is no column {found['name']}{near}{known}"
    if found := _NO_FUNCTION.match(message):
        is_near = SequenceMatcher(None, found["name"].lower(), found["near"] or "").ratio() >= _ALIKE
        instead = INSTEAD.get(found["name"].lower())
        said = f": {instead}" if instead else f" (is {found['near']} meant?)" if is_near else ""
        return f"there is no function {found['name']}{said}"
    if found := _NO_FIELD.match(message):
        return f"the struct has no field {found['name']}"
    if found := _NOT_GROUPED.search(message):
        return f"{found['name']} is neither in GROUP BY nor in an aggregate: put it there, or write max(...) of it"
    if message.startswith("For SELECT DISTINCT, ORDER BY"):
        return "SELECT DISTINCT is ordered by columns of its own: write ORDER BY 1, or give it a name with AS"
    if message.startswith(ONE_NAME):
        return "two columns of one SELECT have the same name: give one of them another with AS"
    return None


def _columns(known: str) -> str:
    """Names of columns, each once, and without the table where there is only one."""
    names = list(dict.fromkeys(known.split(", ")))
    tables = {name.rpartition(".")[0] for name in names}
    return ", ".join(name.rpartition(".")[2] if len(tables) == 1 else name for name in names)


def _about_values(message: str) -> str | None:
    if found := _NO_VALUE.search(message):
        return f"{found['value']!r} is not {_kind_of(found['kind'])}; TRY_CAST gives null instead of this error"
    if found := _NO_PARSE.search(message):
        return f"{found['value']!r} is not a date or time; TRY_CAST gives null instead of this error"
    if message.startswith(ZERO) or f"ArithmeticError('{ZERO}')" in message:
        return "a number is divided by zero: write a / nullif(b, 0), which is null then"
    if found := _NO_RESULT.search(message):
        return found["what"]
    if found := _TOO_LARGE.search(message):
        if found["value"]:
            return f"{found['value']} is too large for the type of the CAST; TRY_CAST gives null instead of this error"
        return f"the result of {found['what'][:60]} is too large for its type: CAST to a wider one first"
    if "non UTF-8 data" in message:
        return "bytes that are no text are taken for one: encode(bytes, 'hex') shows them"
    if "square root of a negative number" in message:
        return "a square root of a negative number is asked for: write sqrt(CASE WHEN x >= 0 THEN x END)"
    return None


def _about_types(message: str) -> str | None:
    if "any signature" not in message and (found := _COUNT.search(message)):
        return f"{found['name']} takes another number of values than {found['given']}"
    if found := _NO_SUM.search(message):
        left, right = _kind_of(found["left"]), _kind_of(found["right"])
        return f"{left} {found['sign']} {right} cannot be computed: CAST one of them"
    if found := _NO_BOOLEANS.search(message):
        shown = [found[name] for name in ("left", "right", "negated", "whole") if found[name]]
        wrong = next((kind for kind in shown if not kind.startswith("Boolean")), shown[0])
        return f"a condition is true or false, not {_kind_of(wrong)}: compare it with a value"
    if found := _NO_OPERATOR.search(message):
        return _OPERATORS.get(found["name"], f"the operator {found['name']} is not offered")
    if found := _NO_LIKE.search(message):
        return (
            f"LIKE compares texts, not {_kind_of(found['left'])} with {_kind_of(found['right'])}: CAST them to VARCHAR"
        )
    if message.startswith("Substring without for/from"):
        return "substr takes a text and a place: write substr(s, 1, 3)"
    if found := _NO_CALL.search(message):
        name = (found["name"] or found["other"] or found["third"]).replace("btrim", "trim")
        name = SIGNS.get(name, name)
        given = found["kinds"] or found["kind"] or found["last"] or ""
        kinds = " and ".join(dict.fromkeys(map(_kind_of, re.split(r", (?![^(]*\))", given)))) if given else "nothing"
        return f"{name} does not take {kinds}: CAST the value to what it takes, or use another function"
    if _BUG.search(message):
        return f"DataFusion does not run this statement: {_BUG.sub('', message)[:200]}"
    return None


def _kind_of(shown: str) -> str:
    """A type, as DataFusion shows it, in plain words."""
    return next((words for pattern, words in _KINDS if pattern.match(shown.strip())), shown.strip())


def _placed(text: str, message: str) -> tuple[str, int | None]:
    """The message of a parser without its wrapping, and the position it speaks of."""
    if found := re.search(r"^\w*Error\(\"Expected: (?P<wanted>.*), found: EOF\"\)$", message):
        return f"the statement ends where {found['wanted']} is expected", len(text)
    found = re.search(r"^\w*Error\(\"(?P<what>.*?),? ?\.? at Line: (?P<line>\d+), Column: (?P<column>\d+)\"\)", message)
    if found is None:
        return message, None
    line, column = int(found["line"]), int(found["column"])
    what = found["what"].replace('\\"', '"')
    if what.startswith("Unterminated string literal") or "close delimiter" in what:
        what = "a quote is not closed"
    return f"{what} (line {line}, column {column})", _offset(text, line, column)


def _offset(text: str, line: int, column: int) -> int:
    """The place in a text of a line and a column, both counted from 1."""
    start = sum(len(part) + 1 for part in text.split("\n")[: line - 1])
    return min(start + column - 1, len(text))
