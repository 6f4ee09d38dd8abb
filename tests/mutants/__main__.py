"""Plant each bug into a copy of the sources and run the tests that must catch it.

Exit code 1 if one survives. The sources as they stand must pass the same tests, which is tried first, file by file.
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

from tests.mutants.every import EVERY
from tests.mutants.planted import Bug

ROOT = Path(__file__).parents[2]


def main() -> int:
    wanted = sys.argv[1:]
    bugs = [bug for bug in EVERY if not wanted or any(word in bug.name for word in wanted)]
    with tempfile.TemporaryDirectory() as folder:
        # Tests too: whoever edits them meanwhile does not disturb.
        copied = Path(folder)
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copied)
        sound: dict[tuple[str, ...], str | None] = {}
        survivors = [bug for bug in bugs if not is_caught(copied, bug, sound)]
    print(f"\n{len(bugs) - len(survivors)} of {len(bugs)} planted bugs caught")
    return 1 if survivors else 0


def is_caught(copied: Path, bug: Bug, sound: dict[tuple[str, ...], str | None]) -> bool:
    """True if the tests of a bug fail with it and pass without it; `sound` remembers the latter."""
    path = copied / "src" / bug.file
    clean = path.read_text()
    if clean.count(bug.old) != 1:
        print(f"STALE     {bug.name}: its place in {bug.file} is gone or not unique", flush=True)
        return False
    if bug.tests not in sound:
        sound[bug.tests] = run(copied, bug.tests)
    if sound[bug.tests] is not None:
        print(f"UNPROVEN  {bug.name}: without it {sound[bug.tests]} fails too", flush=True)
        return False
    path.write_text(clean.replace(bug.old, bug.new))
    started = time.monotonic()
    try:
        verdict = run(copied, bug.tests)
    finally:
        path.write_text(clean)
    seconds = time.monotonic() - started
    print(
        f"{'caught' if verdict else 'SURVIVED':9s} {seconds:5.1f} s  {bug.name}  <- {verdict or 'nothing'}", flush=True
    )
    return verdict is not None


def run(copied: Path, tests: tuple[str, ...]) -> str | None:
    """The first test that fails, None if all pass."""
    for test in tests:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout=600"]
        command += ["--hypothesis-profile=mutants", test]
        places = f"{copied / 'src'}{os.pathsep}{copied}"
        environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(command, cwd=copied, env=environment, capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            continue
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
        return found[1] if found else f"{test} ({ran.stdout.strip().splitlines()[-1:]})"
    return None


if __name__ == "__main__":
    sys.exit(main())
