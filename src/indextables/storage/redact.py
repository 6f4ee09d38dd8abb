"""What must never be shown? The one redactor: by the names of options, by known values, and by shapes in text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

__all__ = ["HIDDEN", "Redactor", "Secret", "SecretMap", "is_secret_name", "redacted"]

HIDDEN = "***"

_SECRET_NAME = re.compile(
    r"secret|token|passw|credential|private|signature|bearer|authori[sz]ation|sas|proxy"
    r"|(?:access|account|master|encryption|customer|service.?account|api|storage)[._-]?key",
    re.IGNORECASE,
)
# Names that match the pattern above but tell how to log in, not with what.
_OPEN_NAME = re.compile(
    r"credentials?[._-]provider|credential[._-]type|token[._-]?window|token[._-]endpoint", re.IGNORECASE
)

_SHAPES = (
    (re.compile(r"(?<=//)[^/@\s'\"]*:[^/@\s'\"]*@"), f"{HIDDEN}@"),
    # An Azure URL names its container before the @.
    (re.compile(r"(?<!abfs://)(?<!abfss://)(?<=//)[^/@\s'\"]+@"), f"{HIDDEN}@"),
    (re.compile(r"\b(sig|signature|X-Amz-[A-Z][A-Za-z-]+|AWSAccessKeyId)=[^&\s'\"<>]+"), rf"\1={HIDDEN}"),
    (re.compile(r"\b(AccountKey|SharedAccessSignature)=[^;\s'\"]+"), rf"\1={HIDDEN}"),
    (re.compile(r"\b(Bearer|SharedKey|SharedKeyLite|AWS4-HMAC-SHA256)\s+[^\s'\"][^'\"\n]*"), rf"\1 {HIDDEN}"),
)
_SHORTEST = 4
"""A shorter value cannot be a secret, and hiding it would make every message unreadable."""


class Secret:
    """A text that does not show itself: `reveal()` is the only way to it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"


class SecretMap(dict[str, str]):
    """Options as they were given, whose `repr` and `str` hide the values of secret names."""

    def __repr__(self) -> str:
        return repr(redacted(self))

    __str__ = __repr__


class Redactor:
    """Takes known secret values, and what looks like one, out of a text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {text for secret in secrets for text in (secret, quote(secret, safe="")) if len(secret) >= _SHORTEST}
        # The longest first, so that no secret that contains another leaves its rest behind.
        self._known = sorted(known, key=len, reverse=True)

    def __repr__(self) -> str:
        return "Redactor()"

    def scrub(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        for shape, instead in _SHAPES:
            text = shape.sub(instead, text)
        return text


def is_secret_name(name: str) -> bool:
    """True if the value of an option or variable of this name must not be shown."""
    return bool(_SECRET_NAME.search(name)) and not _OPEN_NAME.search(name)


def redacted(values: Mapping[str, object]) -> dict[str, str]:
    """A copy that may be shown."""
    plain = Redactor()
    return {name: HIDDEN if is_secret_name(name) else plain.scrub(str(value)) for name, value in values.items()}
