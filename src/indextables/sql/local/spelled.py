"""Puts what people know from Spark into words of DataFusion, or says what to write instead. Pure."""

from __future__ import annotations

import re

from indextables.sql.command import QUOTED

__all__ = ["INSTEAD", "as_shown", "with_parts"]

INSTEAD = {
    "explode": "write unnest(list) in the SELECT list",
    "posexplode": "write unnest(list) in the SELECT list",
    "size": "write cardinality(list)",
    "array": "write [1, 2]",
    "collect_list": "write array_agg(x)",
    "collect_set": "write array_agg(DISTINCT x)",
    "array_contains": "write array_has(list, value)",
    "if": "write CASE WHEN a THEN b ELSE c END",
    "iff": "write CASE WHEN a THEN b ELSE c END",
    "isnull": "write x IS NULL",
    "isnotnull": "write x IS NOT NULL",
    "rlike": "write column ~ 'pattern'",
    "regexp": "write column ~ 'pattern'",
    "date_add": "write day + INTERVAL '1 day'",
    "date_sub": "write day - INTERVAL '1 day'",
    "datediff": "write date_part('day', a - b)",
    "dayofweek": "write date_part('dow', day) + 1",
    "dayofmonth": "write day(x)",
    "dayofyear": "write date_part('doy', day)",
    "weekofyear": "write date_part('week', day)",
    "unix_timestamp": "write CAST(date_part('epoch', ts) AS BIGINT)",
    "getdate": "write now()",
    "len": "write length(text)",
    "mod": "write a % b",
    "sign": "write signum(x)",
    "add_months": "write day + INTERVAL '1 month'",
    "last_day": "write date_trunc('month', day) + INTERVAL '1 month' - INTERVAL '1 day'",
    "double": "write CAST(x AS DOUBLE)",
    "string": "write CAST(x AS VARCHAR)",
    "instr": "write strpos(text, part)",
    "locate": "write strpos(text, part)",
    "get_json_object": "make a struct of it before it is written",
    "element_at": "write list[1] or struct['field']",
    "percentile": "write approx_percentile_cont(x, 0.95)",
    "percentile_approx": "write approx_percentile_cont(x, 0.95)",
    "score": "write _score",
    "std": "write stddev(x)",
    "textsearch": "explain(query, where) of a table tells how a search is answered",
}
"""What to write instead of a function that DataFusion does not have."""

_PARTS = "year|quarter|month|day|hour|minute|second"
_CALL = re.compile(rf"(?<![\w.$@])(?P<part>{_PARTS})\s*\(", re.IGNORECASE)
_WRITTEN = re.compile(rf"date_part\('(?P<part>{_PARTS})', ")


def with_parts(text: str) -> str:
    """`text` with `date_part('year', ` for `year(`, and so on, which mean in a predicate what they mean here."""
    bare = QUOTED.sub(lambda found: " " * len(found[0]), text)
    for found in reversed(list(_CALL.finditer(bare))):
        text = f"{text[: found.start()]}date_part('{found['part'].lower()}', {text[found.end() :]}"
    return text


def as_shown(name: str, text: str) -> str:
    """The name of a column of an answer, as the statement spells it."""
    return name if "date_part" in text.lower() else _WRITTEN.sub(lambda found: f"{found['part']}(", name)
