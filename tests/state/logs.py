"""Random logs for the tests of the state: version files as writers leave them, and what they must add up to."""

from __future__ import annotations

import copy
import itertools
import random

import pyarrow as pa

from indextables.env import Env
from indextables.log.read.folding import replay
from indextables.log.wire.actions import CommitInfo, DomainMetadata, Format, MergeSkip, Metadata, Txn
from indextables.log.wire.codec import REMOVES_SCHEMA, VersionContent, decode_version, encode_version
from indextables.log.wire.files import ADD_TYPE
from indextables.log.wire.names import version_key
from indextables.log.wire.protocol import new_table_protocol
from indextables.log.wire.state import TableState
from indextables.options import Options
from indextables.storage.memory import MemoryStore
from indextables.storage.url import parse_location
from tests.world.clock import Clock

SCHEMA_JSON = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"date","nullable":true,"metadata":{}},'
    '{"name":"shard","type":"integer","nullable":true,"metadata":{}},'
    '{"name":"note","type":"string","nullable":true,"metadata":{}}]}'
)

_NAMES = itertools.count()


def environment(options: dict[str, object] | None = None, clock: Clock | None = None) -> Env:
    """An empty store in memory of its own."""
    clock = clock or Clock(seed=0)
    store = MemoryStore(parse_location(f"memory://state-{next(_NAMES)}/table"), ambient=clock)
    return Env(store=store, ambient=clock, options=Options(options, environ={}))


def with_options(env: Env, **options: object) -> Env:
    """The same table, asked with other options (`_` for `.`)."""
    return Env(env.store, env.ambient, Options({k.replace("_", "."): v for k, v in options.items()}, environ={}))


TABLE_ID = "11111111-2222-3333-4444-555555555555"


def metadata(
    partitions: tuple[str, ...] = ("day", "shard"), table_id: str = TABLE_ID, **configuration: str
) -> Metadata:
    return Metadata(
        id=table_id,
        schemaString=SCHEMA_JSON,
        format=Format(),
        partitionColumns=list(partitions),
        configuration=configuration,
        createdTime=1,
    )


def add_row(number: int, chance: random.Random, partitions: tuple[str, ...] = ("day", "shard")) -> dict[str, object]:
    day, shard = f"2024-01-{chance.randrange(1, 29):02d}", chance.randrange(12)
    values: dict[str, str | None] = {"day": day, "shard": str(shard) if chance.random() < 0.9 else None}
    folder = "/".join(f"{name}={values[name]}" for name in partitions)
    row: dict[str, object] = {
        "path": f"{folder + '/' if folder else ''}splits/split-{number:08d}.split",
        "partitionValues": [(name, values[name]) for name in partitions],
        "size": chance.randrange(1, 10_000),
        "modificationTime": chance.randrange(1, 10_000),
        "dataChange": chance.random() < 0.5,
        "hasFooterOffsets": False,
    }
    if chance.random() < 0.7:
        row |= {"minValues": [("id", str(number)), ("note", "a")], "maxValues": [("id", str(number)), ("note", "zß")]}
        row |= {"numRecords": chance.randrange(100), "stats": '{"numRecords":3}'}
    if chance.random() < 0.3:
        row |= {"tags": [("source", "x"), ("empty", None)], "splitTags": ["a", "b"], "numMergeOps": 2}
        row |= {"hotcacheStartOffset": 1, "hotcacheLength": 2, "hasFooterOffsets": True, "footerStartOffset": 5}
        row |= {"timeRangeStart": "2024-01-01T00:00:00Z", "deleteOpstamp": 7, "docMappingRef": "abcdefghijklmnop"}
        row |= {"docMappingJson": "{}", "uncompressedSizeBytes": 9, "companionSourceFiles": ["a"], "footerEndOffset": 6}
        row |= {"companionDeltaVersion": 3, "companionFastFieldMode": "HYBRID", "timeRangeEnd": "2024-01-02T00:00:00Z"}
    return row


def vector(number: int) -> dict[str, object]:
    return {
        "storageType": "u",
        "pathOrInlineDv": f"dv{number}",
        "sizeInBytes": 4,
        "cardinality": number,
        "offset": number % 2 or None,
    }


def adds_table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema(list(ADD_TYPE)))


def removes_table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=REMOVES_SCHEMA)


class RandomLog:
    """Commits of every kind: appends, removes, replaced vectors, restored paths, removes that miss, other actions."""

    def __init__(
        self, env: Env, seed: int, partitions: tuple[str, ...] = ("day", "shard"), table_id: str = TABLE_ID
    ) -> None:
        self.env = env
        self.table_id = table_id
        self.chance = random.Random(seed)
        self.partitions = partitions
        self.version = -1
        self.number = 0
        self.live: dict[str, dict[str, object]] = {}
        self.gone: dict[str, dict[str, object]] = {}
        self.history: list[VersionContent] = []
        self.time_ms = env.ambient.now_ms()
        self.first()

    def first(self) -> VersionContent:
        return self.commit([new_table_protocol(), metadata(self.partitions, self.table_id)], [], [])

    def append(self, count: int) -> VersionContent:
        rows = [self._fresh() for _ in range(count)]
        return self.commit([], rows, [])

    def step(self) -> VersionContent:
        rows: list[dict[str, object]] = []
        removes: list[dict[str, object]] = []
        actions: list[object] = []
        rows += [self._fresh() for _ in range(self.chance.randrange(0, 5))]
        for path in self._some(self.live):
            old = self.live[path]
            kind = self.chance.random()
            removes.append({"path": path, "dataChange": True, "deletionVector": old.get("deletionVector")})
            if kind < 0.3:
                rows.append(old | {"deletionVector": vector(self.chance.randrange(1, 99))})
            elif kind < 0.4:
                removes[-1]["deletionVector"] = vector(1000)
            elif kind < 0.5:
                removes.pop()
                rows.append(old | {"size": 77})
        rows += [self.gone[path] for path in self._some(self.gone)[:1]]
        if self.chance.random() < 0.3:
            actions.append(Txn(appId=f"app{self.chance.randrange(3)}", version=self.version))
            actions.append(DomainMetadata(f"d{self.chance.randrange(3)}", "{}", self.chance.random() < 0.3))
        if self.live and self.chance.random() < 0.3:
            path = self.chance.choice(sorted(self.live))
            actions.append(MergeSkip(path=path, skipTimestamp=1, reason="r", operation="merge", retryAfter=5))
        if self.chance.random() < 0.1:
            actions.append(
                metadata(self.partitions, self.table_id, **{f"docMappingSchema.{self.version}": "[]", "k": "v"})
            )
        return self.commit(actions, rows, removes)

    def contents(self) -> list[VersionContent]:
        return list(self.history)

    def state(self) -> TableState:
        return replay(None, self.history)

    def onto(self, env: Env) -> RandomLog:
        """The same log, with all that lies beside it and its times, in an empty store."""
        clock = env.ambient
        assert isinstance(clock, Clock)
        assert isinstance(self.env.ambient, Clock)
        for meta in self.env.store.list_from(""):
            clock.ms = meta.modified_ms
            env.store.put(meta.key, self.env.store.get(meta.key))
        clock.ms = self.env.ambient.ms
        twin = copy.copy(self)
        twin.env, twin.chance = env, random.Random(self.version)
        twin.live, twin.gone, twin.history = dict(self.live), dict(self.gone), list(self.history)
        return twin

    def _fresh(self) -> dict[str, object]:
        self.number += 1
        return add_row(self.number, self.chance, self.partitions)

    def _some(self, paths: dict[str, dict[str, object]]) -> list[str]:
        count = min(len(paths), self.chance.randrange(0, 4))
        return self.chance.sample(sorted(paths), count)

    def commit(self, actions: list, rows: list, removes: list) -> VersionContent:
        self.version += 1
        self.time_ms += 1
        unique = {str(row["path"]): row for row in rows}
        info = CommitInfo(
            timestamp=self.time_ms,
            inCommitTimestamp=self.time_ms,
            operation="WRITE",
            tableId=self.table_id,
            token=f"{self.chance.getrandbits(128):032x}",
        )
        data = encode_version(
            [info, *actions],
            adds=adds_table(list(unique.values())),
            removes=removes_table(removes),
            compress=self.chance.random() < 0.5,
        )
        self.env.store.put(version_key(self.version), data)
        for remove in removes:
            path = str(remove["path"])
            if path in self.live and self.live[path].get("deletionVector") == remove.get("deletionVector"):
                self.gone[path] = self.live.pop(path)
        for path, row in unique.items():
            self.live[path] = row
            self.gone.pop(path, None)
        self.history.append(decode_version(data, self.version, root_url=self.env.store.url))
        return self.history[-1]


def same(left: TableState, right: TableState) -> None:
    """The two states are the same table: every field, whatever the order of rows and map keys."""
    assert left.version == right.version
    assert left.protocol == right.protocol
    assert left.metadata == right.metadata
    assert left.txns == right.txns
    assert left.domains == right.domains
    assert left.skips == right.skips
    assert left.tokens == right.tokens
    assert left.in_commit_timestamp == right.in_commit_timestamp
    assert rows_of(left.files) == rows_of(right.files)


def rows_of(files: pa.Table) -> list[dict[str, object]]:
    rows = [{name: _plain(value) for name, value in row.items()} for row in files.to_pylist()]
    return sorted(rows, key=lambda row: str(row["path"]))


def _plain(value: object) -> object:
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: item for key, item in value if item is not None}
    return {} if value == [] else value
