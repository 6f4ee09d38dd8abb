"""Every planted bug."""

from __future__ import annotations

from tests.mutants import changing, planted, reading

EVERY = (*planted.BUGS, *reading.BUGS, *changing.BUGS)
