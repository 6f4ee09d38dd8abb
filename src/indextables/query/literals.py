"""Texts in quotes, as SQL spells them. Pure."""

from __future__ import annotations

import re

__all__ = ["keeping_backslashes"]

_ESCAPE = re.compile(r"""\\(?P<known>u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[01][0-7]{2}|[ntr0bZ\\'"%_])?""")


def keeping_backslashes(typed: str) -> list[str]:
    r"""How else to write a literal of which SQL drops a backslash; empty if it drops none.

    Spark drops a backslash before most characters, so that `'\d'` means `d`, which nobody means.
    """
    known = [found["known"] is not None for found in _ESCAPE.finditer(typed)]
    if all(known):
        return []
    doubled = _ESCAPE.sub(lambda found: found.group() if found["known"] else "\\\\", typed)
    return [doubled] if any(known) else [doubled, f"r{typed}"]
