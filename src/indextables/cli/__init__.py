"""What can I do from a shell? The `indextables` command, a thin layer over the embedded table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see `indextables.cli.outcome` for what each code says."""
    try:
        import typer  # noqa: F401 - asked for here, so that its absence has one clear answer
    except ImportError:
        sys.stderr.write("indextables: the command line needs its extra: pip install 'indextables[cli]'\n")
        return 2
    from indextables.cli.app import run

    return run(arguments)
