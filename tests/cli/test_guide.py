"""The shell examples of the guide run, and the pages that the code fills are filled."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from indextables import options as opt
from indextables.cli.outcome import EXIT_CODES
from indextables.options import known_options

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path):
    """Runs the shell blocks of a page, one after the other, in an empty folder."""
    command = tmp_path / "bin" / "indextables"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom indextables.cli import main\nsys.exit(main())\n")
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "INDEXTABLES_CACHE_DIRECTORY": str(tmp_path / "cache"),
    }
    folder = tmp_path / "work"
    folder.mkdir()

    def run(page):
        script = "\n".join(BLOCK.findall((ROOT / page).read_text()))
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
def test_the_examples_of_the_guide_run_one_after_the_other(shell):
    ran = shell("docs/guides/cli.md")
    assert ran.returncode == 0, ran.stderr
    assert "query timeout after 30 s" in ran.stdout
    assert "taken before, nothing added" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_shell_examples_of_the_first_pages_run(shell, page):
    ran = shell(page)
    assert ran.returncode == 0, ran.stderr
    assert "query timeout" in ran.stdout


def test_every_public_name_is_in_the_reference():
    import indextables

    pages = "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    homes = {"open": "open_table", "sql": "run_sql", "IndexTablesError": "indextables.errors"}
    care = {"cache_stats", "invalidate_caches", "rebuild", "recreate_pointer", "repair", "verify"}
    missing = [name for name in indextables.__all__ if name not in care and homes.get(name, name) not in pages]
    assert missing == []
    assert "::: indextables.table.maintenance.repairing" in pages
    from indextables.table.maintenance import repairing

    assert care <= set(repairing.__all__)


@pytest.fixture(scope="module")
def sections():
    return runpy.run_path(str(ROOT / "docs" / "hooks.py"))["SECTIONS"]


def test_every_option_is_in_the_reference(sections):
    page = sections["options"]()
    assert all(f"`{option.key}`" in page and option.help in page for option in known_options())
    assert "{{ options }}" in (ROOT / "docs" / "reference" / "options.md").read_text()


@pytest.mark.parametrize(("mark", "declared"), [("options of a load", opt.LOADING), ("options of a save", opt.SAVING)])
def test_every_option_of_one_load_or_save_is_in_the_reference(sections, mark, declared):
    rows = sections[mark]().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [option.key for option in declared]
    assert all(f"| {option.kind} | {option.help} |" in row for row, option in zip(rows, declared, strict=True))
    assert f"{{{{ {mark} }}}}" in (ROOT / "docs" / "reference" / "options.md").read_text()


def test_every_exit_code_and_command_is_in_the_reference(sections):
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert "{{ exit codes }}" in page
    assert "{{ commands }}" in page
    assert all(f"| {code} |" in sections["exit codes"]() for code in EXIT_CODES)
    assert "`indextables ingest`" in sections["commands"]()
    assert "`indextables merge-splits`" in sections["commands"]()


def test_every_page_of_the_site_is_there():
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())
    assert listed
    assert [page for page in listed if not (ROOT / "docs" / page).is_file()] == []
