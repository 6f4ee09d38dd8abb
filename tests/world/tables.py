"""A table in one line, and a log that is long without having taken long."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables
from indextables.env import Env
from indextables.log.care.schedule import checkpoint
from indextables.log.read.cache import LogCache
from indextables.log.read.log import Log
from indextables.log.wire.actions import CommitInfo, Previous
from indextables.log.wire.codec import encode_version
from indextables.log.wire.crcfile import crc32c
from indextables.log.wire.names import version_key

__all__ = ["filled", "lengthened"]


def filled(path: Path | str, batches: Iterable[Any], *, schema: pa.Schema | None = None, **more: Any) -> Any:
    """A table at `path` with one append per batch; `more` goes to `create`. The schema is the first batch's."""
    given = list(batches)
    table = indextables.create(path, given[0] if schema is None else schema, **more)
    for batch in given:
        table.append(batch)
    return table


def lengthened(env: Env, upto: int, *, checkpoints: Iterable[int] = ()) -> None:
    """Commits that change nothing, up to version `upto`, with a checkpoint at each of these versions."""
    log = Log(env, LogCache())
    version = log.latest_version()
    table = log.metadata_at().metadata.id
    content = log.read_version(version)
    assert content.commit_info is not None
    time = content.commit_info.inCommitTimestamp or 0
    token, stored = content.token, crc32c(log.stored(version))
    wanted = {version for version in checkpoints if version <= upto}
    for number in range(version + 1, upto + 1):
        info = CommitInfo(
            inCommitTimestamp=time + number,
            operation="NOTHING",
            tableId=table,
            # As hard to compress as a real one.
            token=f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}",
            version=number,
            previous=Previous(token, stored),
        )
        data = encode_version([info], compress=False)
        env.store.put(version_key(number), data)
        token, stored = info.token, crc32c(data)
        if number in wanted:
            checkpoint(env)
