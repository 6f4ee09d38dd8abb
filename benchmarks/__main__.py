"""`python -m benchmarks [--scale small|full] [MODULE ...]`: each module in a process of its own.

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

from benchmarks.harness import report

SUPPORT = {"__init__", "__main__", "harness", "corpus", "local_spark", "delta_side"}


_INSIDE = re.compile(r"^\s*(?:from|import) indextables\.(?!cli\b|errors\b|spark\.table\b)|^from tests\.", re.MULTILINE)


def reaches_inside(name: str) -> bool:
    """True if a module measures functions that a user does not call."""
    return _INSIDE.search((Path(__file__).parent / f"{name}.py").read_text()) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--scale", choices=["small", "full", "soak"], default="full")
    parser.add_argument("--here", action="store_true", help="run the one module named in this process")
    given = parser.parse_args()
    found = sorted(
        (p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in SUPPORT),
        key=lambda name: (reaches_inside(name), name),
    )
    if given.here:
        module = importlib.import_module(f"benchmarks.{given.modules[0]}")
        inner = " (inner functions, for engineers)" if reaches_inside(given.modules[0]) else ""
        report(module.__doc__.strip().splitlines()[0] + inner, module.run(given.scale))
        return 0
    codes = [
        subprocess.run(
            [sys.executable, "-m", "benchmarks", "--here", "--scale", given.scale, name], check=False
        ).returncode
        for name in given.modules or found
    ]
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main())
