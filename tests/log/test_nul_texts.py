"""A NUL in a file of the log is an error, or a text: it never ends the process, as the native reader would."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import indextables
from indextables.errors import CheckpointCorrupt, LogCorrupt
from indextables.log.checkpoint.json import _table

ADD = b'{"add":{"path":%b,"partitionValues":%b,"size":1,"modificationTime":1,"dataChange":%b}}\n'
GOOD = ADD % (b'"x"', b"{}", b"true")
BAD = [
    ADD % (b'["\\u0000"]', b"{}", b"true"),
    ADD % (b'"x"', b'{"a":{"b":"\\u0000"}}', b"true"),
    ADD % (b'"x"', b"{}", b'"\\u0000"'),
    ADD % (b'"x"', b"{}", b"\x00rue"),
]

# In a process of its own: that one would end.
READ = """
import sys
import indextables
try:
    indextables.open(sys.argv[1]).files()
except indextables.errors.LogCorrupt as error:
    print("refused", error.version)
"""


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 60])
@pytest.mark.parametrize("bad", BAD)
def test_a_version_file_with_a_nul_where_none_may_be_is_refused(tmp_path, bad, others):
    table = indextables.create(tmp_path / "t", pa.schema([("a", pa.int64())]))
    table.append([{"a": 1}])
    place = tmp_path / "t" / "_transaction_log" / f"{2:020d}.json"
    place.write_bytes(b'{"commitInfo":{"version":2}}\n' + GOOD * others + bad)
    ran = subprocess.run([sys.executable, "-c", READ, tmp_path / "t"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "refused 2\n"), ran.stderr[-500:]
    with pytest.raises(LogCorrupt):
        indextables.open(tmp_path / "t").files()


def test_a_checkpoint_with_a_nul_where_none_may_be_is_refused():
    with pytest.raises(CheckpointCorrupt):
        _table(b'{"path":["\\u0000"]}\n', "checkpoint")


def test_a_text_with_a_nul_is_a_text():
    found = _table(b'{"path":"x","minValues":{"a":"\\u0000"},"splitTags":["\\u0000"],"size":5}\n', "checkpoint")
    assert found["minValues"][0].as_py() == [("a", "\0")]
