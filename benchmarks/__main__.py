"""`python -m benchmarks [--scale small|full] [--plots FOLDER] [MODULE ...]`: each module in a process of its own.

Those that go through the public API run first: they measure what a user sees. The others reach inside, for engineers
who look for the reason, and say so.
"""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import machine, report
from benchmarks.plots import save

SUPPORT = {"__init__", "__main__", "harness", "corpus", "local_spark", "delta_side", "peer_table", "plots"}


_INSIDE = re.compile(r"^\s*(?:from|import) indextables\.(?!cli\b|errors\b|spark\.table\b)|^from tests\.", re.MULTILINE)


def reaches_inside(name: str) -> bool:
    """True if a module measures functions that a user does not call."""
    return _INSIDE.search((Path(__file__).parent / f"{name}.py").read_text()) is not None


def found() -> list[str]:
    """All modules, in the order in which they run."""
    names = (p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in SUPPORT)
    return sorted(names, key=lambda name: (reaches_inside(name), name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--scale", choices=["small", "full", "soak"], default="full")
    parser.add_argument("--here", action="store_true", help="run the one module named in this process")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw the bars of each module as SVG there")
    given = parser.parse_args()
    if given.here:
        module = importlib.import_module(f"benchmarks.{given.modules[0]}")
        inner = " (inner functions, for engineers)" if reaches_inside(given.modules[0]) else ""
        title, bars = module.__doc__.strip().splitlines()[0] + inner, module.run(given.scale)
        report(title, bars)
        if given.plots is not None:
            save(given.plots, given.modules[0], title, f"scale {given.scale}, {machine()}", bars)
        return 0
    plots = [] if given.plots is None else ["--plots", str(given.plots)]
    codes = [
        subprocess.run(
            [sys.executable, "-m", "benchmarks", "--here", "--scale", given.scale, *plots, name], check=False
        ).returncode
        for name in given.modules or found()
    ]
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main())
