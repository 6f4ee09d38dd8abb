"""The bytes of a version file, both ways: JSON lines, plain or gzip, and Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from indextables.log.actions import (
    Action,
    Cdc,
    CommitInfo,
    DomainMetadata,
    MergeSkip,
    Metadata,
    Protocol,
    Txn,
)

__all__ = ["REMOVES_SCHEMA", "VersionContent", "decode_version", "encode_version", "raw_lines"]

from indextables.log.files import REMOVE_TYPE

# The fields of `remove`, then its line in the version file, counted from 1.
REMOVES_SCHEMA = pa.schema([*REMOVE_TYPE, pa.field("line", pa.int64())])


class VersionContent(msgspec.Struct, frozen=True):
    """One version file, checked.

    1. `adds` has `FILES_SCHEMA`, `removes` has `REMOVES_SCHEMA`; both are in order of their lines, counted from 1.
    2. Every path is relative and in canonical encoding, so that equal files have equal text.
    3. `addedAtTimestamp` is the commit's time, null where the file tells none.
    """

    version: int
    commit_info: CommitInfo | None
    protocol: Protocol | None
    metadata: Metadata | None
    adds: pa.Table
    removes: pa.Table
    txns: tuple[Txn, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    skips: tuple[MergeSkip, ...] = ()
    cdc: tuple[Cdc, ...] = ()
    stored_bytes: int = 0

    @property
    def token(self) -> str | None:
        """The commit token, None in files of other systems."""
        return None if self.commit_info is None else self.commit_info.token


def encode_version(
    actions: Sequence[Action],
    *,
    adds: pa.Table | None = None,
    removes: pa.Table | None = None,
    compress: bool,
) -> bytes:
    """The bytes of a version file: `commitInfo` first, the other `actions` in order, then `removes`, then `adds`.

    `adds` and `removes` may lack columns of `FILES_SCHEMA` and `REMOVES_SCHEMA`; `addedAt*` and `line` are left out.
    """
    raise NotImplementedError


def decode_version(data: bytes, version: int, *, root_url: str = "") -> VersionContent:
    """The content of a version file. `root_url` lets absolute paths below it be recognised.

    Raises LogCorrupt (with `version` and `line`), LimitExceeded, PathEscape.
    """
    raise NotImplementedError


def raw_lines(data: bytes) -> list[bytes]:
    """The non-blank lines of a version file as they stand, for rewriting it without loss of unknown fields."""
    raise NotImplementedError
