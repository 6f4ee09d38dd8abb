"""How does text become terms? Analyzers by option name, the same one at write and at query time.

A name of the option `indexing.tokenizer.*` is one of

- `default`: runs of letters and digits, in lower case;
- `whitespace`: what stands between white space, as it is;
- `raw`: the whole value as one term;
- `en_stem`, `de_stem`, ... (`STEMMERS`): as `default`, then the stemmer of that language;
- `ngram(2,3)` and `edge_ngram(2,3)`: pieces of that many characters, anywhere or from the start, in lower case.

Tantivy knows an analyzer by a name only, and a query analysed in another way than the index misses in silence.
Hence the name that stands in the index schema contains a hash of the definition (`Analyzer.registered_name`), and
every opened index registers exactly the names of its schema.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
import tantivy

from indextables.errors import InvalidArgument
from indextables.lazy import pc

DEFAULT_MAX_TOKEN_BYTES = 255
"""Longer tokens are not in the index; a split that has any is flagged and scanned for queries that could match one."""

MAX_RAW_BYTES = 65_530
"""Tantivy drops longer terms in silence, so that this is the cap of `raw` and of `indexing.tokenLength.*`."""

MAX_GRAM = 32

STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}

TIME_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}"
"""Texts that Tantivy may take for a time inside JSON; a regular expression for Python and for Arrow."""

_TIME = re.compile(TIME_TEXT)
_NGRAM = re.compile(r"(edge_)?ngram\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_DEFINITION_VERSION = 1
# Lower case can shrink a character from three bytes to one (the Kelvin sign).
_LONGEST_SHRINK = 3


class Token(msgspec.Struct, frozen=True):
    """One term of a text: its `position` among the terms and the characters [start, end) that it came from."""

    text: str
    position: int
    start: int
    end: int


class Analyzer(msgspec.Struct, frozen=True):
    """One way to make terms of text; make it with `analyzer()`, which checks the name.

    1. Equal values analyse equally, and differ in `registered_name` if they do not.
    2. Terms longer than `max_token_bytes` (UTF-8) are left out of the index, and leave a gap in the positions.
    """

    name: str
    max_token_bytes: int = DEFAULT_MAX_TOKEN_BYTES

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that identify the definition."""
        return _hash(self.name, self.max_token_bytes)

    @property
    def registered_name(self) -> str:
        """The tokenizer name in the Tantivy schema."""
        return f"{self.name}.{self.hash}"

    @property
    def keeps_positions(self) -> bool:
        """False where all terms stand at position 0, so that several terms are a conjunction and not a phrase."""
        return "ngram" not in self.name

    @property
    def single_term(self) -> bool:
        """True if every value is exactly one term."""
        return self.name == "raw"

    def build(self) -> tantivy.TextAnalyzer:
        """The analyzer to register with an index: with the length limit."""
        return _native(self.name, self.max_token_bytes)

    def terms(self, text: str) -> list[str]:
        """The terms of `text` as the index holds them, in order: those over the limit are left out."""
        return list(self.build().analyze(_encodable(text)))

    def tokens(self, text: str) -> list[Token]:
        """All terms of `text`, long ones too, with positions and character offsets."""
        found = _native(self.name, None).pre_tokenize(_encodable(text)).tokens
        return [Token(t.text, t.position, t.char_offset_from, t.char_offset_to) for t in found]

    def surely_indexed(self, term: str) -> bool:
        """True if the index holds every occurrence of this term; False if a flagged split must be scanned for it.

        The limit is applied to the text before lower case and stem, which can be longer than the term.
        """
        size = len(term.encode())
        if self.single_term:
            return size <= MAX_RAW_BYTES
        if not self.keeps_positions:
            return True
        return not self.name.endswith("_stem") and size * _LONGEST_SHRINK <= self.max_token_bytes

    def drops_any(self, texts: pa.Array) -> bool:
        """True if the index of these values lacks a term that they hold. Nulls are skipped."""
        if not self.keeps_positions:
            return False
        limit = MAX_RAW_BYTES if self.single_term else self.max_token_bytes
        longer = texts.filter(pc.greater(pc.binary_length(texts), limit))
        if self.single_term:
            return len(longer) > 0
        values = longer.to_pylist()
        return any(len(value[t.start : t.end].encode()) > limit for value in values for t in self.tokens(value))


def looks_like_time(text: str) -> bool:
    """True for what Tantivy may take for a time inside JSON: the index holds such a text with a blank behind it."""
    return _TIME.match(text) is not None


def analyzer(name: str, max_token_bytes: int = DEFAULT_MAX_TOKEN_BYTES) -> Analyzer:
    """The analyzer of an option's text. Raises InvalidArgument for a name that is not offered."""
    canonical = re.sub(r"\s", "", name.strip().lower())
    if not 0 < max_token_bytes <= MAX_RAW_BYTES:
        message = f"a token length of {max_token_bytes} is not offered: set 1 to {MAX_RAW_BYTES} bytes"
        raise InvalidArgument(message, value=max_token_bytes)
    grams = _NGRAM.fullmatch(canonical)
    if grams is not None:
        least, most = int(grams[2]), int(grams[3])
        if not 0 < least <= most <= MAX_GRAM:
            message = f"{name!r}: the lengths of n-grams go from 1 to {MAX_GRAM}, the smaller one first"
            raise InvalidArgument(message, value=name)
        return Analyzer(f"{grams[1] or ''}ngram({least},{most})", max_token_bytes)
    if canonical in ("default", "whitespace", "raw") or canonical.removesuffix("_stem") in STEMMERS:
        if canonical in STEMMERS:
            canonical += "_stem"
        return Analyzer(canonical, max_token_bytes)
    offered = ["default", "whitespace", "raw", "ngram(2,3)", "edge_ngram(2,3)", *(f"{code}_stem" for code in STEMMERS)]
    message = f"there is no tokenizer {name!r}: use one of {', '.join(offered)}"
    raise InvalidArgument(message, value=name)


def register(index: tantivy.Index, analyzers: Iterable[Analyzer]) -> None:
    """Make an opened index know these analyzers. Must precede the first query and the first document."""
    for each in set(analyzers):
        index.register_tokenizer(each.registered_name, each.build())


@lru_cache(maxsize=256)
def _hash(name: str, max_token_bytes: int) -> str:
    definition = msgspec.json.encode([_DEFINITION_VERSION, name, max_token_bytes])
    return hashlib.sha256(definition).hexdigest()[:16]


@lru_cache(maxsize=256)
def _native(name: str, max_token_bytes: int | None) -> tantivy.TextAnalyzer:
    grams = _NGRAM.fullmatch(name)
    if grams is not None:
        pieces = tantivy.Tokenizer.ngram(int(grams[2]), int(grams[3]), grams[1] is not None)
        return tantivy.TextAnalyzerBuilder(pieces).filter(tantivy.Filter.lowercase()).build()
    if name == "raw":
        return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build()
    if name == "whitespace":
        return _limited(tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()), max_token_bytes).build()
    built = _limited(tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()), max_token_bytes)
    built = built.filter(tantivy.Filter.lowercase())
    if name != "default":
        built = built.filter(tantivy.Filter.stemmer(STEMMERS[name.removesuffix("_stem")]))
    return built.build()


def _limited(builder: Any, max_token_bytes: int | None) -> Any:
    # Tantivy keeps what is shorter than its limit.
    return builder if max_token_bytes is None else builder.filter(tantivy.Filter.remove_long(max_token_bytes + 1))


def _encodable(text: str) -> str:
    # A lone surrogate cannot be UTF-8; nothing that was written can contain one, so that any other character serves.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
