"""What a first append and a first read cost a process before they do anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path
from tests.log.commits import add, local_env, new_table, open_log
from tests.world.commits import append

folder = Path(sys.argv[1]) / "t"
log = new_table(folder, checkpoint__enabled="false")
append(log, [add("a"), add("b")])
append(open_log(local_env(folder, checkpoint__enabled="false")), [add("c")])
assert open_log(local_env(folder)).snapshot().files["path"].to_pylist() == ["a", "b", "c"]
print("pandas" in sys.modules)
"""


@pytest.mark.slow
def test_appends_and_reads_do_not_import_pandas(tmp_path):
    """Arrow does, wherever it is installed, when it first makes an array of Python values."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
