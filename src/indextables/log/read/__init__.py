"""What is the newest version, and what is the table at a version? This room lists, confirms and replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.log.read import clock, histories, tokens
    from indextables.log.read.cache import CacheStats, LogCache, RegionStats, shared_cache
    from indextables.log.read.checked import check_newest, read_check_file
    from indextables.log.read.confirming import Confirmed, Mixed, Superseded, by_anchor, confirm, follows, table_of
    from indextables.log.read.folding import fold_skips, header_after, live_files, replay
    from indextables.log.read.hint import anchor
    from indextables.log.read.histories import HISTORY_SCHEMA, commit_time, history, moment
    from indextables.log.read.log import AfterCommit, Log, ReadTail, Snapshot
    from indextables.log.read.meant import ANOTHER_HISTORY, check_ours
    from indextables.log.read.nearby import oldest_version
    from indextables.log.read.newest import discover
    from indextables.log.read.readable import newest_readable, snapshot_at
    from indextables.log.read.reduce import ReducedContent, dump_run, load_run, reduce_versions
    from indextables.log.read.segment import gap, head_of
    from indextables.log.read.tokens import Survey, Told, identity_of, newest_tokens
    from indextables.log.read.versions import Stamp, read_contents, read_stamp

__all__ = [
    "ANOTHER_HISTORY",
    "HISTORY_SCHEMA",
    "AfterCommit",
    "CacheStats",
    "Confirmed",
    "Log",
    "LogCache",
    "Mixed",
    "ReadTail",
    "ReducedContent",
    "RegionStats",
    "Snapshot",
    "Stamp",
    "Superseded",
    "Survey",
    "Told",
    "anchor",
    "by_anchor",
    "check_newest",
    "check_ours",
    "clock",
    "commit_time",
    "confirm",
    "discover",
    "dump_run",
    "fold_skips",
    "follows",
    "gap",
    "head_of",
    "header_after",
    "histories",
    "history",
    "identity_of",
    "live_files",
    "load_run",
    "moment",
    "newest_readable",
    "newest_tokens",
    "oldest_version",
    "read_check_file",
    "read_contents",
    "read_stamp",
    "reduce_versions",
    "replay",
    "shared_cache",
    "snapshot_at",
    "table_of",
    "tokens",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "cache": ("CacheStats", "LogCache", "RegionStats", "shared_cache"),
            "checked": ("check_newest", "read_check_file"),
            "confirming": ("Confirmed", "Mixed", "Superseded", "by_anchor", "confirm", "follows", "table_of"),
            "folding": ("fold_skips", "header_after", "live_files", "replay"),
            "hint": ("anchor",),
            "histories": ("HISTORY_SCHEMA", "commit_time", "history", "moment"),
            "log": ("AfterCommit", "Log", "ReadTail", "Snapshot"),
            "meant": ("ANOTHER_HISTORY", "check_ours"),
            "nearby": ("oldest_version",),
            "newest": ("discover",),
            "readable": ("newest_readable", "snapshot_at"),
            "reduce": ("ReducedContent", "dump_run", "load_run", "reduce_versions"),
            "segment": ("gap", "head_of"),
            "tokens": ("Survey", "Told", "identity_of", "newest_tokens"),
            "versions": ("Stamp", "read_contents", "read_stamp"),
        },
    )
