"""`python -m benchmarks [--scale small|full] [MODULE ...]`: each module in a process of its own."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import report

SUPPORT = {"__init__", "__main__", "harness", "corpus", "local_spark"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--scale", choices=["small", "full", "soak"], default="full")
    parser.add_argument("--here", action="store_true", help="run the one module named in this process")
    given = parser.parse_args()
    found = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in SUPPORT)
    if given.here:
        module = importlib.import_module(f"benchmarks.{given.modules[0]}")
        report(module.__doc__.strip().splitlines()[0], module.run(given.scale))
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
