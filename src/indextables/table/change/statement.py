"""Declares what a statement that changes rows is, and what it reports."""

from __future__ import annotations

from typing import Protocol as Interface

import msgspec
import pyarrow as pa
from pyroaring import BitMap

from indextables.env import Env
from indextables.log.read import Snapshot
from indextables.log.wire import Add, Metadata, Protocol
from indextables.table.change.located import Located
from indextables.table.change.losses import FileCounts

__all__ = ["ChangeReport", "Counts", "Prepared", "Run", "Statement"]


class Prepared(msgspec.Struct, frozen=True):
    """What a statement does on top of one version: rows that go, and files with rows that come.

    `metadata` is the table's with a new index plan in its registry, or with new columns, where the new files need that.
    `protocol` is what new columns ask for.
    """

    located: Located
    adds: list[Add] = []
    metadata: Metadata | None = None
    protocol: Protocol | None = None


class Counts(msgspec.Struct, frozen=True):
    """How many rows of the table went and did not come back, came back with other values, and are new."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0


class Run(Interface):
    """A statement, bound to one version of a table."""

    def locate(self) -> Located:
        """The rows that it is about. Raises QueryInvalid, SplitCorrupt, DvCorrupt, StoreError, ObjectNotFound."""
        ...

    def look(self, files: pa.Table) -> dict[str, BitMap]:
        """The rows of files that others brought meanwhile which would make a difference. Raises as `locate`."""
        ...

    def prepare(self, located: Located) -> Prepared:
        """Write the rows that come. Raises what writing raises; then nothing of them stays."""
        ...


class Statement(Interface):
    """One DELETE, UPDATE or the like, as it was asked for."""

    @property
    def operation(self) -> str:
        """Its name in the history."""
        ...

    @property
    def parameters(self) -> dict[str, str | None]:
        """What the history tells of it."""
        ...

    @property
    def writes(self) -> bool:
        """True if rows that go may come back with other values, or others come for them."""
        ...

    def over(self, env: Env, snapshot: Snapshot) -> Run:
        """Bind it. Raises QueryInvalid, InvalidArgument, SchemaMismatch for a schema that it does not fit."""
        ...

    def counts(self, gone: int, located: Located) -> Counts:
        """What it does, where `gone` rows leave their files."""
        ...

    def metrics(self, counts: Counts, prepared: Prepared, files: FileCounts) -> dict[str, str | None]:
        """What the history tells of the commit."""
        ...


class ChangeReport(msgspec.Struct, frozen=True):
    """What a statement did to rows.

    `version` is the one that it made, None where nothing had to be changed, or with a dry run. `metrics` are those of
    the history, by Delta's names. `sparse_files` have lost so many rows by now that the table writes them anew by
    itself (`mergeOnWrite.maxDeletedRowsRatio`). `repairs` counts the versions of others that it went around without
    starting again, `reruns` how often it started again.
    """

    operation: str
    version: int | None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    removed_files: int = 0
    added_files: int = 0
    vectors: int = 0
    sparse_files: int = 0
    located_by: str = "files"
    repairs: int = 0
    reruns: int = 0
    dry_run: bool = False
    metrics: dict[str, int] = {}
