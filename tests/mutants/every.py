"""Every planted bug."""

from __future__ import annotations

from tests.mutants import planted, reading

EVERY = (*planted.BUGS, *reading.BUGS)
