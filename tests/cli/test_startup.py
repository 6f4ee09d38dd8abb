"""What a search loads: nothing that it does not need, because every process pays for it."""

import subprocess
import sys

import pyarrow as pa
import pytest

import indextables

HEAVY = ("pandas", "datafusion", "pyspark", "sqlglot", "obstore", "rich", "typer", "pyarrow.dataset", "fastavro")


def loaded_after(code):
    probe = f"{code}\nimport sys; print([name for name in {(*HEAVY, 'pyarrow')!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return ran.stdout.strip().splitlines()[-1]


def test_importing_the_package_loads_no_library():
    assert loaded_after("import indextables") == "[]"


@pytest.mark.parametrize("commits", [1, 12])
def test_a_search_of_a_local_table_loads_arrow_alone(tmp_path, commits):
    options = {"cache.directory": str(tmp_path / "cache")}
    table = indextables.create(
        tmp_path / "t", pa.schema([("id", pa.int64()), ("message", pa.string())]), indexing={"message": "text"}
    )
    for i in range(commits):
        table.append([{"id": i, "message": f"timeout number {i}"}])
    code = (
        f"import indextables\ntable = indextables.open({str(tmp_path / 't')!r}, options={options!r})\n"
        "assert table.search('message:timeout').num_rows == min(10, " + str(commits) + ")\n"
    )
    assert loaded_after(code) == "['pyarrow']"


def test_a_first_search_does_without_the_compute_functions_of_arrow(tmp_path):
    table = indextables.create(
        tmp_path / "t", pa.schema([("id", pa.int64()), ("message", pa.string())]), indexing={"message": "text"}
    )
    for turn in range(3):
        table.append([{"id": i, "message": f"timeout number {i} of {turn}"} for i in range(20)])
    options = {"cache.directory": str(tmp_path / "cache")}
    code = (
        f"import sys, indextables\ntable = indextables.open({str(tmp_path / 't')!r}, options={options!r})\n"
        "assert table.search('message:timeout').num_rows == 10\nprint('pyarrow.compute' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_help_loads_no_library():
    code = "from indextables.cli import main\nmain(['search', '--help'])"
    assert loaded_after(code) == "['typer']"


@pytest.mark.parametrize(
    ("flags", "loaded"), [("", "['rich', 'typer', 'pyarrow']"), ("'--json'", "['typer', 'pyarrow']")]
)
def test_a_search_from_the_shell_loads_what_it_shows_with(tmp_path, flags, loaded):
    table = indextables.create(
        tmp_path / "t",
        pa.schema([("at", pa.timestamp("us", "UTC")), ("message", pa.string())]),
        indexing={"message": "text"},
    )
    table.append([{"at": None, "message": "timeout"}])
    place = str(tmp_path / "t")
    cache = f"'--option', 'cache.directory={tmp_path / 'cache'}'"
    code = f"from indextables.cli import main\nassert main(['search', {place!r}, 'timeout', {cache}, {flags}]) == 0"
    assert loaded_after(code) == loaded
