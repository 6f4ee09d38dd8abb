"""Tables of many small splits, deletes by vector, and a runner between whose work and commit something happens."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from tests.world.tables import filled

from indextables.env import Env
from indextables.log.care.opening import open_log
from indextables.log.commit.transaction import Transaction
from indextables.log.read.log import Log
from indextables.log.wire.actions import Add, DeletionVector, Remove
from indextables.split.file import dv
from indextables.table.environment import open_env
from indextables.table.merge.verb import MergeReport, merge_splits
from indextables.table.read.order import position_tag, positions
from indextables.table.requests import MergeSplits
from indextables.table.running import Answer, Job, Threads

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("p", pa.string()), ("v", pa.float64())])
WORDS = ("timeout", "disk", "login", "retry", "cache")


def row(number: int, p: str | None = "a") -> dict:
    return {"id": number, "message": f"{WORDS[number % 5]} of request r{number}", "p": p, "v": number / 7}


def table_of(path, counts: Iterable[int], *, partitions: Sequence[str] = ("a",), partition_by=(), **more):
    """One append per count; row n is in the partition that is n's turn. Rows are numbered from 0 on."""
    numbers = itertools.count()
    batches = [[row(n, partitions[n % len(partitions)]) for n in itertools.islice(numbers, count)] for count in counts]
    return filled(path, batches, schema=SCHEMA, partition_by=partition_by, indexing={"message": "text"}, **more)


def log_of(table) -> Log:
    return open_log(open_env(table.url.removeprefix("file://")))


def ids(data: pa.Table) -> list[int]:
    return data["id"].to_pylist()


def order_by_partition(table) -> dict[str, list[int]]:
    data = table.to_arrow(["id", "p"])
    return {p: ids(data.filter(pc.equal(data["p"], p))) for p in pc.unique(data["p"]).to_pylist()}


def scores(table, query: str) -> dict[int, float]:
    found = table.search(query, columns=["id"], limit=None)
    return dict(zip(ids(found), found["_score"].to_pylist(), strict=True))


def delete_rows(log: Log, gone: Mapping[str, Iterable[int]], *, as_file: bool = False) -> int:
    """Delete rows of files by number, on top of what is deleted of them already; the version."""
    snapshot = log.snapshot()
    adds, removes = [], []
    for file, place in zip(snapshot.files.to_pylist(), zip(*positions(snapshot.files), strict=True), strict=True):
        if file["path"] not in gone:
            continue
        rows = set(gone[file["path"]])
        before = None if file["deletionVector"] is None else msgspec.convert(file["deletionVector"], DeletionVector)
        if before is not None:
            payload = dv.load(log.env.store, before, file["path"], file["numRecords"])
            rows |= set(dv.decode(payload, file["numRecords"], file["path"]))
        payload = dv.encode(sorted(rows))
        if as_file:
            told = dv.write_file(log.env.store, [(file["path"], file["numRecords"], payload)], log.env.ambient.token())
            made = told[0]
        else:
            made = dv.inline(payload)
        vector = DeletionVector(**msgspec.structs.asdict(made))
        adds.append(msgspec.structs.replace(as_add(file, place), deletionVector=vector))
        removes.append(Remove(file["path"], dataChange=True, deletionTimestamp=1, deletionVector=before))
    return Transaction(log, snapshot, operation="DELETE").remove(removes).add(adds).commit_or_raise().version


def as_add(file: dict, place: Sequence[int]) -> Add:
    fields = {name: value for name, value in file.items() if name in Add.__struct_fields__ and value is not None}
    for name in ("partitionValues", "minValues", "maxValues", "tags"):
        if name in fields:
            fields[name] = dict(fields[name])
    tags = {**fields.get("tags", {}), **position_tag(*map(int, place))}
    return msgspec.convert({**fields, "tags": tags, "dataChange": True}, Add)


class Interrupted:
    """Runs the units as threads do, then lets something happen before anybody can commit."""

    def __init__(self, env: Env, happens: Callable[[], object], times: int = 1) -> None:
        self._threads = Threads(env)
        self._happens = happens
        self._left = times

    @property
    def width(self) -> int:
        return 4

    def run(self, job: Job, units: Sequence[bytes]) -> list[Answer]:
        answers = self._threads.run(job, units)
        if self._left:
            self._left -= 1
            self._happens()
        return answers


def merge(table, *, happens: Callable[[], object] = lambda: None, **parameters) -> MergeReport:
    """Merge, with something that happens between the work and the commit; the table is moved to what came of it."""
    log = log_of(table)
    report = merge_splits(log, MergeSplits(**parameters), runner=Interrupted(log.env, happens))
    table.refresh()
    return report


def damage(table, path: str, at: int = 200) -> None:
    """Flip a byte among the rows of a split."""
    store = log_of(table).env.store
    data = bytearray(store.get(path))
    data[at] ^= 0xFF
    store.put(path, bytes(data))


def splits_in_store(table) -> set[str]:
    store = log_of(table).env.store
    return {meta.key for meta in store.list_from("") if meta.key.endswith(".split")}
