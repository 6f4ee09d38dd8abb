"""What a search loads: nothing that it does not need, because every process pays for it."""

import shlex
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_help_loads_no_library():
    code = "from indextables.cli import main\nmain(['search', '--help'])"
    assert loaded_after(code) == "['typer']"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table with instants, words and a checkpoint behind its last versions."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("message", pa.string())])
    folder = tmp_path_factory.mktemp("startup") / "t"
    table = indextables.create(folder, schema, indexing={"message": "text"})
    for number in range(12):
        table.append([{"id": number, "at": None, "message": f"timeout number {number}"}])
    return folder


def heavy_after(code, *arguments):
    """What a process has loaded after each step that it tells of with `seen(name)`."""
    watch = f"""
import sys
def seen(name):
    print(name, [m for m in {(*HEAVY, "pydantic", "duckdb", "polars")!r} if sys.modules.get(m)], file=sys.stderr)
"""
    ran = subprocess.run(
        [sys.executable, "-c", watch + code, *arguments], capture_output=True, text=True, check=True, timeout=300
    )
    return ran.stderr.splitlines()


@pytest.mark.slow
def test_what_is_read_through_the_interface_loads_nothing_else(place, tmp_path):
    reads = [
        "search('message:timeout')",
        "search('message:timeout', highlight=['message'])",
        "search('message:timeout', order_by='id desc')",
        "search('message:nosuchword')",
        "search('message:nosuchword', highlight=['message'])",
        "count()",
        "count('timeout')",
        "count('nosuchword')",
        "to_arrow()",
        "aggregate('timeout', {'n': {'stats': {'field': 'id'}}})",
        "schema",
        "files()",
        "detail()",
        "state()",
        "log()",
        "at(version=3)",
    ]
    options = {"cache.directory": str(tmp_path)}
    code = f"import indextables\ntable = indextables.open({str(place)!r}, options={options!r})\n"
    code += "\n".join(f"table.{read}; seen({read!r})" for read in reads)
    assert heavy_after(code) == [f"{read} []" for read in reads]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "loaded"),
    [
        ("search {} nosuchword --json", []),
        ("search {} message:timeout", []),
        ("search {} timeout --where id>3", ["sqlglot"]),
        ("schema {}", []),
        ("history {}", []),
        ("describe {}", []),
        ("verify {}", []),
        ("merge-splits {} --dry-run", []),
        ("sql {} 'SELECT 1 AS one' --json", ["datafusion", "pyarrow.dataset"]),
    ],
)
def test_a_command_loads_what_it_needs_and_nothing_else(place, tmp_path, line, loaded):
    code = """
import atexit
from indextables.cli import main
code = main()
atexit.register(lambda: seen(code))
"""
    arguments = [*shlex.split(line.format(place)), "--option", f"cache.directory={tmp_path / 'cache'}"]
    *_, last = heavy_after(code, *arguments)
    assert last == f"0 {[name for name in HEAVY if name in loaded]}"


@pytest.mark.slow
def test_a_table_on_a_terminal_is_shown_with_rich(place, tmp_path):
    code = f"""
import os
from indextables.cli import main
os.environ["FORCE_COLOR"] = "1"
assert main(["search", {str(place)!r}, "timeout", "-o", {"cache.directory=" + str(tmp_path)!r}]) == 0
seen("search")
"""
    assert heavy_after(code) == ["search ['rich']"]
