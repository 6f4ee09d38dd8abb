from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys

import pytest

from indextables import errors
from indextables.errors import (
    CommitError,
    CommitStateUnknown,
    IndexTablesError,
    LogCorrupt,
    ObjectNotFound,
    QueryWarning,
)


def _classes():
    return {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and name[0] != "_"}


def test_every_error_is_exported_documented_and_drawn_in_the_tree():
    drawn = set(re.findall(r"^[ │├└─]*([A-Z]\w+)", errors.__doc__, re.MULTILINE))
    for name, kind in _classes().items():
        assert issubclass(kind, IndexTablesError | QueryWarning)
        assert kind.__doc__
        assert name in errors.__all__
        assert name in drawn


def test_facts_are_attributes_and_survive_pickling():
    error = LogCorrupt("version 7 is broken: restore it from a backup", version=7, line=3)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (copy.version, copy.line, str(copy)) == (7, 3, str(error))
    with pytest.raises(AttributeError):
        _ = copy.nothing_of_the_kind


def test_an_unknown_commit_is_never_caught_as_a_failed_one():
    assert not issubclass(CommitStateUnknown, CommitError)


def test_a_missing_object_is_also_the_builtin_error():
    assert issubclass(ObjectNotFound, FileNotFoundError)


_WITHOUT_SPARK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import indextables

for call in (
    lambda: indextables.enable,
    lambda: indextables.disable,
    lambda: indextables.IndexTable,
    lambda: indextables.sql(None, "SELECT 1"),
):
    try:
        call()
    except indextables.errors.NotInstalled as error:
        print(isinstance(error, ImportError), error.extra, error)
print(indextables.Table, indextables.LocalSession)
"""


def test_what_needs_spark_says_which_extra_brings_it():
    told = subprocess.run([sys.executable, "-c", _WITHOUT_SPARK], capture_output=True, text=True, check=True).stdout
    lines = told.splitlines()
    assert [line.split()[2] for line in lines[:-1]] == [
        f"indextables.{name}" for name in ("enable", "disable", "IndexTable", "sql")
    ]
    assert all(
        line.startswith("True spark ") and line.endswith("pip install 'indextables[spark]'") for line in lines[:-1]
    )
