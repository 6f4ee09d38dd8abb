"""What an operator does to a table over the years: merge-splits, purge, restore and the like.

What cannot be undone asks first; where nobody can answer, `--yes` is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from indextables.cli.asking import Quiet, Yes, agreed, bar, is_asked
from indextables.cli.declared import Option
from indextables.cli.parameters import AsJson, Settings, TablePath, names, open_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "drop_partitions",
    "flush_caches",
    "merge_splits",
    "prewarm",
    "purge",
    "reindex",
    "restore",
    "skips",
    "truncate",
]

_DryRun = Annotated[bool, Option("--dry-run", help="Only show what would be done.")]
_OnPartitions = Annotated[
    str | None, Option("--where", "-w", metavar="SQL", help="Only partitions for whose values this is true.")
]
_MaybeMatching = Annotated[
    str | None,
    Option("--where", "-w", metavar="SQL", help="Only files that may hold rows for which this is true."),
]

_DROPPED = ["path", "partitionValues", "size"]


def merge_splits(
    table: TablePath,
    where: _OnPartitions = None,
    target_size: Annotated[
        str | None, Option("--target-size", metavar="BYTES", help="Size of a merged file: 512M, 1G, ...")
    ] = None,
    max_dest_splits: Annotated[
        int | None, Option("--max-dest-splits", least=1, help="Make at most so many merged files.")
    ] = None,
    max_source_splits_per_merge: Annotated[
        int | None, Option("--max-source-splits-per-merge", least=2, help="Merge at most so many files into one.")
    ] = None,
    cluster_by: Annotated[str | None, Option("--cluster-by", metavar="A,B", help="Sort rows by these columns.")] = None,
    curve: Annotated[str, Option("--curve", metavar="CURVE", help="zorder or hilbert.")] = "zorder",
    dry_run: _DryRun = False,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Make few large files of many small ones. Rows, their order and searches stay the same; appends go on.

    What is finished is committed in batches and stays, whatever happens later.

    \b
    Examples:
      indextables merge-splits logs
      indextables merge-splits logs --where "day < '2026-01-01'" --target-size 512M
      indextables merge-splits logs --cluster-by host,ts --dry-run
    """
    report = open_table(table, option).merge_splits(
        where,
        target_size=_bytes(target_size),
        max_dest_splits=max_dest_splits,
        max_source_splits_per_merge=max_source_splits_per_merge,
        cluster_by=names(cluster_by, "--cluster-by") or (),
        curve=curve,
        dry_run=dry_run,
        progress=bar(quiet=quiet),
    )
    if as_json:
        _as_json(report, report.plan if dry_run else None, leave_out="plan")
    elif dry_run:
        _list(report.plan["path"].to_pylist())
        _say(f"{report.plan.num_rows:,} files would become {report.groups:,}")
    else:
        _list(f"not readable, left alone for now: {skip.path}: {skip.reason}" for skip in report.skipped)
        _list(f"not merged: {reason}" for reason in report.failed)
        made = f"{report.source_splits:,} files merged into {report.new_splits:,}, {report.rows:,} rows"
        _say(made + (f", version {report.versions[-1]}" if report.versions else ", nothing to commit"))
    _fail_if(report.failed or report.skipped)


def skips(
    table: TablePath,
    clear: Annotated[bool, Option("--clear", help="Let the next merge try them again.")] = False,
    path: Annotated[
        list[str] | None, Option("--path", help="With --clear: only this file; may be given often.")
    ] = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show the files that a merge could not read and until when it leaves them alone; or clear them.

    \b
    Examples:
      indextables skips logs
      indextables skips logs --clear
    """
    from indextables.cli import render
    from indextables.errors import InvalidArgument

    if path and not clear:
        raise InvalidArgument("--path says which file to clear: give --clear too")
    opened = open_table(table, option)
    if clear:
        _say(f"{opened.clear_skips(path or None):,} files will be tried again")
        return
    render.rows(opened.skips(), as_json=as_json)


def purge(
    table: TablePath,
    older_than_hours: Annotated[
        float | None, Option("--older-than-hours", metavar="HOURS", help="Keep data files younger than this.")
    ] = None,
    tx_log_retention_hours: Annotated[
        float | None, Option("--tx-log-retention-hours", metavar="HOURS", help="Keep versions this long.")
    ] = None,
    force: Annotated[
        bool, Option("--force", help="Allow less than the safe age; only if nobody else uses the table.")
    ] = False,
    dry_run: _DryRun = False,
    yes: Yes = False,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete files that no version needs which stays readable. This cannot be undone.

    \b
    Examples:
      indextables purge logs --dry-run
      indextables purge logs --older-than-hours 336
      indextables purge logs --yes --json
    """
    from indextables.cli import render

    asks = not dry_run and is_asked(yes=yes)
    opened = open_table(table, option)
    wanted: dict[str, Any] = {
        "older_than_hours": older_than_hours,
        "tx_log_retention_hours": tx_log_retention_hours,
        "force": force,
        "progress": bar(quiet=quiet),
    }
    if asks:
        foreseen = opened.purge(dry_run=True, **wanted)
        if not foreseen.deleted:
            if as_json:
                _as_json(foreseen, foreseen.files, leave_out="files")
            else:
                _say("nothing to delete" + _because(foreseen.reason))
            return
        agreed(f"Delete {foreseen.deleted:,} files ({render.size(foreseen.bytes)}) of {table} for good?")
    report = opened.purge(dry_run=dry_run, **wanted)
    if as_json:
        _as_json(report, report.files, leave_out="files")
    else:
        _list(f"{kind}  {path}" for kind, path in zip(*_columns(report.files, "kind", "path"), strict=True))
        _list(f"could not be deleted: {path}: {reason}" for path, reason in report.failed.items())
        kept = "; ".join(f"{count:,} kept: {why}" for why, count in report.kept.items())
        gone = f"{report.deleted:,} files ({render.size(report.bytes)}) {'would go' if dry_run else 'deleted'}"
        _say(gone + _because(report.reason) + (f"; {kept}" if kept else ""))
    _fail_if(report.failed)


def drop_partitions(
    table: TablePath,
    where: Annotated[str, Option("--where", "-w", metavar="SQL", help="Which: on partition columns only.")],
    dry_run: _DryRun = False,
    yes: Yes = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Remove whole partitions with their rows. `restore` brings them back until a purge takes their files.

    \b
    Examples:
      indextables drop-partitions logs --where "day < '2025-01-01'" --dry-run
      indextables drop-partitions logs --where "day = '2026-01-01'" --yes
    """
    asks = not dry_run and is_asked(yes=yes)
    opened = open_table(table, option)
    if asks:
        foreseen = opened.drop_partitions(where, dry_run=True)
        if not foreseen.dropped:
            if as_json:
                _as_json(foreseen, foreseen.files.select(_DROPPED), leave_out="files")
            else:
                _say("no partition matches, nothing to drop")
            return
        agreed(f"Drop {_amount(foreseen.dropped, foreseen.rows)} of {table}?")
    report = opened.drop_partitions(where, dry_run=dry_run)
    if as_json:
        _as_json(report, report.files.select(_DROPPED), leave_out="files")
        return
    _list(report.files["path"].to_pylist())
    done = "would go" if dry_run else f"dropped, version {report.version}"
    _say(f"{_amount(report.dropped, report.rows)} {done}")


def truncate(
    table: TablePath,
    dry_run: _DryRun = False,
    yes: Yes = False,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Make every version but the newest unreadable. Its rows stay. This cannot be undone.

    \b
    Examples:
      indextables truncate logs --dry-run
      indextables truncate logs --yes
    """
    asks = not dry_run and is_asked(yes=yes)
    opened = open_table(table, option)
    if asks:
        foreseen = opened.truncate_time_travel(dry_run=True)
        if not foreseen.deleted:
            if as_json:
                _as_json(foreseen, None)
            else:
                _say(f"nothing to forget, {foreseen.oldest} is the oldest version{_because(foreseen.reason)}")
            return
        agreed(f"Forget all versions of {table} before {foreseen.oldest} for good ({foreseen.deleted:,} files)?")
    report = opened.truncate_time_travel(dry_run=dry_run, progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
    else:
        _list([*report.states, *report.versions, *report.manifests])
        _list(f"could not be deleted: {path}: {reason}" for path, reason in report.failed.items())
        done = "would be" if dry_run else "is"
        _say(f"{report.deleted:,} files; {report.oldest} {done} the oldest version{_because(report.reason)}")
    _fail_if(report.failed)


def restore(
    table: TablePath,
    version: Annotated[int | None, Option("--version", "-v", metavar="N", help="To this version.")] = None,
    timestamp: Annotated[str | None, Option("--timestamp", metavar="TIME", help="To what was current then.")] = None,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Make the table what it was, by one more version; what it is now stays readable as the version before.

    \b
    Examples:
      indextables restore logs --version 3
      indextables restore logs --timestamp 2026-01-31T12:00:00Z
    """
    report = open_table(table, option).restore(version, timestamp=timestamp, progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
        return
    moved = f"{report.added_files:,} files back, {report.removed_files:,} files out"
    _say(f"version {report.version} is version {report.restored} again: {moved}")


def reindex(
    table: TablePath,
    where: _MaybeMatching = None,
    force: Annotated[bool, Option("--force", help="Also where the index is as it should be.")] = False,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Give a new index to files whose index is missing, foreign or not what the table wants by now. Rows stay.

    \b
    Examples:
      indextables reindex logs
      indextables reindex logs --where "day = '2026-01-01'" --force
    """
    report = open_table(table, option).reindex(where, force=force, progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
    else:
        _list(f"could not be reindexed: {path}: {reason}" for path, reason in report.failed.items())
        why = ", ".join(f"{count:,} {reason}" for reason, count in report.reasons.items())
        _say(f"{report.reindexed:,} of {report.splits:,} files reindexed" + (f" ({why})" if why else ""))
    _fail_if(report.failed)


def prewarm(
    table: TablePath,
    where: _MaybeMatching = None,
    columns: Annotated[
        str | None, Option("--columns", "-c", metavar="A,B", help="What searches on these columns read.")
    ] = None,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Load indexes into the local cache, so that the first searches are fast.

    \b
    Examples:
      indextables prewarm s3://bucket/logs
      indextables prewarm logs --where "day >= '2026-01-01'" --columns message
    """
    from indextables.cli import render

    opened = open_table(table, option)
    report = opened.prewarm(where, columns=names(columns, "--columns"), progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
    else:
        _list(f"could not be loaded: {path}: {reason}" for path, reason in report.failed.items())
        _say(f"{report.splits:,} files warm, {render.size(report.bytes)} read")
    _fail_if(report.failed)


def flush_caches(table: TablePath, option: Settings = None, as_json: AsJson = False) -> None:
    """Delete the cached indexes of this machine; results do not change.

    \b
    Examples:
      indextables flush-caches logs
    """
    from indextables.cli import render

    report = open_table(table, option).flush_caches()
    if as_json:
        _as_json(report, None)
        return
    _say(f"{render.size(report.bytes)} of cached indexes deleted")


def _as_json(report: Any, files: pa.Table | None, leave_out: str = "") -> None:
    """One object with the report; the files that it speaks of as a list in it."""
    import msgspec

    from indextables.cli import render

    shown: Mapping[str, Any] = {k: v for k, v in msgspec.structs.asdict(report).items() if k != leave_out}
    if files is not None:
        shown = {**shown, "files": files.to_pylist(maps_as_pydicts="strict")}
    render.json_lines([shown])


def _columns(files: pa.Table, *wanted: str) -> list[list[Any]]:
    return [files[name].to_pylist() for name in wanted]


def _list(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(" ".join(str(line).split()) + "\n")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _amount(files: int, rows: int | None) -> str:
    return f"{files:,} files" + ("" if rows is None else f" with {rows:,} rows")


def _because(reason: str) -> str:
    return f" ({' '.join(reason.split())})" if reason else ""


def _fail_if(problems: object) -> None:
    from indextables.cli import outcome

    if problems:
        raise outcome.Leave(outcome.FAILED)


def _bytes(given: str | None) -> int | None:
    """`512M` as bytes. Raises InvalidArgument."""
    from indextables import options as opt

    key = opt.MERGE_TARGET_SIZE.key
    return None if given is None else opt.Options({key: given}, environ={})[opt.MERGE_TARGET_SIZE]
