"""The machine: handles of one table in any state of mind, and all verbs, checked against the book after each."""

from __future__ import annotations

import gzip
import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

import indextables
from indextables.errors import CommitConflict, IndexTablesError, VersionExpired
from tests.life.book import BY_PLACE, Book, Row, Shape, Version, Where, as_seen
from tests.life.other import Other
from tests.life.told import Told, Use
from tests.life.values import NO_RETENTION, as_data, drafts, mostly, properties, rows_of, schema_of, shape

MOST_HANDLES = 5
LOG = "_transaction_log"
INDEXING = {"message": "text"}


@dataclass
class Handle:
    """An open table, and the version that it must show."""

    table: Any
    version: int
    options: dict[str, str]


class World(RuleBasedStateMachine):
    """One table, its book and its handles; the rules stand in subclasses."""

    folder: ClassVar[Path]
    other: ClassVar[Other]
    used: ClassVar[set[Use]]

    def __init__(self) -> None:
        super().__init__()
        self.it: Any = Told(indextables, "indextables", self.used)
        self.path = self.folder / uuid.uuid4().hex
        self.handles: list[Handle] = []
        self.held: list[tuple[Any, int]] = []
        self.times: dict[int, int] = {}
        self.next_id = 0

    @initialize(partitioned=mostly, narrow=st.booleans(), given=properties(), drawn=st.lists(drafts, max_size=3))
    def born(self, partitioned: bool, narrow: bool, given: dict[str, str], drawn: list[list[Row]]) -> None:
        """A new table with some rows."""
        self.properties = given
        self.begin(partitioned=partitioned, narrow=narrow)
        for rows in drawn:
            made = self.rows(rows, self.book.now.shape)
            if made:
                version = self.handles[0].table.append(made)
                self.written(self.handles[0], version, operation="WRITE", rows=[*self.book.now.rows, *made])

    def begin(self, *, partitioned: bool, narrow: bool) -> None:
        """A new table, whose only handle is that of who made it."""
        first = shape(partitioned=partitioned, narrow=narrow)
        table = self.it.create(
            str(self.path),
            schema_of(first),
            partition_by=list(first.partition_by),
            indexing=INDEXING,
            properties=self.properties,
            name="life",
            description="of a table",
        )
        self.book = Book(first)
        self.keep(table, {})
        self.caught_up()

    def teardown(self) -> None:
        try:
            if hasattr(self, "book"):
                self.judge_everything()
        finally:
            shutil.rmtree(self.path, ignore_errors=True)
            indextables.invalidate_caches()

    # Handles

    def keep(self, table: Any, options: dict[str, str]) -> Handle:
        handle = Handle(table, table.version, options)
        self.handles.append(handle)
        del self.handles[:-MOST_HANDLES]
        return handle

    def handle(self, which: int) -> Handle:
        """One of the handles: as it is, after all caches were emptied, or after they were filled by a filtered read."""
        before, place = divmod(which, 6)
        if before:
            indextables.invalidate_caches()
        if before == 2:
            where = BY_PLACE[place % len(BY_PLACE)]
            found = indextables.open(str(self.path)).to_arrow(where=where.text)
            self.same_rows(found, self.book.now, where)
        return self.handles[place % len(self.handles)]

    def seen_by(self, handle: Handle) -> Version:
        return self.book.versions[handle.version]

    # Versions

    def disk_versions(self) -> list[int]:
        """The version files that are there, as the file system tells."""
        return sorted(int(path.stem) for path in (self.path / LOG).glob("[0-9]*.json") if path.stem.isdigit())

    def caught_up(self) -> None:
        """What a table did for itself after a write: versions with the same rows. Then the book is up to date."""
        on_disk = self.disk_versions()[-1]
        assert on_disk >= self.book.newest, f"version {self.book.newest} is committed, the log ends at {on_disk}"
        for version in range(self.book.newest + 1, on_disk + 1):
            told = self.commit_info(version)
            operation = "MERGE SPLITS" if told is None else told["operation"]
            assert operation in {"MERGE SPLITS", "PURGE"}, f"nobody asked for version {version}: {operation}"
            self.book.commit(operation)
        if self.properties.items() >= NO_RETENTION.items():
            self.may_go()
        for version in range(max(self.times, default=-1) + 1, self.book.newest + 1):
            info = self.commit_info(version)
            if info is not None:
                self.times[version] = info["timestamp"]

    def may_go(self) -> None:
        """Retention was free to take everything that nobody protects."""
        self.book.may_go_below(min([self.book.newest, *(version for _, version in self.held)]))

    def commit_info(self, version: int) -> dict[str, Any] | None:
        """What the file of a version tells, None if cleanup took it."""
        try:
            data = (self.path / LOG / f"{version:020d}.json").read_bytes()
        except FileNotFoundError:
            return None
        packed = data.find(b"\x1f\x8b", 0, 4)
        lines = (data if packed < 0 else gzip.decompress(data[packed:])).splitlines()
        (info,) = (action["commitInfo"] for line in lines if "commitInfo" in (action := json.loads(line)))
        return dict(info)

    # Writes

    def rows(self, drafts: list[Row], wanted: Shape) -> list[dict[str, Any]]:
        made = rows_of(drafts, self.next_id, wanted.names)
        self.next_id += len(made)
        return made

    def data(self, rows: list[dict[str, Any]], wanted: Shape, form: str) -> Any:
        return as_data(rows, wanted, form)

    @contextmanager
    def maybe_refused(self, handle: Handle, *, may: bool, must: bool = False) -> Iterator[list[IndexTablesError]]:
        """A conflict is right where others changed what the handle stood on; nothing was committed then.

        A write that needs more than the schema of a version which is gone is told so.
        """
        before = self.disk_versions()
        refused: list[IndexTablesError] = []
        try:
            yield refused
        except VersionExpired as expired:
            self.book.is_gone(handle.version)
            refused.append(expired)
            assert self.disk_versions()[-1] == before[-1], "a write that was refused left a version"
        except CommitConflict as conflict:
            assert may, f"nothing that this write stands on was changed: {conflict}"  # noqa: PT017 - the message tells
            refused.append(conflict)
            # Below a cut it may leave a file in a slot, which nobody reads.
            assert self.disk_versions()[-1] == before[-1], "a write that was refused left a version"
        assert refused or not must, "others changed what this write stands on, and it was committed"

    def written(self, handle: Handle, version: int, **changes: Any) -> None:
        """A verb of this handle committed one version."""
        self.book.commit(**changes)
        assert version == self.book.newest, f"the commit is version {self.book.newest}, the verb told {version}"
        self.caught_up()
        self.moved(handle, version)

    def moved(self, handle: Handle, version: int) -> None:
        """A handle reads this version now; the newest one where the table's own care has taken it by then."""
        handle.version = handle.table.version
        if handle.version != version:
            self.book.is_gone(version)
            assert handle.version == self.book.newest
            version = handle.version

        def look() -> None:
            assert handle.table.count() == len(self.book.versions[version].rows)

        self.expired(version, look)

    # Judging

    def expired(self, version: int, look: Callable[[], None]) -> bool:
        """Look at a version; True if it is gone, which must be allowed."""
        try:
            look()
        except VersionExpired:
            self.book.is_gone(version)
            return True
        return False

    def same_rows(self, found: Any, version: Version, where: Where | None = None, names: Any = None) -> None:
        wanted = tuple(names or version.shape.names)
        rows = found if isinstance(found, list) else found.to_pylist()
        expected = [row for row in version.rows if where is None or where.is_true(row)]
        assert as_seen(rows, wanted) == as_seen(expected, wanted)

    def judge_files(self, table: Any, version: Version) -> None:
        files = table.files()
        gone = sum(vector["cardinality"] for vector in files["deletionVector"].to_pylist() if vector is not None)
        assert (sum(files["numRecords"].to_pylist()) if files.num_rows else 0) - gone == len(version.rows)
        assert len(set(files["path"].to_pylist())) == files.num_rows
        detail = table.detail()
        assert (detail["numFiles"], detail["numRows"]) == (files.num_rows, len(version.rows))

    def judge_history(self, table: Any) -> None:
        told = table.history().to_pylist()
        versions = [row["version"] for row in told]
        assert versions == list(range(self.book.newest, versions[-1] - 1, -1))
        assert versions[-1] == 0 or self.book.cut_short, "the history lost its beginning"
        assert versions[-1] <= self.book.kept_from + 1
        times = [row["timestamp"] for row in told]
        assert times == sorted(set(times), reverse=True), "commit times do not grow"
        for row in told:
            assert row["operation"] in self.book.versions[row["version"]].operations

    def judge_version(self, table: Any, number: int) -> None:
        version = self.book.versions[number]
        assert table.version == number
        assert [(f.name, f.type) for f in table.schema] == [(f.name, f.type) for f in schema_of(version.shape)]
        assert table.partition_columns == list(version.shape.partition_by)
        self.same_rows(table.to_arrow(), version)
        assert table.count() == len(version.rows)
        self.judge_files(table, version)
        for app, batch in version.txns.items():
            assert table.txn_version(app) == batch

    def judge_everything(self) -> None:
        """What a process sees that knows nothing of all this."""
        self.caught_up()
        indextables.invalidate_caches()
        table = indextables.open(str(self.path))
        self.judge_version(table, self.book.newest)
        self.judge_history(table)
        report = table.verify()
        assert report.ok, report.findings
        for number in range(self.book.newest):
            gone = self.expired(number, lambda number=number: self.judge_version(table.at(number), number))
            if not gone:
                self.book.is_there(number)
