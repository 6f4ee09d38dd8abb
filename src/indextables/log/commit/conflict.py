"""May a commit that lost the race for its version be put on top of the winner? One pure function decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal
from typing import Protocol as Interface

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.wire import (
    CONSTRAINT_PREFIX,
    FILES_SCHEMA,
    REGISTRY_PREFIX,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Txn,
    protocol,
)

__all__ = [
    "Clash",
    "ClashKind",
    "Kind",
    "Ours",
    "Theirs",
    "Verdict",
    "bring_rows",
    "constraints_of",
    "judge",
    "merge_registry",
]

_ONLY_DELETE = frozenset({"DELETE", "UPDATE", "MERGE"})
"""Operations that give a file a larger vector, never a smaller one."""


Kind = Literal["append", "rows", "merge_splits", "overwrite", "metadata"]
ClashKind = Literal["metadata", "protocol", "data", "domain"]


class Ours(msgspec.Struct, frozen=True):
    """What must still hold for a commit to be put on top of somebody else's.

    1. `kind`: `append` adds files and read nothing; `rows` is delete, update, merge and every other transaction with
       a read set; `merge_splits` moves rows between files without changing them; `overwrite` replaces all rows, or
       those in the range that `may_match` describes; `metadata` touches no file.
    2. `removed`, `added` and `read` are the paths that the commit removes, adds and read, None for none.
    3. `may_match` answers, for rows of `add`, whether any of their files could hold rows that the commit's predicate
       selects. None with `read_all` off means that no predicate was read.
    4. `repairs` and `regroups` tell that the transaction decides itself what a winner means for the rows that it
       changes, and that it can leave out files of a merge.
    """

    kind: Kind
    base_metadata: Metadata
    base_protocol: Protocol
    serializable: bool = False
    read_all: bool = False
    removed: pa.Array | pa.ChunkedArray | None = None
    added: pa.Array | pa.ChunkedArray | None = None
    read: pa.Array | pa.ChunkedArray | None = None
    may_match: Callable[[pa.Table], bool] | None = None
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    txns: tuple[Txn, ...] = ()
    domains: tuple[str, ...] = ()
    repairs: bool = False
    regroups: bool = False


class Theirs(Interface):
    """What a conflict check asks of the winner. Files are asked for only where they matter."""

    @property
    def version(self) -> int: ...
    @property
    def commit_info(self) -> CommitInfo | None: ...
    @property
    def protocol(self) -> Protocol | None: ...
    @property
    def metadata(self) -> Metadata | None: ...
    @property
    def txns(self) -> tuple[Txn, ...]: ...
    @property
    def domains(self) -> tuple[DomainMetadata, ...]: ...
    @property
    def adds(self) -> pa.Table: ...
    @property
    def removes(self) -> pa.Table: ...


class Clash(msgspec.Struct, frozen=True):
    """Why two commits cannot both stand."""

    kind: ClashKind
    reason: str


class Verdict(msgspec.Struct, frozen=True):
    """What follows from one winner.

    At most one of `clash` and `already` is set. `metadata` and `protocol` are the table's after the winner, where it
    changed them in a way that ours can follow. `repair` asks the transaction what the winner means for the rows that it
    changes, and `give_up` names the files that a merge must leave out, before it is put again.
    """

    clash: Clash | None = None
    already: bool = False
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    repair: bool = False
    give_up: tuple[str, ...] = ()


def judge(ours: Ours, theirs: Theirs) -> Verdict:
    """What the winning version `theirs` means for `ours`, which was prepared without knowing it.

    ======================  =====================  ======================  =====================  ==============
    ours / theirs           append                 delete, update, merge   merge splits           metadata (1)
    ======================  =====================  ======================  =====================  ==============
    append                  ok                     ok                      ok                     conflict
    rows: delete, update,   ok; Serializable:      conflict if it removed  conflict if it took a  conflict
    merge, any read set     conflict if it could   a file we read or       file that we remove;   (2)
    (2)                     match what we read     changed one that we     files only read: ok
                                                   remove, or its new
                                                   rows could match
    merge splits            ok                     touched files are (4)   shared files are       conflict only
                                                   given up, else          given up, else         if the schema
                                                   conflict                conflict               changed
    overwrite, replaceWhere ok (3); Serializable:  conflict if it could    ok (3)                 conflict
                            conflict in the range  touch the range
    metadata                ok                     ok                      ok                     conflict
    ======================  =====================  ======================  =====================  ==============

    A protocol that only asks for more features of `protocol.FOLLOWED` is followed, and row tracking by an append; every
    other change of it clashes with everything; so do two changes of one `domainMetadata`. A `txn` of ours that theirs
    already holds, at this number or a higher one, makes ours a repetition (`already`).

    (1) A `metaData` that is equal to ours, or only adds `docMappingSchema.*` keys, is no change: it is merged.
    (2) A transaction that repairs is asked what files mean (`repair`), whatever the winner did to them, unless it read
        the whole table; and it follows new properties as long as schema, partitioning and constraints stay.
    (3) The removes of an overwrite are bound to the head when it is put, so that it also takes what a winner
        appended or merged: the same as if it had started later. Under Serializable an append into the range
        clashes, because the overwrite may have been computed from what was there before. An overwrite that found
        nothing to remove is no append: `isBlindAppend` tells them apart.
    (4) An `add` that carries a deletion vector takes rows of its file away, with or without a `remove` of the entry
        that it replaces. Any `add` of a path that we remove, add or read changes that file. A restore, which may bring
        a file back between those that we merge, is a conflict: the merge looks at the newest version again.

    Which adds of theirs count as "could match": under Serializable all that change data, under WriteSerializable
    those of commits that were no blind append.
    """
    followed = theirs.protocol if theirs.protocol != ours.base_protocol else None
    adds = ours.kind == "append"
    if followed is not None and not protocol.follows(ours.base_protocol, followed, only_adds=adds):
        return Verdict(Clash("protocol", f"version {theirs.version} changed the protocol of the table"))
    merged = _merged_metadata(ours, theirs)
    if isinstance(merged, Clash):
        return Verdict(merged)
    if _is_repetition(ours.txns, theirs.txns):
        return Verdict(already=True)
    shared = sorted(set(ours.domains) & {domain.domain for domain in theirs.domains})
    if shared:
        reason = f"version {theirs.version} changed the same domain metadata: {', '.join(shared)}"
        return Verdict(Clash("domain", reason))
    if ours.kind in {"append", "metadata"}:
        return Verdict(_added_twice(ours, theirs), metadata=merged, protocol=followed)
    verdict = _judge_files(ours, theirs)
    if verdict.clash is not None:
        return verdict
    return msgspec.structs.replace(verdict, metadata=merged, protocol=followed)


def merge_registry(metadata: Metadata, other: Metadata) -> Metadata:
    """`metadata` with the document mappings that only `other` has registered."""
    extra = {
        key: value
        for key, value in other.configuration.items()
        if key.startswith(REGISTRY_PREFIX) and key not in metadata.configuration
    }
    if not extra:
        return metadata
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **extra})


def bring_rows(theirs: Theirs) -> pa.Table:
    """The adds of a version that may hold rows which were not in the table before it."""
    return _without(_data_changes(theirs.adds), _only_emptied(theirs))


def constraints_of(metadata: Metadata) -> dict[str, str]:
    """The rules for rows that stand in the properties: who wrote rows before one came may have broken it."""
    return {key: value for key, value in metadata.configuration.items() if key.startswith(CONSTRAINT_PREFIX)}


def _merged_metadata(ours: Ours, theirs: Theirs) -> Metadata | Clash | None:
    changed = theirs.metadata
    if changed is None or changed == ours.base_metadata:
        return None
    if merge_registry(ours.base_metadata, changed) == changed:
        return changed
    before, after = ours.base_metadata, changed
    same_schema = before.schemaString == after.schemaString and before.partitionColumns == after.partitionColumns
    goes_on = ours.kind == "merge_splits" or (ours.repairs and constraints_of(before) == constraints_of(after))
    if goes_on and ours.metadata is None and same_schema and before.id == after.id:
        return changed
    what = "the properties" if same_schema else "the schema"
    return Clash("metadata", f"version {theirs.version} changed {what} of the table")


def _is_repetition(ours: tuple[Txn, ...], theirs: tuple[Txn, ...]) -> bool:
    held = {txn.appId: txn.version for txn in theirs}
    return any(held.get(txn.appId, -1) >= txn.version for txn in ours)


def _judge_files(ours: Ours, theirs: Theirs) -> Verdict:
    if ours.kind == "merge_splits":
        return _judge_merge(ours, theirs)
    if ours.kind == "overwrite":
        return _judge_overwrite(ours, theirs)
    return _judge_rows(ours, theirs)


def _judge_rows(ours: Ours, theirs: Theirs) -> Verdict:
    if ours.repairs and not ours.read_all:
        return Verdict(repair=True)
    if (phantom := _phantom(ours, theirs)) is not None:
        return Verdict(phantom)
    claimed = _overlap(ours.removed, theirs.removes, theirs.adds)
    claimed += [path for path in _overlap(ours.added, theirs.removes, theirs.adds) if path not in claimed]
    if claimed:
        return Verdict(_claimed(ours, theirs, claimed))
    rows_left = _data_changes(theirs.removes).num_rows or _data_changes(_with_vectors(theirs.adds)).num_rows
    if ours.read_all and rows_left:
        return Verdict(Clash("data", f"version {theirs.version} removed rows, and this commit read the whole table"))
    # Rows that another one took out of a file are not ours, else the file would be claimed by both.
    gone = _overlap(ours.read, _without(_data_changes(theirs.removes), theirs.adds))
    if gone:
        return Verdict(Clash("data", f"version {theirs.version} removed {_some(gone)}, which this commit read"))
    return Verdict()


def _judge_overwrite(ours: Ours, theirs: Theirs) -> Verdict:
    if (phantom := _phantom(ours, theirs)) is not None:
        return Verdict(phantom)
    removes, vectors = _data_changes(theirs.removes), _data_changes(_with_vectors(theirs.adds))
    if removes.num_rows or vectors.num_rows:
        in_range = (
            ours.may_match is None
            or ours.may_match(_data_changes(theirs.adds))
            or ours.may_match(_placed(removes))
            or bool(_overlap(ours.removed, removes, vectors))
        )
        if in_range:
            reason = f"version {theirs.version} changed rows in the range that this commit replaces"
            return Verdict(Clash("data", reason))
    return Verdict(_added_twice(ours, theirs))


def _judge_merge(ours: Ours, theirs: Theirs) -> Verdict:
    if (twice := _added_twice(ours, theirs)) is not None:
        return Verdict(twice)
    if theirs.commit_info is not None and theirs.commit_info.operation == "RESTORE":
        reason = f"version {theirs.version} may have brought files back between those that this commit merges"
        return Verdict(Clash("data", reason))
    touched = _overlap(ours.removed, theirs.removes, theirs.adds)
    if not touched:
        return Verdict()
    if ours.regroups:
        return Verdict(give_up=tuple(touched))
    return Verdict(Clash("data", f"version {theirs.version} changed {_some(touched)}, which this commit merges"))


def _added_twice(ours: Ours, theirs: Theirs) -> Clash | None:
    """Names are unique, so that equal paths are one file that two commits claim."""
    if ours.added is None:
        # The files of the winner are not even looked at: to decode them is most of what a lost race costs.
        return None
    twice = _overlap(ours.added, theirs.removes, theirs.adds)
    return _claimed(ours, theirs, twice) if twice else None


def _claimed(ours: Ours, theirs: Theirs, paths: list[str]) -> Clash:
    """Both commits set or take away the entries of these files."""
    claimed = pa.array(paths, pa.string())
    gone = _overlap(claimed, theirs.removes)
    if gone:
        again = _overlap(claimed, theirs.adds)
        done = "changed" if set(gone) <= set(again) else "removed"
    else:
        done = "changed" if _overlap(ours.removed, theirs.adds) else "added"
    return Clash("data", f"version {theirs.version} already {done} {_some(paths)}")


def _phantom(ours: Ours, theirs: Theirs) -> Clash | None:
    """Rows that the commit would have seen, had it started after the winner."""
    reads_all = ours.read_all or (ours.kind == "overwrite" and ours.may_match is None)
    if ours.may_match is None and not reads_all:
        return None
    if _is_blind_append(theirs) and not ours.serializable:
        return None
    adds = bring_rows(theirs)
    if adds.num_rows and (reads_all or (ours.may_match is not None and ours.may_match(adds))):
        what = "to the range that this commit replaces"
        if ours.kind != "overwrite":
            what = "that this commit's predicate could select"
        return Clash("data", f"version {theirs.version} added rows {what}")
    return None


def _only_emptied(theirs: Theirs) -> pa.Table:
    """The removes of files that came back with fewer rows, none of them new.

    That is certain of a file that had no vector before. Of one that had, only those commits tell it that never bring
    rows back: a restore does.
    """
    removes, info = theirs.removes, theirs.commit_info
    if not removes.num_rows or (info is not None and info.operation in _ONLY_DELETE):
        return removes
    return removes.filter(removes["deletionVector"].is_null())


def _without(actions: pa.Table, others: pa.Table) -> pa.Table:
    """The actions on files that none of the others is about."""
    if not actions.num_rows or not others.num_rows:
        return actions
    return actions.filter(pc.invert(pc.is_in(actions["path"], value_set=others["path"].combine_chunks())))


def _is_blind_append(theirs: Theirs) -> bool:
    """True if it says so, and sets no vector: that takes rows away, whatever it says."""
    info = theirs.commit_info
    return info is not None and info.isBlindAppend is True and not _with_vectors(theirs.adds).num_rows


def _with_vectors(adds: pa.Table) -> pa.Table:
    """The adds that carry a vector. Where no remove goes with it, it takes the place of the live entry all the same."""
    vectors = adds["deletionVector"]
    return adds.slice(0, 0) if vectors.null_count == len(vectors) else adds.filter(vectors.is_valid())


def _placed(removes: pa.Table) -> pa.Table:
    """The removes that tell their partition, as rows of `add` that tell nothing else."""
    told = removes.filter(removes["partitionValues"].is_valid()) if removes.num_rows else removes
    columns = {"path": told["path"], "partitionValues": told["partitionValues"]}
    return pa.table(
        [columns.get(field.name, pa.nulls(told.num_rows, field.type)) for field in FILES_SCHEMA], schema=FILES_SCHEMA
    )


def _data_changes(actions: pa.Table) -> pa.Table:
    return actions.filter(actions["dataChange"]) if actions.num_rows else actions


def _overlap(paths: pa.Array | pa.ChunkedArray | None, *actions: pa.Table) -> list[str]:
    """The paths that are also in one of the actions, in order, each once."""
    if paths is None or not len(paths):
        return []
    chunks = [table["path"].combine_chunks() for table in actions if table.num_rows]
    if not chunks:
        return []
    hits = pc.unique(paths.filter(pc.is_in(paths, value_set=pa.concat_arrays(chunks))))
    return list(hits.to_pylist())


def _some(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"
