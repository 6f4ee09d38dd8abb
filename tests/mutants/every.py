"""Every planted bug."""

from __future__ import annotations

from tests.mutants import changing, others, planted, reading, rules, telling

EVERY = (*planted.BUGS, *reading.BUGS, *changing.BUGS, *telling.BUGS, *others.BUGS, *rules.BUGS)
