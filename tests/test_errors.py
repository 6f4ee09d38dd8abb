from __future__ import annotations

import inspect
import pickle
import re

import pytest

from indextables import errors
from indextables.errors import CommitError, CommitStateUnknown, IndexTablesError, LogCorrupt, ObjectNotFound


def _classes():
    return {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and name[0] != "_"}


def test_every_error_is_exported_documented_and_drawn_in_the_tree():
    drawn = set(re.findall(r"^[ │├└─]*([A-Z]\w+)", errors.__doc__, re.MULTILINE))
    for name, kind in _classes().items():
        assert issubclass(kind, IndexTablesError)
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
