"""Commands that look at a table or keep it well: schema, history, describe, metrics, verify, checkpoint, log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from indextables.cli.declared import Argument, Option
from indextables.cli.parameters import AsJson, AtTime, AtVersion, Settings, TablePath, open_table, pairs
from indextables.table.requests import Verify

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.embedded import Table
    from indextables.table.maintenance import Health

__all__ = ["checkpoint", "describe", "history", "log", "metrics", "schema", "verify"]

_LAST_MS = 253_402_300_799_000
"""The last millisecond but a second that a date can tell."""


def schema(
    table: TablePath,
    version: AtVersion = None,
    timestamp: AtTime = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show the columns: name, type, whether null is allowed, partitioning.

    \b
    Examples:
      indextables schema logs
      indextables schema logs --version 3
    """
    import pyarrow as pa

    from indextables.cli import render

    opened = open_table(table, option, version, timestamp)
    partitioned = list(opened.partition_columns)
    found = [
        {
            "column": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "partition": partitioned.index(field.name) + 1 if field.name in partitioned else None,
            "comment": (field.metadata or {}).get(b"comment", b"").decode() or None,
        }
        for field in opened.schema
    ]
    if not as_json and not any(one["comment"] for one in found):
        found = [{name: value for name, value in one.items() if name != "comment"} for one in found]
    render.rows(pa.Table.from_pylist(found), as_json=as_json)


def history(
    table: TablePath,
    limit: Annotated[int | None, Option("--limit", "-n", least=1, help="Only this many commits, the newest.")] = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show what was done to the table, the newest first.

    \b
    Examples:
      indextables history logs
      indextables history logs --limit 5 --json
    """
    from indextables.cli import render

    found = open_table(table, option).history(limit)
    render.rows(found if as_json else _short_history(found), as_json=as_json)


def metrics(table: TablePath, option: Settings = None, as_json: AsJson = False) -> None:
    """Show numbers for dashboards: the checkpoint, the time to load the log, cache hit rates, commits.

    \b
    Examples:
      indextables metrics logs
      indextables metrics logs --json
    """
    from indextables.cli import render

    opened = open_table(table, option)
    opened.detail()
    found = opened.metrics()
    if as_json:
        render.json_lines([found])
        return
    numbers = {f"{kind}: {name}": value for kind, told in found.items() for name, value in told.items()}
    render.facts(numbers, as_json=False)


def describe(
    table: TablePath,
    files: Annotated[bool, Option("--files", help="List the data files too.")] = False,
    columns: Annotated[
        bool, Option("--columns", help="List the bytes that each column takes, in rows and index.")
    ] = False,
    version: AtVersion = None,
    timestamp: AtTime = None,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show version, files, sizes, checkpoint and settings, and what the table needs an operator to do.

    \b
    Examples:
      indextables describe logs
      indextables describe logs --columns
      indextables describe s3://bucket/logs --files --json
    """
    from indextables.cli import render

    opened = open_table(table, option, version, timestamp)
    if files:
        render.rows(opened.files().select(["path", "partitionValues", "size", "numRecords"]), as_json=as_json)
        return
    if columns:
        render.rows(opened.sizes(), as_json=as_json)
        return
    import msgspec

    detail = opened.detail()
    state = msgspec.to_builtins(opened.state())
    found = None if version is not None or timestamp is not None else _health(opened)
    if as_json:
        looked = {"health": msgspec.to_builtins(found)} if isinstance(found, msgspec.Struct) else {}
        render.facts({**detail, "state": state, **looked}, as_json=True)
        return
    render.facts(_short_detail(detail, state), as_json=False)
    if isinstance(found, str):
        sys.stdout.write(f"\nhealth was not looked at: {found}\n")
    elif found is not None:
        sys.stdout.write("\n")
        render.facts(_short_health(found), as_json=False)
        for advice in found.advice:
            solved = f"\n    {advice.command}" if advice.command else ""
            sys.stdout.write(f"\nadvice: {advice.problem}{solved}\n")


def verify(
    table: TablePath,
    request: Verify,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Check the log, its checkpoints and the data files; exit with 1 if something is wrong.

    \b
    Examples:
      indextables verify logs
      indextables verify logs && echo sound
      indextables verify logs --no-data-files
      indextables verify logs --rules
    """
    import msgspec

    import indextables
    from indextables.cli import outcome, render

    # Not through an open table: what is to be explained may keep it from opening.
    asked = {"data_files": request.data_files, "rules": request.rules}
    report = indextables.verify(table, options=pairs(option, "--option"), **asked)
    if as_json:
        render.json_lines(msgspec.structs.asdict(finding) for finding in report.findings)
    else:
        for finding in report.findings:
            sys.stdout.write(f"{finding.severity}: {' '.join(finding.message.split())}\n")
        sys.stdout.write(
            f"{report.versions_checked} versions, {report.checkpoints_checked} checkpoints and "
            f"{report.data_files_checked} data files checked: {'sound' if report.ok else 'NOT sound'}\n"
        )
    if not report.ok:
        raise outcome.Leave(outcome.FAILED)


def checkpoint(table: TablePath, option: Settings = None) -> None:
    """Write a checkpoint of the newest version, so that opening the table reads less.

    \b
    Examples:
      indextables checkpoint logs
      indextables checkpoint logs --option state.format=parquet
    """
    version = open_table(table, option).checkpoint()
    sys.stdout.write(f"checkpoint of version {version} written\n")


def log(
    table: TablePath,
    number: Annotated[
        int | None, Argument(metavar="VERSION", help="The number of a version; default: the newest.")
    ] = None,
    option: Settings = None,
) -> None:
    """Show the actions of one version as JSON lines, as they are in the log.

    \b
    Examples:
      indextables log logs
      indextables log logs 3
    """
    actions = open_table(table, option).log(number)
    for action in actions.to_pylist():
        sys.stdout.write(f'{{"{action["action"]}":{action["value"]}}}\n')


def _health(opened: Table) -> Health | str | None:
    """What is to be said about the newest version; a text where the store does not let us look."""
    from indextables.errors import StorePermissionDenied

    try:
        return opened.health()
    except StorePermissionDenied as error:
        return " ".join(str(error).split())


def _short_health(found: Health) -> dict[str, Any]:
    """What detail and state do not tell."""
    from indextables.cli import render

    share = "unknown" if found.index_coverage is None else f"{found.index_coverage:.0%} of rows"
    about = "" if found.orphans_exact else "about "
    deleted = f"{found.deleted_rows:,} ({found.deleted_share:.0%})"
    return {
        "small files": f"{found.small_files:,} ({found.small_share:.0%}), {found.mergeable_files:,} to be merged",
        "upkeep": _short_upkeep(found),
        "deleted rows": f"{deleted}, {found.foldable_files:,} files to be written anew without them",
        "indexed as wanted": share,
        "merge skips": f"{len(found.skips):,}",
        "oldest version": f"{found.oldest_version:,} ({found.version_files:,} version files)",
        "since checkpoint": f"{found.versions_since_checkpoint:,} versions",
        "orphans": f"{about}{found.orphans:,} files, {render.size(found.orphan_bytes)}",
        "index cache": ", ".join(f"{name} {value:,}" for name, value in found.index_cache.items()),
        **{f"{held.name} at work": str(held) for held in found.leases},
    }


def _short_upkeep(found: Health) -> str:
    """Small files per partition and tier, what is due, and what came of the last attempts."""
    import datetime as dt

    kept = found.upkeep
    tiers = "/".join(f"{count:,}" for count in kept.tiers) or "none"
    told = [f"at most {kept.most_small:,} small files in a partition (by tier {tiers}), {kept.due:,} merges due"]
    if kept.last_ms is not None:
        last = dt.datetime.fromtimestamp(min(max(kept.last_ms, 0), _LAST_MS) // 1000, dt.UTC)
        told.append(f"last merged {last:%Y-%m-%dT%H:%M:%SZ}")
    if kept.failures:
        told.append(f"failed {kept.failures:,} times since ({kept.reason})")
    return ", ".join(told)


def _short_history(found: pa.Table) -> pa.Table:
    """What people look for in a history; `--json` has all of it."""
    import pyarrow as pa

    rows = [
        {
            "version": commit["version"],
            "timestamp": commit["timestamp"],
            "operation": commit["operation"],
            "mode": (commit["operationParameters"] or {}).get("mode"),
            "files": (commit["operationMetrics"] or {}).get("numFiles"),
            "rows": (commit["operationMetrics"] or {}).get("numOutputRows"),
            "user": commit["user"],
        }
        for commit in found.to_pylist(maps_as_pydicts="strict")
    ]
    kept = [field for field in rows[0] if any(row[field] is not None for row in rows)] if rows else []
    return pa.Table.from_pylist([{name: row[name] for name in kept} for row in rows])


def _short_detail(detail: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty, sizes and times as people read them, and without the index plans among the properties."""
    import datetime as dt

    from indextables.cli import render
    from indextables.log.wire import REGISTRY_PREFIX

    shown = {name: value for name, value in detail.items() if value not in (None, "", [], {})}
    shown["numFiles"] = f"{detail['numFiles']:,}"
    shown["sizeInBytes"] = f"{render.size(detail['sizeInBytes'])} ({detail['sizeInBytes']:,} bytes)"
    shown["numRows"] = "unknown" if detail["numRows"] is None else f"{detail['numRows']:,}"
    if detail.get("createdAt") is not None:
        shown["createdAt"] = dt.datetime.fromtimestamp(detail["createdAt"] / 1000, dt.UTC)
    properties = {k: v for k, v in detail["properties"].items() if not k.startswith(REGISTRY_PREFIX)}
    shown.pop("properties", None)
    shown["state"] = _state_line(state)
    return {
        **{name: ", ".join(value) if isinstance(value, list) else value for name, value in shown.items()},
        **{f"property {key}": value for key, value in sorted(properties.items())},
    }


def _state_line(state: dict[str, Any]) -> str:
    if state["format"] == "none":
        return "no checkpoint yet"
    line = f"{state['format']} checkpoint of version {state['version']}, {state['num_manifests']} manifests"
    line += f", {state['num_tombstones']} tombstones"
    return line + (", needs compaction" if state["needs_compaction"] else "")
