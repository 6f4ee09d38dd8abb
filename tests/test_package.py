"""Wheel and sdist hold what a user needs: installed alone, with and without extras, the README runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import indextables
from tests.test_docs import blocks

ROOT = Path(__file__).parent.parent
EXTRAS = ("pyspark", "pandas", "typer", "rich", "pyiceberg")
"""What only extras bring."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and sdist, built from a copy of what the repository holds."""
    folder = tmp_path_factory.mktemp("built")
    for name in ("src", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "dist"


def installed(folder: Path, package: Path, *, extras: bool) -> Path:
    """The programs of a new environment with this package; its dependencies are those of this environment."""
    venv.create(folder, with_pip=False)
    (home,) = folder.glob("lib/python*/site-packages")
    hidden = ("indextables", "_indextables", "__editable__", *(() if extras else EXTRAS))
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not path.name.lower().startswith(hidden) and path.suffix != ".pth":
            (home / path.name).symlink_to(path)
    command = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--no-deps", "--no-index", "--quiet"]
    if package.name.endswith(".gz"):
        command.append("--no-build-isolation")
    done = subprocess.run([*command, str(package)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def run(programs: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    path = f"{programs}:{environ['PATH']}"
    return subprocess.run(
        [str(programs / command[0]), *command[1:]],
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
        env=environ | {"PATH": path},
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whl", pytest.param("tar.gz", marks=pytest.mark.soak)])
@pytest.mark.parametrize("extras", [False, True], ids=["bare", "extras"])
def test_the_readme_runs_where_only_the_package_is_installed(built, tmp_path, kind, extras):
    (package,) = built.glob(f"indextables-{indextables.__version__}*.{kind}")
    programs = installed(tmp_path / "env", package, extras=extras)
    work = tmp_path / "work"
    work.mkdir()
    code = "\n".join(text for _, text in blocks(ROOT / "README.md", marked=""))
    where = run(programs, "python", "-c", "import indextables; print(indextables.__file__)", cwd=work)
    assert str(tmp_path / "env") in where.stdout, where.stderr
    # A block can be run twice.
    for _ in range(2):
        done = run(programs, "python", "-c", code, cwd=work)
        assert done.returncode == 0, done.stderr
    found = run(programs, "indextables", "search", "logs", "message:timeout", "--json", cwd=work)
    if extras:
        assert found.returncode == 0, found.stderr
        assert "query timeout after 30 s" in found.stdout
    else:
        assert (found.returncode, found.stdout) == (2, "")
        assert "pip install 'indextables[cli]'" in found.stderr


@pytest.mark.slow
def test_the_sdist_holds_no_tests_and_no_tools(built):
    import tarfile

    (package,) = built.glob("*.tar.gz")
    with tarfile.open(package) as archive:
        tops = {Path(name).parts[1] for name in archive.getnames() if len(Path(name).parts) > 1}
    assert tops <= {
        "src",
        "docs",
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "LICENSE",
        "pyproject.toml",
        "PKG-INFO",
        ".gitignore",
    }
