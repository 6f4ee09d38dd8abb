"""Strategies that make a query text together with its meaning, for every query kind."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from tests.split.search_world import EPOCH, HOSTS, WORDS, Row, address, edits, has_phrase, words_of

Meaning = Callable[[Row], bool]
Case = tuple[str, Meaning]

TEXT = ("message", "title")


def _attr(row: Row, *path: str) -> Any:
    value: Any = row["attrs"]
    for part in path:
        value = None if value is None else value[part]
    return value


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _word() -> st.SearchStrategy[str]:
    return st.sampled_from([*WORDS, "missing", "TIME"])


def terms() -> st.SearchStrategy[Case]:
    def one(field: str, word: str) -> Case:
        return f"{field}:{word}", lambda row: word.lower() in words_of(row[field])

    def both(word: str) -> Case:
        return word, lambda row: any(word.lower() in words_of(row[f]) for f in TEXT)

    return st.one_of(st.builds(one, st.sampled_from(TEXT), _word()), st.builds(both, _word()))


def phrases() -> st.SearchStrategy[Case]:
    def exact(field: str, words: list[str]) -> Case:
        text = " ".join(words)
        return f"{field}:{_quoted(text)}", lambda row: has_phrase(row[field], words_of(text))

    def sloppy(field: str, words: tuple[str, str], slop: int) -> Case:
        text = " ".join(words)
        return f'{field}:"{text}"~{slop}', lambda row: has_phrase(row[field], words_of(text), slop)

    pairs = st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS)).filter(lambda p: p[0] != p[1])
    return st.one_of(
        st.builds(exact, st.sampled_from(TEXT), st.lists(_word(), min_size=2, max_size=3)),
        st.builds(sloppy, st.sampled_from(TEXT), pairs, st.integers(0, 5)),
        st.builds(
            lambda a, b: (f"message:{a}-{b}", lambda row: has_phrase(row["message"], words_of(f"{a} {b}"))),
            _word(),
            _word(),
        ),
    )


def prefixes() -> st.SearchStrategy[Case]:
    starts = st.sampled_from(["t", "ti", "tim", "time", "x", "b", "na", "q", "Ti"])

    def word(field: str, start: str) -> Case:
        return f"{field}:{start}*", lambda row: any(w.startswith(start.lower()) for w in words_of(row[field]))

    def phrase(before: str, start: str) -> Case:
        def meant(row: Row) -> bool:
            words = words_of(row["message"])
            return any(a == before.lower() and b.startswith(start.lower()) for a, b in itertools.pairwise(words))

        return f'message:"{before} {start}"*', meant

    def whole(start: str) -> Case:
        return f"host:{start}*", lambda row: row["host"] is not None and row["host"].startswith(start)

    def nested(start: str) -> Case:
        return f"attrs.user:{start}*", lambda row: any(
            w.startswith(start.lower()) for w in words_of(_attr(row, "user"))
        )

    return st.one_of(
        st.builds(word, st.sampled_from(TEXT), starts),
        st.builds(phrase, _word(), starts),
        st.builds(whole, st.sampled_from(["w", "web-", "W", "db", "Ä"])),
        st.builds(nested, starts),
        st.builds(
            lambda b, s: (
                f'attrs.user:"{b} {s}"*',
                lambda row: any(
                    x == b.lower() and y.startswith(s.lower())
                    for x, y in zip(words_of(_attr(row, "user")), words_of(_attr(row, "user"))[1:], strict=False)
                ),
            ),
            _word(),
            starts,
        ),
    )


def fuzzy() -> st.SearchStrategy[Case]:
    texts = st.sampled_from(["tmi", "tiem", "fo", "bra", "gama", "zo", "aplha", "xx"])

    def word(field: str, text: str, distance: int) -> Case:
        return f"{field}:{text}~{distance}", lambda row: any(edits(text, w) <= distance for w in words_of(row[field]))

    def whole(text: str) -> Case:
        return f"host:{text}~1", lambda row: row["host"] is not None and edits(text, row["host"]) <= 1

    def nested(text: str) -> Case:
        return f"attrs.user:{text}~1", lambda row: any(edits(text, w) <= 1 for w in words_of(_attr(row, "user")))

    return st.one_of(
        st.builds(word, st.sampled_from(TEXT), texts, st.integers(0, 2)),
        st.builds(whole, st.sampled_from(["web-3", "wbe-1", "eb-1"])),
        st.builds(nested, texts),
    )


def regexes() -> st.SearchStrategy[Case]:
    patterns = ["t.*", "tim(e|er)?", "[a-f]+", "x\\d+", "b..", ".{3}", "(foo|bar){1}", "n.*e", "zo{2}", "q"]

    def word(field: str, pattern: str) -> Case:
        return f"{field}:/{pattern}/", lambda row: any(re.fullmatch(pattern, w) for w in words_of(row[field]))

    def whole(pattern: str) -> Case:
        return (
            f"host:/{pattern}/",
            lambda row: row["host"] is not None and re.fullmatch(pattern, row["host"]) is not None,
        )

    return st.one_of(
        st.builds(word, st.sampled_from(TEXT), st.sampled_from(patterns)),
        st.builds(whole, st.sampled_from(["web-\\d", "[wW].*", "db .", ".*", "Ä."])),
    )


def sets() -> st.SearchStrategy[Case]:
    def words(field: str, chosen: list[str]) -> Case:
        meant = {w.lower() for w in chosen}
        return f"{field}:IN [{' '.join(chosen)}]", lambda row: bool(meant & set(words_of(row[field])))

    def hosts(chosen: list[str]) -> Case:
        return f"host:IN [{' '.join(map(_quoted, chosen))}]", lambda row: row["host"] in chosen

    def numbers(chosen: list[int]) -> Case:
        return f"status:IN [{' '.join(map(str, chosen))}]", lambda row: row["status"] in chosen

    return st.one_of(
        st.builds(words, st.sampled_from(TEXT), st.lists(_word(), max_size=3)),
        st.builds(hosts, st.lists(st.sampled_from(HOSTS), max_size=3)),
        st.builds(numbers, st.lists(st.sampled_from([-1, 0, 200, 404, 7]), max_size=30)),
    )


def _ranged(
    field: str, pool: list[Any], shown: Callable[[Any], str], value: Callable[[Row], Any]
) -> st.SearchStrategy[Case]:
    def bracketed(low: Any, high: Any, left: str, right: str) -> Case:
        def meant(row: Row) -> bool:
            found = value(row)
            if found is None:
                return False
            if _is_nan(found):
                # Above every number.
                return high is None
            if low is not None and not (found >= low if left == "[" else found > low):
                return False
            return high is None or (found <= high if right == "]" else found < high)

        texts = [shown(v) if v is not None else "*" for v in (low, high)]
        return f"{field}:{left}{texts[0]} TO {texts[1]}{right}", meant

    def compared(sign: str, bound: Any) -> Case:
        tests = {
            ">": lambda v: v > bound,
            ">=": lambda v: v >= bound,
            "<": lambda v: v < bound,
            "<=": lambda v: v <= bound,
        }

        def meant(row: Row) -> bool:
            found = value(row)
            if _is_nan(found):
                return sign in (">", ">=")
            return found is not None and tests[sign](found)

        return f"{field}:{sign}{shown(bound)}", meant

    ends = st.one_of(st.none(), st.sampled_from(pool))
    some = st.tuples(ends, ends).filter(lambda p: p != (None, None))
    return st.one_of(
        st.builds(lambda p, a, b: bracketed(*p, a, b), some, st.sampled_from("[{"), st.sampled_from("]}")),
        st.builds(compared, st.sampled_from([">", ">=", "<", "<="]), st.sampled_from(pool)),
    )


def ranges() -> st.SearchStrategy[Case]:
    instants = [EPOCH + dt.timedelta(hours=h, microseconds=u) for h in (0, 5, 100) for u in (0, 1, 999_999)]
    return st.one_of(
        _ranged("status", [-1, 0, 200, 404, 501, 2**31 - 1], str, lambda r: r["status"]),
        _ranged("ratio", [-3.0, 0.0, 0.25, 2.0, float("inf")], str, lambda r: r["ratio"]),
        _ranged("price", [Decimal("-1.25"), Decimal(0), Decimal("3.141")], str, lambda r: r["price"]),
        _ranged("at", instants, lambda v: v.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), lambda r: r["at"]),
        _ranged("day", [dt.date(2024, 1, 1), dt.date(2024, 2, 29)], str, lambda r: r["day"]),
        _ranged("host", ["web-1", "a", "db 1", "Z"], _quoted, lambda r: r["host"]),
        _ranged("attrs.n", [-2, 0, 3], str, lambda r: _attr(r, "n")),
        _ranged("attrs.deep.x", [0.25, 0.5], str, lambda r: _attr(r, "deep", "x")),
        _ranged("blob", [b"\x00", b"\x02"], bytes.hex, lambda r: r["blob"]),
        _ranged("ip", ["10.0.0.1", "10.0.1.0", "::2", "2001:db8::1"], str, lambda r: r["ip"]).map(_by_address),
        st.builds(
            _word_range, st.sampled_from(["a", "b", "tim", "time"]), st.sampled_from(["delta", "time", "x1", "zz"])
        ),
    )


def _by_address(case: Case) -> Case:
    """Addresses are compared as numbers, not as texts."""
    text = case[0]
    found = re.fullmatch(
        r"ip:(?:(?P<left>[\[{])(?P<low>\S+) TO (?P<high>\S+)(?P<right>[\]}])|(?P<sign>[<>]=?)(?P<one>\S+))", text
    )
    assert found is not None
    if found["sign"]:
        above = found["sign"].startswith(">")
        low, high = (found["one"], "*") if above else ("*", found["one"])
        open_low = found["sign"] == ">"
        open_high = found["sign"] == "<"
    else:
        low, high, open_low, open_high = found["low"], found["high"], found["left"] == "{", found["right"] == "}"

    def meant(row: Row) -> bool:
        number = address(row["ip"])
        if number is None:
            return False
        least, most = (None if t == "*" else address(t) for t in (low, high))
        if least is not None and (number < least or (number == least and open_low)):
            return False
        return most is None or number < most or (number == most and not open_high)

    return text, meant


def _word_range(low: str, high: str) -> Case:
    return f"message:[{low} TO {high}}}", lambda row: any(low <= w < high for w in words_of(row["message"]))


def values() -> st.SearchStrategy[Case]:
    def day(number: int) -> Case:
        wanted = dt.date(2024, 1, 1) + dt.timedelta(days=number)
        return f"day:{wanted}", lambda row: row["day"] == wanted

    return st.one_of(
        st.builds(lambda h: (f"host:{_quoted(h)}", lambda row: row["host"] == h), st.sampled_from([*HOSTS, "none"])),
        st.builds(lambda n: (f"status:{n}", lambda row: row["status"] == n), st.sampled_from([-1, 0, 200, 7])),
        st.builds(lambda b: (f"ok:{str(b).lower()}", lambda row: row["ok"] is b), st.booleans()),
        st.builds(day, st.integers(0, 90)),
        st.just(("at:2024-01", lambda row: row["at"] is not None and (row["at"].year, row["at"].month) == (2024, 1))),
        st.just(("at:2024-01-03T0", lambda row: False)).filter(lambda _: False)
        | st.just(
            ("at:2024-01-03T05", lambda row: row["at"] is not None and row["at"].strftime("%Y%m%d%H") == "2024010305")
        ),
        st.just(("day:2024-02", lambda row: row["day"] is not None and row["day"].month == 2)),
        st.just(("ip:10.0.0.0/8", lambda row: row["ip"] is not None and row["ip"].startswith("10."))),
        st.just(("ip:2001:db8::1", lambda row: row["ip"] == "2001:db8::1")),
        st.just(("ratio:0", lambda row: row["ratio"] == 0)),
        st.just(("ratio:nan", lambda row: row["ratio"] is not None and row["ratio"] != row["ratio"])),
        st.just(("price:1.5", lambda row: row["price"] == Decimal("1.5"))),
        st.builds(
            lambda t: (f"tags:{_quoted(t)}", lambda row: t in (row["tags"] or ())),
            st.sampled_from(["red", "Blue ish", "blue"]),
        ),
        st.builds(lambda w: (f"attrs.user:{w}", lambda row: w.lower() in words_of(_attr(row, "user"))), _word()),
        st.builds(lambda n: (f"attrs.n:{n}", lambda row: _attr(row, "n") == n), st.integers(-3, 6)),
        st.builds(
            lambda w: (f"labels.k1:{w}", lambda row: w.lower() in words_of(dict(row["labels"] or ()).get("k1"))),
            _word(),
        ),
        st.builds(
            lambda w: (f"labels.k\\.2:{w}", lambda row: w.lower() in words_of(dict(row["labels"] or ()).get("k.2"))),
            _word(),
        ),
        st.just(("*", lambda row: True)),
    )


def existence() -> st.SearchStrategy[Case]:
    plain = ["message", "host", "status", "ratio", "ok", "at", "ip", "blob", "price"]
    return st.one_of(
        st.builds(lambda f: (f"{f}:*", lambda row: row[f] is not None), st.sampled_from(plain)),
        st.just(("tags:*", lambda row: row["tags"] is not None)),
        st.just(("attrs.user:*", lambda row: _attr(row, "user") is not None)),
        st.just(("attrs.deep.x:*", lambda row: _attr(row, "deep", "x") is not None)),
        st.just(("status:[* TO *]", lambda row: row["status"] is not None)),
    )


KINDS: dict[str, st.SearchStrategy[Case]] = {
    "terms": terms(),
    "phrases": phrases(),
    "prefixes": prefixes(),
    "fuzzy": fuzzy(),
    "regexes": regexes(),
    "sets": sets(),
    "ranges": ranges(),
    "values": values(),
    "existence": existence(),
}


def _joined(left: Case, right: Case, how: str) -> Case:
    (a, meant_a), (b, meant_b) = left, right
    match how:
        case "AND":
            return f"({a}) AND ({b})", lambda row: meant_a(row) and meant_b(row)
        case "OR":
            return f"({a}) OR ({b})", lambda row: meant_a(row) or meant_b(row)
        case "AND NOT":
            return f"({a}) AND NOT ({b})", lambda row: meant_a(row) and not meant_b(row)
        case "OR NOT":
            return f"({a}) OR NOT ({b})", lambda row: meant_a(row) or not meant_b(row)
        case "+-":
            return f"+({a}) -({b})", lambda row: meant_a(row) and not meant_b(row)
        case "+":
            return f"+({a}) ({b})^2", meant_a
        case _:
            return f"NOT ({a})", lambda row: not meant_a(row)


def any_query() -> st.SearchStrategy[Case]:
    """Every kind, combined by AND, OR and NOT to any shape."""
    leaf = st.one_of(*KINDS.values())
    ways = st.sampled_from(["AND", "OR", "AND NOT", "OR NOT", "+-", "+", "NOT"])
    return st.recursive(leaf, lambda inner: st.builds(_joined, inner, inner, ways), max_leaves=4)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
