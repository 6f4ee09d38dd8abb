"""Declares what a statement that changes rows is, and what it reports."""

from __future__ import annotations

from typing import Protocol

import msgspec

from indextables.env import Env
from indextables.log.read import Snapshot
from indextables.log.wire import Add, Metadata
from indextables.table.change.located import Located, Selection

__all__ = ["ChangeReport", "Prepared", "Statement"]


class Prepared(msgspec.Struct, frozen=True):
    """What a statement does on top of one version: rows that go, and files with rows that come.

    `mapping` is the metadata with a new index plan in its registry, where the new files need one.
    """

    located: Located
    adds: list[Add] = []
    mapping: Metadata | None = None


class Statement(Protocol):
    """One DELETE, UPDATE or the like, bound to the schema of a table."""

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
        """True if rows that go come back with other values."""
        ...

    def selection(self, snapshot: Snapshot) -> Selection:
        """Which rows it is about. Raises QueryInvalid for a schema that it does not fit."""
        ...

    def prepare(self, env: Env, snapshot: Snapshot, located: Located) -> Prepared:
        """Write the rows that come. Raises what writing raises; then nothing of them stays."""
        ...

    def metrics(self, deleted: int, prepared: Prepared) -> dict[str, str | None]:
        """What the history tells of the commit, for `deleted` rows that go."""
        ...


class ChangeReport(msgspec.Struct, frozen=True):
    """What a statement did to rows.

    `version` is the one that it made, None where nothing had to be changed, or with a dry run. `metrics` are those of
    the history, by Delta's names. `repairs` counts the versions of others that it went around without starting again,
    `reruns` how often it started again.
    """

    operation: str
    version: int | None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    removed_files: int = 0
    added_files: int = 0
    vectors: int = 0
    located_by: str = "files"
    repairs: int = 0
    reruns: int = 0
    dry_run: bool = False
    metrics: dict[str, int] = {}
