"""What really happened, told by the store and by an oracle that shares no code with the library.

The history is the content that was the first to land in each slot. Everything that processes claim is compared with
it: L1-L15 of the invariants are named where they are checked.
"""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.sim.world import World

POSITION = "indextables.position"
ROW_IDS = "indextables.rowTracking"
SLOT = re.compile(r"_transaction_log/([0-9]{20})\.json")


class Broken(AssertionError):
    """An invariant does not hold."""


class Version:
    """One version of the history, read by the oracle."""

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number
        lines = [json.loads(line) for line in plain(data).splitlines() if line.strip()]
        self.actions: list[tuple[str, Any]] = [next(iter(line.items())) for line in lines]
        first, info = self.actions[0]
        if first != "commitInfo":
            raise Broken(f"version {number} starts with {first}")
        self.token: str = info["token"]
        self.time: int = info["inCommitTimestamp"]
        self.operation: str = info["operation"]
        self.parameters: dict[str, str] = info.get("operationParameters", {})
        self.table: str | None = info.get("tableId")
        self.table = next((action["id"] for kind, action in self.actions if kind == "metaData"), self.table)
        self.adds = [action["path"] for kind, action in self.actions if kind == "add"]
        self.removes = [action["path"] for kind, action in self.actions if kind == "remove"]
        self.txns = {action["appId"]: action["version"] for kind, action in self.actions if kind == "txn"}
        self.changes_table = any(kind in {"metaData", "protocol"} for kind, _ in self.actions)


class File(NamedTuple):
    """A live file as a version shows it: its vector, its partition values, and the place of its rows."""

    vector: str
    partition: str
    place: tuple[int, ...]

    @classmethod
    def added(cls, action: dict[str, Any], version: int, line: int) -> File:
        tag = (action.get("tags") or {}).get(POSITION)
        place = (version, line) if tag is None else tuple(int(part) for part in tag.split("."))
        padded = (*place, 0)[:3]
        return cls(
            _vector(action.get("deletionVector")), _partition(action["partitionValues"]), (*padded, version, line)
        )


class Read(NamedTuple):
    """What a process read of a version: files in the order of their rows, each with vector and partition values."""

    version: int
    paths: list[str]
    vectors: list[dict[str, Any] | None]
    partitions: list[dict[str, str | None]]
    metadata_id: str
    schema: str
    txns: dict[str, int]


class RowIds(NamedTuple):
    """What was given by a version: the next id of a row, and that of the first row of each file that was ever there."""

    following: int
    bases: dict[str, int]


class Truth:
    """The history, and the ledger of what was claimed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history: list[Version] = []
        self.live: list[frozenset[str]] = []
        self.shown: list[dict[str, File]] = []
        self.watermarks: list[dict[str, int]] = []
        self.metadata: list[dict[str, Any]] = []
        self.acked = -1
        self.refused: set[str] = set()
        self.doubtful: list[tuple[str, int]] = []
        self.tokens: dict[str, int] = {}
        self.refills = 0
        self.refilled: list[int] = []
        """The slots that were filled again, in that order."""
        self.cleaned = -1
        """The newest version whose file was deleted."""
        self.cut = -1
        """The newest checkpoint that anything may have been deleted for: what is older may have expired."""
        self.batches: dict[tuple[str, int], int] = {}
        self.row_ids: list[RowIds] = []

    def landing(self, key: str, data: bytes) -> None:
        """A new object appears."""
        match = SLOT.fullmatch(key)
        if match is None:
            return
        number = int(match[1])
        if number < len(self.history):
            # Only a slot that cleanup has emptied can be taken a second time; that is not a commit.
            self.refills += 1
            self.refilled.append(number)
            return
        self._expect(number == len(self.history), f"L6: version {number} lands above a gap")
        self._commit(Version(number, data))

    def replacing(self, key: str) -> None:
        """An object is put without a condition."""
        self._expect(SLOT.fullmatch(key) is None, f"L5: {key} is replaced")
        if key.endswith(".split"):
            self._expect(key not in self.world.objects, f"L14: {key} is overwritten")

    def deleted(self, key: str) -> None:
        """An object is deleted."""
        match = SLOT.fullmatch(key)
        if match is None and self._state_version(key) < 0:
            return
        newest = max((self._state_version(k) for k in self.world.objects), default=-1)
        self.cut = max(self.cut, newest)
        if match is not None:
            number = int(match[1])
            self._expect(newest >= number, f"version {number} is deleted, and no checkpoint covers it")
            self.cleaned = max(self.cleaned, number)

    def may_be_hidden(self, key: str) -> bool:
        """True if a listing that lags behind may miss this key; what intents protect relies on one that is complete."""
        at = self._state_version(key)
        return "/_intents/" not in key and (at < 0 or at > self.cleaned)

    def committed(self, version: int, token: str) -> None:
        """A process was told that its commit is `version`."""
        self._expect(version < len(self.history), f"L2: version {version} is acknowledged and was never written")
        held = self.history[version].token
        self._expect(held == token, f"L2: version {version} is acknowledged to {token} and holds {held}")
        self.acked = max(self.acked, version)

    def repeated(self, app: str, batch: int) -> None:
        """A process was told that the table already holds its batch."""
        held = any(name == app and number >= batch for name, number in self.batches)
        self._expect(held, f"L2: batch {batch} of {app} is acknowledged, and neither it nor a later one was written")

    def conflicted(self, token: str) -> None:
        """A process was told that its commit is not in the log."""
        self._expect(token not in self.tokens, f"L4: {token} is refused and is version {self.tokens.get(token)}")
        self.refused.add(token)

    def unknown(self, token: str, version: int) -> None:
        """A process was told that nobody knows."""
        self.doubtful.append((token, version))

    def read(self, read: Read) -> None:
        """A process read a snapshot."""
        version, paths = read.version, read.paths
        self._expect(version < len(self.history), f"L1: version {version} is read and was never written")
        self._expect(len(paths) == len(set(paths)), f"L1: version {version} lists a file twice")
        wrong = set(paths) ^ self.live[version]
        self._expect(not wrong, f"L1: version {version} is read with or without {sorted(wrong)}")
        truth = self.metadata[version]
        self._expect(truth["id"] == read.metadata_id, f"L1: version {version} is read with another table's metadata")
        self._expect(truth["schemaString"] == read.schema, f"L1: version {version} is read with another schema")
        self._expect(read.txns == self.watermarks[version], f"L1: version {version} is read with the txns {read.txns}")
        shown = self.shown[version]
        for path, vector, partition in zip(paths, read.vectors, read.partitions, strict=True):
            same = _vector(vector) == shown[path].vector
            self._expect(same, f"L1: version {version} is read with another vector of {path}")
            same = _partition(partition) == shown[path].partition
            self._expect(same, f"L1: version {version} is read with {path} in the partition {partition}")
        ordered = sorted(shown, key=lambda path: shown[path].place)
        self._expect(paths == ordered, f"L1: version {version} is read in another order: {paths}, not {ordered}")

    def expired(self, version: int) -> None:
        """A process was told that a version can no longer be read: only what cleanup has taken may be."""
        self._expect(version <= self.cut, f"L8: version {version} is said to have expired, nothing took it")

    def _commit(self, version: Version) -> None:
        n = version.number
        live = dict(self.shown[-1]) if self.shown else {}
        self._expect(version.token not in self.tokens, f"L3: {version.token} is version {n} too")
        self._expect(version.token not in self.refused, f"L4: {version.token} was refused and is version {n} now")
        if n == 0:
            kinds = sorted(kind for kind, _ in version.actions)
            self._expect(kinds == ["commitInfo", "metaData", "protocol"], f"L11: version 0 holds {kinds}")
        else:
            self._expect(version.time > self.history[-1].time, f"version {n} is older than version {n - 1}")
        for app, batch in version.txns.items():
            self._expect((app, batch) not in self.batches, f"L3: batch {batch} of {app} is written twice")
            self.batches[app, batch] = n
        for line, (kind, action) in enumerate(version.actions):
            if kind == "remove":
                path = action["path"]
                self._expect(path in live, f"L9: version {n} removes {path}, which is not live")
                same = live.pop(path).vector == _vector(action.get("deletionVector"))
                self._expect(same, f"L9: version {n} removes {path} with another vector")
            elif kind == "add":
                self._expect(action["path"] in self.world.objects, f"L13: {action['path']} is named before it is there")
                live[action["path"]] = File.added(action, n, line)
        row_ids = self._numbered(version, self.row_ids[-1]) if n > 0 else RowIds(0, {})
        if version.parameters.get("mode") == "Overwrite":
            self._expect(set(live) == set(version.adds), f"L7: version {n} overwrites and leaves other files live")
        before = self.metadata[-1] if self.metadata else None
        changed = [action for kind, action in version.actions if kind == "metaData"]
        self.metadata.append(changed[-1] if changed else before)  # type: ignore[arg-type]
        self.history.append(version)
        self.live.append(frozenset(live))
        self.shown.append(live)
        self.row_ids.append(row_ids)
        self.watermarks.append({**(self.watermarks[-1] if self.watermarks else {}), **version.txns})
        self.tokens[version.token] = n

    def _numbered(self, version: Version, before: RowIds) -> RowIds:
        """No row ever gets the id of another; a file keeps its own however often it is added."""
        n, following, bases = version.number, before.following, dict(before.bases)
        for kind, action in version.actions:
            if kind != "add":
                continue
            path, base = action["path"], action.get("baseRowId")
            known = bases.setdefault(path, base)
            self._expect(base is not None and base == known, f"L15: {path} has rows from {base} on, had {known}")
            if path not in before.bases:
                self._expect(base >= following, f"L15: {path} gets ids of other rows")
                following = base + action["numRecords"]
        told = [a["configuration"] for k, a in version.actions if k == "domainMetadata" and a["domain"] == ROW_IDS]
        marks = [json.loads(text)["rowIdHighWaterMark"] for text in told]
        self._expect(marks == [following - 1], f"L15: version {n} counts {marks}, not {following - 1}")
        return RowIds(following, bases)

    def _state_version(self, key: str) -> int:
        match = re.fullmatch(r"_transaction_log/(?:([0-9]{20})\.checkpoint\..*|state-v([0-9]{20})/_manifest.avro)", key)
        return int(match[1] or match[2]) if match else -1

    def _expect(self, holds: bool, message: str) -> None:
        if not holds:
            raise Broken(f"seed {self.world.seed}: {message}")


def _vector(value: dict[str, Any] | None) -> str:
    """A vector as text that equal ones share; what is not given and what is null are one."""
    return "" if value is None else json.dumps({name: value[name] for name in sorted(value) if value[name] is not None})


def _partition(values: dict[str, str | None]) -> str:
    """Partition values as text; one that is not given is null."""
    return json.dumps({name: value for name, value in sorted(values.items()) if value is not None})


def plain(data: bytes) -> bytes:
    """The text of a version file."""
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
