"""Care for a table that may not open: verify, repair, rebuild a lost log, a new pointer; and what the caches hold.

Nothing here needs an open table. Nothing changes or deletes a file that is there: what is written is a new log at
another place, a log where none is left, or the pointer, which is only a hint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from indextables import options as opt
from indextables import process
from indextables.env import Env
from indextables.errors import LogError, ProtocolUnsupported, SplitCorrupt, TableNotFound
from indextables.lazy import pc
from indextables.log.care import RepairReport, SplitFacts, VerifyReport, folder_values, rebuild_log, repair_log
from indextables.log.care import recreate_pointer as point_again
from indextables.log.read import CacheStats
from indextables.log.wire import REGISTRY_PREFIX, combined
from indextables.query.partition import partition_to_text
from indextables.split.file import SplitReader, SplitRef, StatsBuilder, check_id, place_of_ids
from indextables.split.index import IndexPlan
from indextables.storage.store import ObjectMeta
from indextables.table.arguments import check_flag
from indextables.table.environment import open_env
from indextables.table.maintenance.verifying import verify_table
from indextables.table.requests import Verify
from indextables.table.rows import columns_of_folders

__all__ = ["cache_stats", "invalidate_caches", "rebuild", "recreate_pointer", "repair", "repair_table", "verify"]

Path = str | os.PathLike[str]

_NAME = re.compile(r"(?:^|/)split-([0-9a-f]{32})\.split$")


def verify(
    path: Path, options: Mapping[str, object] | None = None, *, data_files: bool = True, rules: bool = False
) -> VerifyReport:
    """Check every file of the log, and that every data file exists and is the one that the log names.

    The table need not open for this. Nothing is changed, and no row is read; `data_files=False` checks the log alone,
    `rules=True` reads all rows and tells which break a rule of the table. Raises TableNotFound, StoreError; everything
    else that is wrong stands in the report.
    """
    return verify_table(open_env(path, options), Verify(data_files=data_files, rules=rules))


def repair(path: Path, *, at: Path | None = None, options: Mapping[str, object] | None = None) -> RepairReport:
    """Write the newest version that can be read as a new log at `at`, without data files that do not exist.

    The table at `path` is not touched. The report names each file that was left out, and warns if newer versions are
    lost. Paths in the new log are relative to the table: to use it, put its `_transaction_log` folder in the place of
    the broken one. Calling it again changes nothing.

    Where no version can be read, the new log is made from the splits, as `rebuild` does. Without `at` the log is made
    from the splits and written in place; that is allowed only where neither a version nor a checkpoint is left.

    Raises:
        InvalidArgument: `at` holds another log; or there is no `at`, and the table has a log.
        TableNotFound: There is neither a log nor a split.
        ProtocolUnsupported: The table needs a newer library.
        SchemaMismatch: No version can be read, and the splits do not fit together.
        NotSupported: No version can be read, and older images of rows may come back, as for `rebuild`.
        StoreError: A listing failed. Nothing was written.
    """
    return repair_table(open_env(path, options), None if at is None else open_env(at, options))


def repair_table(env: Env, target: Env | None) -> RepairReport:
    """As `repair`, of a table whose environment is known."""
    if target is not None:
        try:
            return repair_log(env, target)
        except ProtocolUnsupported:
            raise
        except (TableNotFound, LogError) as error:
            # No version can be read: what is left are the splits.
            report = rebuild_log(env, lambda meta: describe_split(env, meta), target=target)
            lost = f"no version can be read, the log was made of the splits: {error}"
            return msgspec.structs.replace(report, warnings=(lost, *report.warnings))
    return rebuild_log(env, lambda meta: describe_split(env, meta))


def rebuild(
    path: Path,
    *,
    at: Path | None = None,
    options: Mapping[str, object] | None = None,
    with_old_rows: bool = False,
) -> RepairReport:
    """Write a log from the splits alone: at `at`, or in place where neither a version nor a checkpoint is left.

    Every split is read, for its schema, its index, its partition values and its bounds; splits that cannot be read are
    left out, and the report lists them. Where splits hold a column in a narrow and in a wider type, the table gets the
    wider one. Splits that had been removed but not purged come back; deletion vectors, properties and history are lost.

    Where rows were updated or moved, older images of them may lie in other splits, and only the lost log knew which.
    That is refused, unless `with_old_rows` asks for a table of all rows; the report says so.

    Raises:
        InvalidArgument: There is a log already.
        NotSupported: Older images of rows may come back.
        TableNotFound: There are no splits.
        SchemaMismatch: The splits do not fit together.
        StoreError: A listing failed. Nothing was written.
    """
    env = open_env(path, options)
    target = None if at is None else open_env(at, options)
    told = check_flag("with_old_rows", with_old_rows)
    return rebuild_log(env, lambda meta: describe_split(env, meta), target=target, with_old_rows=told)


def recreate_pointer(path: Path, options: Mapping[str, object] | None = None) -> int | None:
    """Make the file `_last_checkpoint` name the newest usable checkpoint; return its version, None if there is none.

    The file is only a hint: results are the same without it. Raises StoreError.
    """
    ref = point_again(open_env(path, options))
    return None if ref is None else ref.version


def cache_stats() -> CacheStats:
    """Tell how often this process found in its memory what it would have read otherwise.

    `hit_rates()` of the result has a rate between 0 and 1 for each kind: of parsed log files `protocolHitRate`,
    `metadataHitRate`, `versionHitRate`, `filesHitRate` and `versionsListHitRate`, of searches `splitsHitRate`,
    `indexesHitRate`, `searchersHitRate`, `smallSplitsHitRate` and `rowsHitRate`, of scans `footersHitRate`.
    `regions` has by the same names, without `HitRate`, `hits`, `misses` and `entries`, and where they are counted
    `size_bytes` in memory and memory `maps`.
    """
    return CacheStats(process.stats())


def invalidate_caches(path: Path | None = None, options: Mapping[str, object] | None = None) -> None:
    """Forget what this process remembers about the tables at and below `path`, or about all. Results do not change.

    Raises InvalidArgument for a path or option that is wrong.
    """
    if path is None:
        process.forget_all()
    else:
        process.forget(open_env(path, options).store.url)


def describe_split(env: Env, meta: ObjectMeta) -> SplitFacts:
    """What a split tells about itself, for a log that has to be written anew. Raises SplitError, StoreError."""
    reader = SplitReader(env.store, SplitRef(key=meta.key, size=meta.size))
    ref, schema = reader.ref, reader.schema
    named = _NAME.search(meta.key)
    if named is not None:
        # A copy under another split's name would count its rows twice.
        check_id(ref.id or named[1], named[1], meta.key, "footer")
    counted = StatsBuilder(schema, env.options)
    places = list(range(len(reader.footer.schema)))
    stored = place_of_ids(reader.footer.schema)
    ids = BitMap64()
    columns = columns_of_folders(schema.names, [name for name, _ in folder_values(meta.key)])
    values: dict[str, set[str | None]] = {name: set() for name in columns}
    for group in range(reader.footer.metadata.num_row_groups):
        rows = reader.read_groups([group], places)
        counted.update(rows.select(schema.names))
        if stored is not None:
            ids |= BitMap64(combined(rows.column(stored)).drop_null().to_numpy().astype(np.uint64))
        for name, held in values.items():
            texts = partition_to_text(pc.unique(combined(rows.column(schema.get_field_index(name)))))
            held.update(texts.to_pylist())
    for name, held in values.items():
        if len(held) > 1:
            message = f"{meta.key} lies in a folder of {name!r}, but its rows hold {len(held)} values of it"
            raise SplitCorrupt(message, path=meta.key, part="rows")
    found = counted.finish()
    plan = None if reader.directory is None else IndexPlan.from_doc_mapping(reader.directory.doc_mapping)
    extra: dict[str, object] = {
        "hasFooterOffsets": True,
        "footerStartOffset": ref.footer_start,
        "footerEndOffset": ref.footer_end,
        "hotcacheStartOffset": ref.index_start,
        "hotcacheLength": ref.range1_length,
        "numMergeOps": 0,
        "stats": found.json,
        "splitId": ref.id,
    }
    if plan is not None:
        extra["docMappingRef"] = plan.doc_mapping_ref()
    return SplitFacts(
        schema=schema,
        num_records=ref.num_rows,
        min_values=found.min_values,
        max_values=found.max_values,
        extra=extra,
        configuration={} if plan is None else _indexing(plan, schema),
        partition=tuple((name, next(iter(held), None)) for name, held in values.items()),
        row_ids=ids or None,
    )


def _indexing(plan: IndexPlan, schema: pa.Schema) -> dict[str, str]:
    """The properties that make new rows be indexed as these were, and the plan itself for the registry."""
    properties = {REGISTRY_PREFIX + plan.doc_mapping_ref(): plan.doc_mapping()}
    fast = []
    for field in plan.fields:
        if field.column is None or field.column not in schema.names:
            continue
        is_whole = field.kind == "json" and field.analyzer.single_term
        if field.kind in {"text", "ip", "json"}:
            kind = field.kind if field.kind != "json" else "string" if is_whole else "text"
            properties[opt.INDEXING_TYPEMAP + field.column] = kind
        if field.kind in {"text", "json"} and not is_whole:
            properties[opt.INDEXING_TOKENIZER + field.column] = field.tokenizer
            properties[opt.INDEXING_RECORD_OPTION + field.column] = field.record
            properties[opt.INDEXING_TOKEN_LENGTH + field.column] = str(field.token_length)
        if field.fast and field.kind in {"text", "string"}:
            fast.append(field.column)
    if fast:
        properties[opt.INDEXING_FAST_FIELDS.key] = ",".join(fast)
    return properties
