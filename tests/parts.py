"""Run the tests in parts, two at a time, each against its budget: `python -m tests.parts [PART ...]`.

A part is a folder of tests, whose name it has, in a pytest process of its own. Three parts are cut in another way:
`spark` and `connect` are the tests of all folders that need Spark (`connect` runs one case of each, soak runs all),
`sim-care` is the rest of `tests/sim`; `rest` is what no other part holds. A part over its budget is reported, not
failed: the remedy is to move volume to `make soak`. A part whose path is gone, or that holds no test, fails: whoever
moves tests names them here anew. Every test that was skipped is named at the end, with its reason.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.spark_session import MODE

ROOT = Path(__file__).parent.parent
LANES = 2
QUICK_CASES = 3
"""How many cases of each test with parameters `make quick` runs: every behaviour is asked, not every spelling of it."""
NOTHING_COLLECTED = 5
"""What pytest ends with where no test was chosen."""


@dataclass(frozen=True)
class Part:
    name: str
    paths: tuple[str, ...]
    budget_s: int
    """The seconds that it may take, on two cores beside another part."""
    marker: str = "not soak and not spark"
    spark: str = "classic"
    """How the tests of this part reach Spark: `classic` or `connect` (`tests.spark_session`)."""
    without: tuple[str, ...] = ()
    """Files below `paths` that are another part's."""
    is_quick: bool = False
    """`make quick` runs it, without what is marked `slow`."""
    cases: int | None = None
    """How many cases of each test with parameters run; all where nothing is said."""


CARE = tuple(f"tests/sim/test_{name}.py" for name in ("care_faults", "care_kill", "caring", "merge_kill", "merging"))

# Longest first, so that the two lanes end together.
PARTS = (
    Part("spark", ("tests",), 1320, "spark and not soak"),
    Part("sim", ("tests/sim",), 480, without=CARE),
    Part("connect", ("tests",), 600, "connect and not soak", "connect", cases=1),
    Part("table", ("tests/table",), 570, is_quick=True),
    Part("split", ("tests/split",), 150, is_quick=True),
    Part("state", ("tests/state",), 200),
    Part("sim-care", CARE, 180),
    Part("log", ("tests/log",), 300, is_quick=True),
    Part("contract", ("tests/contract",), 60),
    Part("cli", ("tests/cli",), 130, is_quick=True),
    Part("storage", ("tests/storage",), 60),
    Part("life", ("tests/life",), 90),
    Part("foreign", ("tests/foreign",), 90, is_quick=True),
    Part("query", ("tests/query",), 60, is_quick=True),
    Part("sql", ("tests/sql",), 90, is_quick=True),
)


@dataclass(frozen=True)
class Outcome:
    part: Part
    code: int
    seconds: float
    counts: dict[str, int]
    skips: tuple[str, ...] = ()
    why: str = ""
    """Why it failed, where no test did."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="run only these parts")
    parser.add_argument(
        "--soak",
        action="store_true",
        help="run only what is marked soak, and property tests in new places, without a time limit",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="run only what tells soon: no Spark, no simulation, nothing marked slow, few cases of each test",
    )
    given = parser.parse_args()
    known = [part.name for part in _all_parts()]
    unknown = [name for name in given.parts if name not in known]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(known)}")
    parts = [part for part in _all_parts() if not given.parts or part.name in given.parts]
    if given.quick:
        parts = [
            replace(part, marker=f"{part.marker} and not slow", cases=QUICK_CASES) for part in parts if part.is_quick
        ]
    if given.soak:
        parts = [_soaked(part) for part in parts]
    with ThreadPoolExecutor(LANES) as lanes:
        outcomes = list(lanes.map(lambda part: _run(part, soak=given.soak), parts))
    return _report(outcomes)


def _soaked(part: Part) -> Part:
    """The tests of a part that `make test` leaves out: what is marked so, and all cases where it runs few."""
    if part.cases is None:
        return replace(part, marker=part.marker.replace("not soak", "(soak or hypothesis)"))
    return replace(part, marker=part.marker.replace(" and not soak", ""), cases=None)


def _all_parts() -> list[Part]:
    """The named parts, and one more with every test that none of them holds, so that nothing is left out."""
    named = {path for part in PARTS for path in part.paths}
    rest = sorted(
        str(p.relative_to(ROOT))
        for p in (ROOT / "tests").iterdir()
        if (p.is_dir() or p.name.startswith("test_"))
        and p.name != "__pycache__"
        and str(p.relative_to(ROOT)) not in named
        and (p.is_file() or any(p.rglob("test_*.py")))
    )
    return [*PARTS, Part("rest", tuple(rest), 120)] if rest else list(PARTS)


def _run(part: Part, *, soak: bool) -> Outcome:
    lost = [path for path in (*part.paths, *part.without) if not (ROOT / path).exists()]
    if lost:
        return Outcome(part, 1, 0, {}, why=f"{', '.join(lost)} does not exist: name its tests where they are now")
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-m", part.marker, "--durations=12", *part.paths]
    command += [f"--ignore={path}" for path in part.without]
    if part.cases is not None:
        command += [f"--cases={part.cases}"]
    if soak:
        command += ["--timeout=0", "--hypothesis-profile=explore"]
    began = time.monotonic()
    # Each part has its own temporary files: clocks of tests give the same names in every process.
    with tempfile.TemporaryDirectory(prefix="it-", ignore_cleanup_errors=True) as scratch:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
            env=_environment(part, scratch),
        )
    seconds = time.monotonic() - began
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout[-400:])}
    # What is soaked is marked test by test, and not every part has such.
    nothing = done.returncode == NOTHING_COLLECTED
    code = 0 if nothing and soak else done.returncode
    shown = done.stdout if code else "\n".join(done.stdout.splitlines()[-32:])
    sys.stdout.write(f"\n===== {part.name} ({seconds:.0f} s) =====\n{shown}\n")
    sys.stdout.flush()
    why = f"it holds no test that is marked {part.marker!r}" if nothing and not soak else ""
    return Outcome(part, code, seconds, counts, tuple(re.findall(r"^SKIPPED (.+)$", done.stdout, re.MULTILINE)), why)


def _environment(part: Part, scratch: str) -> dict[str, str]:
    environment = {**os.environ, MODE: part.spark, "TMPDIR": scratch}
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return environment


def _report(outcomes: list[Outcome]) -> int:
    total: dict[str, int] = {}
    print("\npart      seconds  budget   passed  failed  skipped")
    for outcome in outcomes:
        counts = outcome.counts
        failed = counts.get("failed", 0) + counts.get("error", 0)
        failed = failed or int(outcome.code != 0)
        note = "  over budget" if outcome.seconds > outcome.part.budget_s else ""
        print(
            f"{outcome.part.name:9} {outcome.seconds:7.0f} {outcome.part.budget_s:7} "
            f"{counts.get('passed', 0):8} {failed:7} {counts.get('skipped', 0):8}{note}"
        )
        if outcome.why:
            print(f"          FAILED: {outcome.why}")
        for word, n in (("passed", counts.get("passed", 0)), ("failed", failed), ("skipped", counts.get("skipped", 0))):
            total[word] = total.get(word, 0) + n
    for outcome in outcomes:
        for skip in outcome.skips:
            print(f"skipped in {outcome.part.name}: {skip}")
    print(f"\n{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return int(total["failed"] > 0 or total["passed"] == 0)


if __name__ == "__main__":
    sys.exit(main())
