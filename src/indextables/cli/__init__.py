"""What can I do from a shell? The `indextables` command, a thin layer over the embedded table."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see `indextables.cli.outcome` for what each code says.

    Without `arguments` this is the process itself: those of its command line are taken, and Ctrl-C ends it.
    """
    _open_missing_streams()
    try:
        import typer  # noqa: F401 - asked for here, so that its absence has one clear answer
    except ImportError:
        sys.stderr.write("indextables: the command line needs its extra: pip install 'indextables[cli]'\n")
        return 2
    from indextables.cli.app import run

    return run(arguments)


def _open_missing_streams() -> None:
    """A process may be started without them (`>&-`); what they would show goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
