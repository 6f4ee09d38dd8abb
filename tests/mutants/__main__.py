"""Plant each bug into a copy of the sources and run the tests that must catch it.

Exit code 1 if one survives. The sources as they stand must pass the same tests, which is tried first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.planted import BUGS, Bug

ROOT = Path(__file__).parents[2]


def main() -> int:
    wanted = sys.argv[1:]
    bugs = [bug for bug in BUGS if not wanted or any(word in bug.name for word in wanted)]
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
        tests = sorted({test for bug in bugs for test in bug.tests})
        verdict = run(sources, tuple(tests))
        if verdict is not None:
            print(f"the tests fail without any bug: {verdict}")
            return 1
        survivors = [bug for bug in bugs if not is_caught(sources, bug)]
    print(f"\n{len(bugs) - len(survivors)} of {len(bugs)} planted bugs caught")
    return 1 if survivors else 0


def is_caught(sources: Path, bug: Bug) -> bool:
    path = sources / bug.file
    clean = path.read_text()
    if clean.count(bug.old) != 1:
        print(f"STALE     {bug.name}: its place in {bug.file} is gone or not unique")
        return False
    path.write_text(clean.replace(bug.old, bug.new))
    started = time.monotonic()
    try:
        verdict = run(sources, bug.tests)
    finally:
        path.write_text(clean)
    seconds = time.monotonic() - started
    print(
        f"{'caught' if verdict else 'SURVIVED':9s} {seconds:5.1f} s  {bug.name}  <- {verdict or 'nothing'}", flush=True
    )
    return verdict is not None


def run(sources: Path, tests: tuple[str, ...]) -> str | None:
    """The first test that fails, None if all pass."""
    for test in tests:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout=600", test]
        environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            continue
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
        return found[1] if found else f"{test} ({ran.stdout.strip().splitlines()[-1:]})"
    return None


if __name__ == "__main__":
    sys.exit(main())
