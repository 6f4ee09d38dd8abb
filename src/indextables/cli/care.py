"""Commands that mend a table or keep its log short: repair, rebuild, compact, clean-up."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from indextables.cli.asking import Yes, agreed, is_asked
from indextables.cli.declared import Option
from indextables.cli.parameters import AsJson, Settings, TablePath, open_table, pairs
from indextables.errors import InvalidArgument

if TYPE_CHECKING:
    from indextables.log.care import RepairReport

__all__ = ["clean_up", "compact", "rebuild", "repair"]


def repair(
    table: TablePath,
    at: Annotated[
        str | None,
        Option("--at", metavar="PLACE", help="Where the new log is written; default: in place of a lost one."),
    ] = None,
    pointer: Annotated[bool, Option("--pointer", help="Only write _last_checkpoint anew, in place.")] = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write the newest readable version as a new log, without data files that are gone; the table is not touched.

    To use the new log, put its _transaction_log in the place of the broken one. Where no version can be read, the log
    is made of the splits; without --at in place, where no log is left.

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
        _show(indextables.repair(table, at=at, options=pairs(option, "--option")), as_json=as_json)
        return
    version = indextables.recreate_pointer(table, options=pairs(option, "--option"))
    found = "there is no checkpoint to point to" if version is None else f"pointing to the checkpoint of {version}"
    sys.stdout.write(found + "\n")


def rebuild(
    table: TablePath,
    at: Annotated[
        str | None, Option("--at", metavar="PLACE", help="Where the log is written; default: in place.")
    ] = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write a log from the splits alone, for a table whose own log is lost. Overwrites none.

    \b
    Examples:
      indextables rebuild logs
      indextables rebuild logs --at logs-rebuilt --json
    """
    import indextables

    _show(indextables.rebuild(table, at=at, options=pairs(option, "--option")), as_json=as_json)


def compact(table: TablePath, option: Settings = None) -> None:
    """Write a checkpoint that is laid out anew, sorted by partition; data files are not touched.

    \b
    Examples:
      indextables compact logs
    """
    version = open_table(table, option).compact()
    sys.stdout.write(f"checkpoint of version {version} written, sorted by partition\n")


def clean_up(
    table: TablePath,
    dry_run: Annotated[bool, Option("--dry-run", help="Only list what would go.")] = False,
    yes: Yes = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Delete old checkpoints and the version files they cover, as far as retention lets them go.

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


def _show(report: RepairReport, *, as_json: bool) -> None:
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
