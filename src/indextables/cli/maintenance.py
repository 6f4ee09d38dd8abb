"""The operator's commands: merge-splits, purge, restore and the like; repair, rebuild, compact and clean-up.

What cannot be undone asks first; where nobody can answer, `--yes` is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from indextables.cli.asking import Quiet, Yes, agreed, bar, is_asked
from indextables.cli.declared import Option
from indextables.cli.parameters import AsJson, Settings, TablePath, counted, keywords_of, open_table, pairs
from indextables.errors import InvalidArgument
from indextables.table.requests import (
    ClearSkips,
    DropPartitions,
    MergeSplits,
    Mirror,
    Prewarm,
    Purge,
    Reindex,
    Restore,
    TruncateTimeTravel,
    fields_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.log.care import RepairReport

__all__ = [
    "clean_up",
    "compact",
    "drop_partitions",
    "flush_caches",
    "merge_splits",
    "mirror",
    "prewarm",
    "purge",
    "rebuild",
    "reindex",
    "repair",
    "restore",
    "skips",
    "truncate",
]

_DROPPED = ["path", "partitionValues", "size"]


def merge_splits(
    table: TablePath,
    request: MergeSplits,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Merge small files into larger ones. Rows, their order and searches stay the same; others may append meanwhile.

    Finished files are committed in batches, and stay if a later batch fails.

    \b
    Examples:
      indextables merge-splits logs
      indextables merge-splits logs --where "day < '2026-01-01'" --target-size 512M
      indextables merge-splits logs --cluster-by host,ts --dry-run
    """
    report = open_table(table, option).merge_splits(**keywords_of(request), progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, report.plan if request.dry_run else None, leave_out="plan")
    elif request.dry_run:
        _list(report.plan["path"].to_pylist())
        _say(f"{counted(report.plan.num_rows, 'file')} would become {report.groups:,}")
    else:
        _list(f"not readable, left alone for now: {skip.path}: {skip.reason}" for skip in report.skipped)
        _list(f"not merged: {reason}" for reason in report.failed)
        made = (
            f"{counted(report.source_splits, 'file')} merged into {report.new_splits:,}, {counted(report.rows, 'row')}"
        )
        _say(made + (f", version {report.versions[-1]}" if report.versions else ", nothing to commit"))
    _fail_if(report.failed or report.skipped)


def skips(
    table: TablePath,
    clear: Annotated[bool, Option("--clear", help="Let the next merge try these files again.")] = False,
    path: Annotated[list[str] | None, Option("--path", help=fields_of(ClearSkips)[0].field.help)] = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show the files that a merge could not read and until when merges leave them alone; --clear ends that.

    \b
    Examples:
      indextables skips logs
      indextables skips logs --clear
    """
    from indextables.cli import render

    if path and not clear:
        raise InvalidArgument("--path says which file to clear: give --clear too")
    opened = open_table(table, option)
    if clear:
        _say(f"{counted(opened.clear_skips(path or None), 'file')} will be tried again")
        return
    render.rows(opened.skips(), as_json=as_json)


def purge(
    table: TablePath,
    request: Purge,
    yes: Yes = False,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete old versions, and the files that no remaining version needs. This cannot be undone.

    \b
    Examples:
      indextables purge logs --dry-run
      indextables purge logs --older-than-hours 336
      indextables purge logs --yes --json
    """
    from indextables.cli import render

    asks = not request.dry_run and is_asked(yes=yes)
    opened = open_table(table, option)
    progress = bar(quiet=quiet)
    if asks:
        foreseen = opened.purge(**keywords_of(request, dry_run=True), progress=progress)
        if not foreseen.deleted:
            if as_json:
                _as_json(foreseen, foreseen.files, leave_out="files")
            else:
                _say("nothing to delete" + _because(foreseen.reason))
            return
        agreed(f"Delete {foreseen.deleted:,} files ({render.size(foreseen.bytes)}) of {table} for good?")
    report = opened.purge(**keywords_of(request), progress=progress)
    if as_json:
        _as_json(report, report.files, leave_out="files")
    else:
        _list(f"{kind}  {path}" for kind, path in zip(*_columns(report.files, "kind", "path"), strict=True))
        _list(f"could not be deleted: {path}: {reason}" for path, reason in report.failed.items())
        kept = "; ".join(f"{count:,} kept: {why}" for why, count in report.kept.items())
        gone = f"{report.deleted:,} files ({render.size(report.bytes)}) {'would go' if report.dry_run else 'deleted'}"
        _say(gone + _because(report.reason) + (f"; {kept}" if kept else ""))
    _fail_if(report.failed)


def drop_partitions(
    table: TablePath,
    request: DropPartitions,
    yes: Yes = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Remove whole partitions with their rows. `restore` brings them back until a purge deletes their files.

    \b
    Examples:
      indextables drop-partitions logs --where "day < '2025-01-01'" --dry-run
      indextables drop-partitions logs --where "day = '2026-01-01'" --yes
    """
    opened = open_table(table, option)
    if not request.dry_run and not yes:
        # What cannot be done is said before anybody is asked for anything.
        foreseen = opened.drop_partitions(**keywords_of(request, dry_run=True))
        is_asked(yes=yes)
        if not foreseen.dropped:
            if as_json:
                _as_json(foreseen, foreseen.files.select(_DROPPED), leave_out="files")
            else:
                _say("no partition matches, nothing to drop")
            return
        agreed(f"Drop {_amount(foreseen.dropped, foreseen.rows)} of {table}?")
    report = opened.drop_partitions(**keywords_of(request))
    if as_json:
        _as_json(report, report.files.select(_DROPPED), leave_out="files")
        return
    _list(report.files["path"].to_pylist())
    done = "would go" if report.dry_run else f"dropped, version {report.version}"
    _say(f"{_amount(report.dropped, report.rows)} {done}")


def truncate(
    table: TablePath,
    request: TruncateTimeTravel,
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
    asks = not request.dry_run and is_asked(yes=yes)
    opened = open_table(table, option)
    if asks:
        foreseen = opened.truncate_time_travel(**keywords_of(request, dry_run=True))
        if not foreseen.deleted:
            if as_json:
                _as_json(foreseen, None)
            else:
                _say(f"nothing to forget, {foreseen.oldest} is the oldest version{_because(foreseen.reason)}")
            return
        agreed(f"Forget all versions of {table} before {foreseen.oldest} for good ({foreseen.deleted:,} files)?")
    report = opened.truncate_time_travel(**keywords_of(request), progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
    else:
        _list([*report.states, *report.versions, *report.manifests])
        _list(f"could not be deleted: {path}: {reason}" for path, reason in report.failed.items())
        done = "would be" if report.dry_run else "is"
        _say(f"{report.deleted:,} files; {report.oldest} {done} the oldest version{_because(report.reason)}")
    _fail_if(report.failed)


def restore(
    table: TablePath,
    request: Restore,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Bring back the table as it was, by a new version; what it is now stays readable as the version before.

    \b
    Examples:
      indextables restore logs --version 3
      indextables restore logs --timestamp 2026-01-31T12:00:00Z
    """
    report = open_table(table, option).restore(**keywords_of(request), progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
        return
    moved = f"{counted(report.added_files, 'file')} back, {counted(report.removed_files, 'file')} out"
    _say(f"version {report.version} is version {report.restored} again: {moved}")


def reindex(
    table: TablePath,
    request: Reindex,
    quiet: Quiet = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Give a new index to files whose index is missing, damaged or made by other rules than the table has now.

    \b
    Examples:
      indextables reindex logs
      indextables reindex logs --where "day = '2026-01-01'" --force
    """
    report = open_table(table, option).reindex(**keywords_of(request), progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
    else:
        _list(f"could not be reindexed: {path}: {reason}" for path, reason in report.failed.items())
        why = ", ".join(f"{count:,} {reason}" for reason, count in report.reasons.items())
        _say(f"{report.reindexed:,} of {counted(report.splits, 'file')} reindexed" + (f" ({why})" if why else ""))
    _fail_if(report.failed)


def prewarm(
    table: TablePath,
    request: Prewarm,
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

    report = open_table(table, option).prewarm(**keywords_of(request), progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
    else:
        _list(f"could not be loaded: {path}: {reason}" for path, reason in report.failed.items())
        _say(f"{counted(report.splits, 'file')} warm, {render.size(report.bytes)} read")
    _fail_if(report.failed)


def mirror(
    table: TablePath, request: Mirror, quiet: Quiet = False, option: Settings = None, as_json: AsJson = False
) -> None:
    """Keep a Delta table beside the log, over the same files, for engines that read Delta; run it again to catch up.

    \b
    Examples:
      indextables mirror logs
      indextables mirror logs --stop
    """
    report = open_table(table, option).mirror(**keywords_of(request), progress=bar(quiet=quiet))
    if as_json:
        _as_json(report, None)
    elif report.mirrored is None:
        _say(f"the mirror is ended, {report.deleted:,} files of it deleted")
    else:
        _say(f"_delta_log has version {report.mirrored} of {report.version}, {report.written:,} versions written")


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


def repair(
    table: TablePath,
    at: Annotated[
        str | None,
        Option("--at", metavar="PLACE", help="Where to write the new log; default: in place, if no log is left."),
    ] = None,
    pointer: Annotated[bool, Option("--pointer", help="Only write the file _last_checkpoint again, in place.")] = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write the newest readable version as a new log, without data files that are gone; the table is not touched.

    To use the new log, put its _transaction_log in the place of the broken one. Where no version can be read, the
    new log is made from the splits. Without --at the log is written in place, if no log is left.

    \b
    Examples:
      indextables repair logs --at logs-repaired
      indextables repair logs
      indextables repair logs --pointer
    """
    import indextables

    if pointer and at is not None:
        raise InvalidArgument("give --at PLACE or --pointer, not both")
    if not pointer:
        _show_repair(indextables.repair(table, at=at, options=pairs(option, "--option")), as_json=as_json)
        return
    version = indextables.recreate_pointer(table, options=pairs(option, "--option"))
    found = "there is no checkpoint to point to" if version is None else f"pointing to the checkpoint of {version}"
    sys.stdout.write(found + "\n")


def rebuild(
    table: TablePath,
    at: Annotated[str | None, Option("--at", metavar="PLACE", help="Where to write it; default: in place.")] = None,
    with_old_rows: Annotated[bool, Option("--with-old-rows", help="Also old images of updated rows.")] = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write a log from the splits alone, for a table whose log is lost. It never overwrites a log.

    \b
    Examples:
      indextables rebuild logs
      indextables rebuild logs --at logs-rebuilt --json
    """
    import indextables

    report = indextables.rebuild(table, at=at, options=pairs(option, "--option"), with_old_rows=with_old_rows)
    _show_repair(report, as_json=as_json)


def compact(table: TablePath, option: Settings = None) -> None:
    """Write a checkpoint with all manifests new, sorted by partition; data files are not touched.

    \b
    Examples:
      indextables compact logs
    """
    version = open_table(table, option).compact()
    sys.stdout.write(f"checkpoint of version {version} written, sorted by partition\n")


def clean_up(
    table: TablePath,
    dry_run: Annotated[bool, Option("--dry-run", help="Only list what would be deleted.")] = False,
    yes: Yes = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete checkpoints and version files of the log that are older than the table keeps them.

    \b
    Examples:
      indextables clean-up logs --dry-run
      indextables clean-up logs --yes --option logRetention.duration=86400000
    """
    import msgspec

    from indextables.cli import outcome, render

    asks = not dry_run and is_asked(yes=yes)
    opened = open_table(table, option)
    if asks:
        foreseen = opened.clean_up(dry_run=True)
        count = len(foreseen.states) + len(foreseen.versions) + len(foreseen.manifests)
        if count:
            agreed(f"Delete {count:,} old files of the log of {table} for good?")
    report = opened.clean_up(dry_run=dry_run or None)
    if as_json:
        render.json_lines([msgspec.structs.asdict(report)])
    else:
        for key in (*report.states, *report.versions, *report.manifests):
            sys.stdout.write(key + "\n")
        for key, reason in report.failed.items():
            sys.stdout.write(f"could not be deleted: {key}: {reason}\n")
        gone = len(report.states) + len(report.versions) + len(report.manifests)
        why = f" ({report.reason})" if report.reason else ""
        sys.stdout.write(f"{gone} files {'would go' if report.dry_run else 'deleted'}{why}\n")
    if report.failed:
        raise outcome.Leave(outcome.FAILED)


def _show_repair(report: RepairReport, *, as_json: bool) -> None:
    import msgspec

    from indextables.cli import render

    if as_json:
        render.json_lines([msgspec.structs.asdict(report)])
        return
    for path in report.missing:
        sys.stdout.write(f"missing, left out: {path}\n")
    for path in report.wrong_size:
        sys.stdout.write(f"of another size, kept: {path}\n")
    for path, reason in report.unreadable.items():
        sys.stdout.write(f"unreadable, left out: {path}: {' '.join(reason.split())}\n")
    for warning in report.warnings:
        sys.stdout.write(f"note: {warning}\n")
    sys.stdout.write(f"a log of {report.num_files} files is written, version {report.version}\n")


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
    return counted(files, "file") + ("" if rows is None else f" with {counted(rows, 'row')}")


def _because(reason: str) -> str:
    return f" ({' '.join(reason.split())})" if reason else ""


def _fail_if(problems: object) -> None:
    from indextables.cli import outcome

    if problems:
        raise outcome.Leave(outcome.FAILED)
