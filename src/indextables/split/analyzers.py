"""How does text become terms? Analyzers by name, so that every process builds the same one.

    default       words of letters and digits, lower case
    whitespace    what stands between blanks, as it is
    raw           the whole value as one term
    <xx>_stem     as default, reduced to stems: en_stem, de_stem, or by language: german_stem
    ngram(a,b)    all pieces of a to b characters, lower case; ngram(a,b,prefix) those at the start only

Tokens longer than the token length, in bytes of UTF-8, are not indexed; the writer flags a split that has one.
"""

from __future__ import annotations

import re

import tantivy

__all__ = ["DEFAULT_TOKEN_LENGTH", "MAX_TERM_BYTES", "build", "parse_token_length", "parse_tokenizer", "register"]

DEFAULT_TOKEN_LENGTH = 255
MAX_TERM_BYTES = 65_530
"""What Tantivy indexes of a raw value; a longer one gives no term at all."""

_LENGTHS = {"default": DEFAULT_TOKEN_LENGTH, "legacy": 40, "min_safe": 100, "tantivy_max": MAX_TERM_BYTES}
_STEMMERS = {
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
_NGRAM = re.compile(r"ngram\((\d{1,2}),(\d{1,2})(,prefix)?\)\Z", re.ASCII)


def parse_tokenizer(text: str) -> str:
    """The canonical name of a tokenizer. Raises ValueError with what there is."""
    name = text.strip().lower().replace(" ", "")
    if name in ("default", "whitespace", "raw"):
        return name
    if name.endswith("_stem"):
        language = name.removesuffix("_stem")
        code = next((c for c, full in _STEMMERS.items() if language in (c, full)), None)
        if code is not None:
            return f"{code}_stem"
    match = _NGRAM.match(name)
    if match and 1 <= int(match[1]) <= int(match[2]):
        return f"ngram({int(match[1])},{int(match[2])}{match[3] or ''})"
    languages = ", ".join(f"{code}_stem" for code in _STEMMERS)
    raise ValueError(f"a tokenizer is one of default, whitespace, raw, ngram(a,b), ngram(a,b,prefix), {languages}")


def parse_token_length(text: str) -> int:
    """The longest token in bytes. Raises ValueError with what is allowed."""
    name = text.strip().lower()
    if name in _LENGTHS:
        return _LENGTHS[name]
    if name.isascii() and name.isdigit() and len(name) <= 5 and 1 <= int(name) <= MAX_TERM_BYTES:
        return int(name)
    raise ValueError(f"a token length is 1 to {MAX_TERM_BYTES} or one of {', '.join(_LENGTHS)}")


def build(tokenizer: str, token_length: int | None) -> tantivy.TextAnalyzer:
    """The analyzer of a canonical tokenizer name; with `token_length` None it keeps tokens of any length."""
    ngram = _NGRAM.match(tokenizer)
    if tokenizer == "raw":
        return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build()
    if ngram:
        base = tantivy.Tokenizer.ngram(int(ngram[1]), int(ngram[2]), ngram[3] is not None)
        return tantivy.TextAnalyzerBuilder(base).filter(tantivy.Filter.lowercase()).build()
    base = tantivy.Tokenizer.whitespace() if tokenizer == "whitespace" else tantivy.Tokenizer.simple()
    builder = tantivy.TextAnalyzerBuilder(base)
    if token_length is not None:
        builder = builder.filter(tantivy.Filter.remove_long(token_length + 1))
    if tokenizer != "whitespace":
        builder = builder.filter(tantivy.Filter.lowercase())
    if tokenizer.endswith("_stem"):
        builder = builder.filter(tantivy.Filter.stemmer(_STEMMERS[tokenizer.removesuffix("_stem")]))
    return builder.build()


def register(index: tantivy.Index, name: str, tokenizer: str, token_length: int) -> None:
    """Make an analyzer known to an open index under `name`. `raw` is Tantivy's own."""
    if name != "raw":
        index.register_tokenizer(name, build(tokenizer, token_length))
