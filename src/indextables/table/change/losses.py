"""`Losses` are the rows that a statement takes out of files, on top of one version, as the log is told of them.

A file that loses all its rows is removed; any other gets a larger deletion vector under the same path. Small vectors
stand in the log, the others of one attempt share a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables.env import Env
from indextables.errors import DvCorrupt
from indextables.log.commit import Staged, removes_of
from indextables.log.wire import DV_TYPE, DeletionVector, key_of
from indextables.split.file import dv
from indextables.table.read import placed_again

__all__ = ["FileCounts", "Losses", "Touched"]

_INLINE_BYTES = 1_024


class Touched(msgspec.Struct):
    """A file as the newest version has it: its rows, those that its vector deletes, and those that go now."""

    num_rows: int
    before: BitMap
    rows: BitMap

    @property
    def stays(self) -> bool:
        """True if rows are left."""
        return len(self.before) + len(self.rows) < self.num_rows


class FileCounts(msgspec.Struct, frozen=True):
    """What becomes of files that lose rows: how many leave, and how many vectors come, come in place of one, and go."""

    removed: int
    added: int
    updated: int
    superseded: int

    def metrics(self, what: str = "") -> dict[str, str | None]:
        """By Delta's names; `what` stands before those of vectors."""
        return {
            f"num{what}DeletionVectorsAdded": str(self.added),
            f"num{what}DeletionVectorsUpdated": str(self.updated),
            f"num{what}DeletionVectorsRemoved": str(self.superseded),
        }


class Losses:
    """The rows that go, per path. `files` are the entries of these paths in the version that is built upon."""

    def __init__(self, env: Env, files: pa.Table, rows: Mapping[str, BitMap]) -> None:
        """Rows that are deleted already are left out. Raises DvCorrupt, StoreError."""
        self._env = env
        self.files = files.filter(pc.is_in(files["path"], value_set=pa.array(list(rows), pa.string())))
        self.touched: dict[str, Touched] = {}
        self.made: list[str] = []
        """Keys of the vector files of all attempts."""
        self.made_ms: int | None = None
        """When the last of them was written."""
        self._current: str | None = None
        for path, entry in self._entries():
            self._touch(path, entry, rows[path])
        self._forget_untouched()

    def __len__(self) -> int:
        """How many rows go."""
        return sum(len(file.rows) for file in self.touched.values())

    def counts(self) -> FileCounts:
        """What becomes of the files."""
        had = {path for path, file in self.touched.items() if file.before}
        stays = {path for path, file in self.touched.items() if file.stays}
        return FileCounts(len(self.touched) - len(stays), len(stays), len(had & stays), len(had))

    def sparse(self, share: float) -> int:
        """How many files stay with more than this share of their rows deleted."""
        gone = ((len(file.before) + len(file.rows), file.num_rows) for file in self.touched.values() if file.stays)
        return sum(deleted > share * rows for deleted, rows in gone)

    def stage(self) -> Staged:
        """What the log is told. Writes the vectors that do not stand in it."""
        payloads = {path: dv.encode(file.before | file.rows) for path, file in self.touched.items() if file.stays}
        vectors = self._vectors(payloads)
        stays = pc.is_in(self.files["path"], value_set=pa.array(list(payloads), pa.string()))
        left = placed_again(self.files.filter(stays))
        told = [msgspec.to_builtins(vectors[path]) for path in left["path"].to_pylist()]
        column = left.column_names.index("deletionVector")
        adds = left.set_column(column, "deletionVector", pa.array(told, DV_TYPE))
        removes = removes_of(self.files, self._env.ambient.now_ms())
        return Staged(adds=adds, removes=removes, removed_rows=self.files)

    def superseded(self) -> list[str]:
        """Keys of vector files that the last attempt does not name."""
        return [key for key in self.made if key != self._current]

    def take(self, files: pa.Table, rows: Mapping[str, BitMap]) -> None:
        """Let rows of other files go too."""
        more = Losses(self._env, files, rows)
        self.files = pa.concat_tables([self.files, more.files])
        self.touched |= more.touched

    def replace(self, entry: pa.Table, before: BitMap) -> None:
        """The entry of a path is another one by now, whose vector deletes `before`; rows of that do not go again."""
        path = entry["path"][0].as_py()
        others = self.files.filter(pc.not_equal(self.files["path"], path))
        self.files = pa.concat_tables([others, entry])
        file = self.touched[path]
        file.before, file.rows = before, file.rows - before
        self._forget_untouched()

    def move(self, paths: Iterable[str], files: pa.Table, rows: Mapping[str, BitMap]) -> None:
        """The rows that go from `paths` stand in others of `files` by now."""
        for path in paths:
            self.drop(path)
        self.take(files, rows)

    def drop(self, path: str) -> None:
        """The file is gone, and its rows with it."""
        del self.touched[path]
        self._forget_untouched()

    def vector_of(self, path: str, vector: DeletionVector | None, num_rows: int | None) -> BitMap:
        """The rows that a vector of the log deletes. Raises DvCorrupt, StoreError."""
        if vector is None:
            return BitMap()
        if num_rows is None:
            raise DvCorrupt(f"{path} has a deletion vector but no number of rows in the log", path=path)
        key = key_of(path, self._env.store.url)
        return dv.decode(dv.load(self._env.store, vector, key, num_rows), num_rows, key)

    def _entries(self) -> list[tuple[str, tuple[int | None, DeletionVector | None]]]:
        vectors = self.files["deletionVector"].to_pylist()
        known = [None if vector is None else msgspec.convert(vector, DeletionVector) for vector in vectors]
        counts = self.files["numRecords"].to_pylist()
        return list(zip(self.files["path"].to_pylist(), zip(counts, known, strict=True), strict=True))

    def _touch(self, path: str, entry: tuple[int | None, DeletionVector | None], rows: BitMap) -> None:
        num_rows, vector = entry
        if num_rows is None:
            raise DvCorrupt(f"{path} has no number of rows in the log: rebuild the log", path=path)
        before = self.vector_of(path, vector, num_rows)
        self.touched[path] = Touched(num_rows, before, rows - before)

    def _forget_untouched(self) -> None:
        self.touched = {path: file for path, file in self.touched.items() if file.rows}
        self.files = self.files.filter(
            pc.is_in(self.files["path"], value_set=pa.array(list(self.touched), pa.string()))
        )

    def _vectors(self, payloads: Mapping[str, bytes]) -> dict[str, dv.DvDescriptor]:
        self._current = None
        found = {path: dv.inline(payload) for path, payload in payloads.items() if len(payload) <= _INLINE_BYTES}
        large = [path for path in payloads if path not in found]
        if large:
            url = self._env.store.url
            vectors = [(key_of(path, url), self.touched[path].num_rows, payloads[path]) for path in large]
            made = dv.write_file(self._env.store, vectors, self._env.ambient.token())
            self._current, self.made_ms = dv.file_key(made[0].pathOrInlineDv, large[0]), self._env.ambient.now_ms()
            self.made.append(self._current)
            found |= dict(zip(large, made, strict=True))
        return found
