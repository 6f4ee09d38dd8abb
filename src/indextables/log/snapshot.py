"""Snapshots: which version is newest, and what the table is at a version."""

from __future__ import annotations

import pyarrow as pa

from indextables.log.actions import DomainMetadata, MergeSkip, Metadata, Protocol, Txn
from indextables.log.codec import VersionContent
from indextables.log.env import LogEnv
from indextables.log.state.base import TableState, TokenWindow

__all__ = ["Log", "Snapshot"]


class Snapshot:
    """The table at one version, pinned."""

    version: int
    state: TableState
    protocol: Protocol
    metadata: Metadata
    schema: pa.Schema
    partition_columns: list[str]
    files: pa.Table
    txns: dict[str, Txn]
    domains: dict[str, DomainMetadata]
    skips: dict[str, MergeSkip]
    tokens: TokenWindow | None
    in_commit_timestamp: int | None
    table_id: str


class Log:
    """The log of one table, for reading."""

    def __init__(self, env: LogEnv) -> None:
        self.env = env

    def latest_version(self, known: int | None = None) -> int:
        """The newest committed version; `known` is one that existed, from which slots are probed.

        Raises TableNotFound, LogGap.
        """
        raise NotImplementedError

    def snapshot(self, version: int | None = None, timestamp_ms: int | None = None) -> Snapshot:
        """The table at a version, at a time, or newest."""
        raise NotImplementedError

    def read_version(self, version: int) -> VersionContent:
        """One version's actions. Raises VersionNotFound, LogCorrupt."""
        raise NotImplementedError

    def metadata_at(self, version: int | None = None) -> tuple[int, Protocol, Metadata]:
        """Version, protocol and metadata, without loading files."""
        raise NotImplementedError
