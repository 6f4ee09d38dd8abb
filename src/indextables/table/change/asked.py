"""Declares what the shell asks a table's rows for: the parameters of delete, update and upsert, with help. Pure.

The defaults are those of the methods of `Table`; tests/table/test_doors.py compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from indextables.errors import InvalidArgument
from indextables.table.arguments import check_flag, check_names, check_note, check_text, check_txn, check_version
from indextables.table.requests import Field, Request

__all__ = ["DeleteAsked", "UpdateAsked", "UpsertAsked"]


def _txn(_name: str, value: Any) -> tuple[str, int] | None:
    """(application, batch), or a text of both. Raises InvalidArgument."""
    if isinstance(value, str):
        app, colon, batch = value.rpartition(":")
        if not colon or not app or not (batch.isascii() and batch.isdigit()):
            raise InvalidArgument(f"a batch is an application and a number, as in nightly:7, not {value!r}", txn=value)
        value = (app, int(batch))
    return check_txn(value)


def _rows(text: str, metavar: str, short: str | None = None) -> Field:
    return Field("text", text, check_text, metavar, short)


_Where: TypeAlias = Annotated[str | None, _rows("Only rows for which this predicate is true.", "SQL", "-w")]
_Search: TypeAlias = Annotated[str | None, _rows("Only rows that this query finds.", "QUERY")]
_Txn: TypeAlias = Annotated[
    tuple[str, int] | None,
    Field("text", "Do a batch once: an application and a number that the table keeps.", _txn, "APP:BATCH"),
]
_Note: TypeAlias = Annotated[
    str | None, Field("text", "A note for the history.", lambda _, value: check_note(value), "TEXT")
]
_Expected: TypeAlias = Annotated[
    int | None,
    Field(
        "version",
        "Do nothing if rows that this selects changed after this version, which you have read.",
        lambda _, value: check_version(value),
        "N",
    ),
]
_Keys: TypeAlias = Annotated[
    Sequence[str],
    Field("names", "The columns that tell rows apart.", lambda name, value: tuple(check_names(name, value)), "A,B"),
]
_MergeSchema: TypeAlias = Annotated[
    bool, Field("flag", "Add columns that only the file has, and keep those that it lacks as they are.", check_flag)
]
_DryRun: TypeAlias = Annotated[bool, Field("flag", "Only show what would be done.", check_flag)]


class _Selecting(Request, frozen=True):
    """Something happens to the rows that a predicate and a search select; to all without either."""

    where: _Where = None
    search: _Search = None
    txn: _Txn = None
    user_metadata: _Note = None
    expect_version: _Expected = None
    dry_run: _DryRun = False


class DeleteAsked(_Selecting, frozen=True):
    """Rows go; all of them without a predicate and a search."""


class UpdateAsked(_Selecting, frozen=True):
    """Columns of rows are set; of all of them without a predicate and a search."""


class UpsertAsked(Request, frozen=True):
    """Rows replace those of the same key, and others are added."""

    on: _Keys
    merge_schema: _MergeSchema = False
    txn: _Txn = None
    user_metadata: _Note = None
    expect_version: _Expected = None
    dry_run: _DryRun = False
