"""What can I do from a shell? The `indextables` command, a thin layer over the embedded table."""

from __future__ import annotations

import atexit
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see `indextables.cli.outcome` for what each code says.

    Without `arguments` this is the process itself: those of its command line are taken, and Ctrl-C ends it.
    """
    _open_missing_streams()
    if find_spec("typer") is None:
        sys.stderr.write("indextables: the command line needs its extra: pip install 'indextables[cli]'\n")
        return 2
    ended: list[int] = []
    if arguments is None:
        atexit.register(_end, ended)
        sys.meta_path.insert(0, _NoPandas())
        for stream in (sys.stdout, sys.stderr):
            # A letter that the terminal does not have is spelled out.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
    from indextables.cli.app import run

    ended.append(run(arguments))
    return ended[0]


class _NoPandas:
    """Arrow loads pandas, where it is installed, to see whether a list is one of its columns: here none ever is."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """As the import system asks. Raises ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("the command line does without pandas", name=name)


def _end(codes: Sequence[int]) -> None:
    """End the process when all is done: threads of ours are joined by now, and what else wanted to run has.

    Arrow's own threads may still be at a file that nobody wants any more. Where they call Python while the interpreter
    takes itself apart, the process would die of it.
    """
    for code in codes:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _open_missing_streams() -> None:
    """A process may be started without them (`>&-`); what they would show goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
