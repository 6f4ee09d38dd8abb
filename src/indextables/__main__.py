"""Runs the shell command where it is not on the path: `python -m indextables`."""

from __future__ import annotations

import sys

from indextables.cli import main

if __name__ == "__main__":
    sys.exit(main())
