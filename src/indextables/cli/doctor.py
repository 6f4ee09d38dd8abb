"""The command that looks at the machine instead of a table: doctor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, NamedTuple

from indextables.cli.declared import Argument
from indextables.cli.parameters import AsJson, Settings, pairs
from indextables.errors import IndexTablesError

__all__ = ["Finding", "doctor", "findings"]

_LEAST_JAVA = 17


class Finding(NamedTuple):
    """One thing that was looked at; `advice` is empty where all is well or where it does not matter."""

    what: str
    ok: bool
    found: str
    advice: str = ""


def doctor(
    table: Annotated[str | None, Argument(metavar="TABLE", help="Also try to reach this table's store.")] = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Check what Spark and the stores need on this machine; exit with 1 if something is missing.

    With TABLE, its store is read and a probe object is written there and removed.

    \b
    Examples:
      indextables doctor
      indextables doctor s3://bucket/logs --option storage.region=eu-central-1
    """
    from indextables.cli import outcome, render

    found = list(findings(table, pairs(option, "--option")))
    if as_json:
        render.json_lines(finding._asdict() for finding in found)
    else:
        for finding in found:
            advice = f"; {finding.advice}" if finding.advice else ""
            sys.stdout.write(f"{'ok' if finding.ok else 'NO':<3} {finding.what}: {finding.found}{advice}\n")
    if not all(finding.ok for finding in found):
        raise outcome.Leave(outcome.FAILED)


def findings(place: str | None, options: dict[str, str]) -> Iterator[Finding]:
    """Everything worth knowing, one after the other."""
    yield _python()
    yield from _libraries()
    yield from _spark()
    if place is not None:
        yield from _store(place, options)


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("Python", sys.version_info >= (3, 11), f"{version} ({sys.executable})", "")


def _libraries() -> Iterator[Finding]:
    for name in ("pyarrow", "tantivy", "obstore", "datafusion"):
        version = _installed(name)
        advice = "" if version else f"install it: pip install {name}"
        yield Finding(name, version is not None, version or "not installed", advice)


def _spark() -> Iterator[Finding]:
    version = _installed("pyspark")
    if version is None:
        yield Finding("pyspark", ok=True, found="not installed; only Spark needs it: pip install 'indextables[spark]'")
        return
    fits = re.match(r"4\.[23]\.", version) is not None
    yield Finding("pyspark", fits, version, "" if fits else "install a version from 4.2 to 4.3")
    yield _java()
    yield _worker_python()


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home}" if home else "PATH"
        return Finding("Java", ok=False, found=f"none in {where}", advice=f"Spark needs Java {_LEAST_JAVA} or newer")
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 - as Spark does
    except (OSError, subprocess.TimeoutExpired) as cause:
        return Finding("Java", ok=False, found=f"{java} does not run: {cause}", advice=f"install Java {_LEAST_JAVA}")
    match = re.search(r'version "(\d+)', asked.stderr + asked.stdout)
    number = int(match.group(1)) if match else 0
    advice = "" if number >= _LEAST_JAVA else f"Spark needs Java {_LEAST_JAVA} or newer"
    return Finding("Java", number >= _LEAST_JAVA, f"{number or 'unknown'} ({java})", advice)


def _worker_python() -> Finding:
    """Spark's workers take `python3` from PATH unless told, and that one may not have this package."""
    given = os.environ.get("PYSPARK_PYTHON")
    used = given or shutil.which("python3")
    name = "PYSPARK_PYTHON"
    if used is None:
        return Finding(name, ok=False, found="not set, and there is no python3", advice=f"set it to {sys.executable}")
    shown = given or f"not set: workers take {used}"
    if Path(used).exists() and Path(used).samefile(sys.executable) and Path(used).parent == Path(sys.executable).parent:
        return Finding(name, ok=True, found=shown)
    try:
        command = [used, "-c", "import indextables, pyspark"]
        asked = subprocess.run(command, capture_output=True, check=False, timeout=60)  # noqa: S603 - as Spark does
    except (OSError, subprocess.TimeoutExpired):
        return Finding(name, ok=False, found=f"{shown}, which does not run", advice=f"set it to {sys.executable}")
    if asked.returncode:
        return Finding(name, ok=False, found=f"{shown}, which lacks the package", advice=f"set it to {sys.executable}")
    return Finding(name, ok=True, found=shown)


def _store(place: str, options: dict[str, str]) -> Iterator[Finding]:
    from indextables.options import Options
    from indextables.storage import open_store
    from indextables.storage.store import LOG_DIR

    try:
        store = open_store(place, Options(options))
        listed = next(iter(store.list_from(LOG_DIR, "")), None)
    except IndexTablesError as error:
        yield Finding("read", ok=False, found=" ".join(str(error).split()))
        return
    state = "readable, a log is there" if listed is not None else "readable, no table yet"
    yield Finding("read", ok=True, found=f"{store.url}: {state}")
    try:
        facts = store.probe()
    except IndexTablesError as error:
        yield Finding("write", ok=False, found=" ".join(str(error).split()))
        return
    clock = f", clocks {abs(facts.skew_ms)} ms apart" if facts.skew_ms else ""
    yield Finding("write", ok=True, found=f"put-if-absent holds{clock}")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
