"""The shell examples of the guide run, and the pages that the code fills are filled."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from indextables.cli.outcome import EXIT_CODES
from indextables.options import known_options

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_run_one_after_the_other(tmp_path):
    command = tmp_path / "bin" / "indextables"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom indextables.cli import main\nsys.exit(main())\n")
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "INDEXTABLES_CACHE_DIRECTORY": str(tmp_path / "cache"),
        "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    script = "\n".join(BLOCK.findall((ROOT / "docs" / "guides" / "cli.md").read_text()))
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "query timeout after 30 s" in ran.stdout
    assert "taken before, nothing added" in ran.stderr


@pytest.fixture(scope="module")
def sections():
    return runpy.run_path(str(ROOT / "docs" / "hooks.py"))["SECTIONS"]


def test_every_option_is_in_the_reference(sections):
    page = sections["options"]()
    assert all(f"`{option.key}`" in page and option.help in page for option in known_options())
    assert "{{ options }}" in (ROOT / "docs" / "reference" / "options.md").read_text()


def test_every_exit_code_and_command_is_in_the_reference(sections):
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert "{{ exit codes }}" in page
    assert "{{ commands }}" in page
    assert all(f"| {code} |" in sections["exit codes"]() for code in EXIT_CODES)
    assert "`indextables ingest`" in sections["commands"]()


def test_every_page_of_the_site_is_there():
    listed = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())
    assert listed
    assert [page for page in listed if not (ROOT / "docs" / page).is_file()] == []
