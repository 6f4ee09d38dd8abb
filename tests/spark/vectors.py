"""Deletes rows of splits by vector, as any writer of the format may."""

from __future__ import annotations

import msgspec

from indextables.log.care.opening import open_log
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Add, DeletionVector, Remove
from indextables.log.wire.paths import decode_path
from indextables.split.file import dv
from indextables.table.environment import open_env


def delete_rows(path, rows_of, options=None, told_rows=None):
    """`rows_of(number, num_rows)` says which rows of a split go; returns how many. Every other vector is a file.

    With `told_rows` the log tells so many rows of each split afterwards, whatever is true.
    """
    log = open_log(open_env(str(path), options))
    snapshot = log.snapshot()
    adds, removes, gone = [], [], 0
    for number, file in enumerate(snapshot.files.sort_by("path").to_pylist()):
        rows = list(rows_of(number, file["numRecords"]))
        if not rows:
            continue
        payload = dv.encode(rows)
        if number % 2:
            (told,) = dv.write_file(
                log.env.store, [(file["path"], file["numRecords"], payload)], log.env.ambient.token()
            )
        else:
            told = dv.inline(payload)
        vector = DeletionVector(**msgspec.structs.asdict(told))
        told = {} if told_rows is None else {"numRecords": told_rows}
        adds.append(msgspec.structs.replace(_add(file), deletionVector=vector, **told))
        removes.append(Remove(path=file["path"], deletionTimestamp=log.env.ambient.now_ms(), dataChange=True))
        gone += len(rows)
    Transaction(log, snapshot, operation="DELETE").remove(removes).add(adds).commit_or_raise()
    return gone


def copy_split(path, folder):
    """The first split once more, under the same name in another folder."""
    log = open_log(open_env(str(path)))
    snapshot = log.snapshot()
    (file, *_) = snapshot.files.to_pylist()
    key = f"{folder}/{file['path'].rpartition('/')[2]}"
    log.env.store.put(key, log.env.store.get(decode_path(file["path"])))
    Transaction(log, snapshot, operation="WRITE").add([msgspec.structs.replace(_add(file), path=key)]).commit_or_raise()


def _add(file):
    fields = {name: value for name, value in file.items() if name in Add.__struct_fields__ and value is not None}
    for name in ("partitionValues", "minValues", "maxValues", "tags"):
        if name in fields:
            fields[name] = dict(fields[name])
    return msgspec.convert({**fields, "dataChange": True}, Add)
