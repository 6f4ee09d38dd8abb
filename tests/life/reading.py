"""The rules that read: they must never change what anybody sees."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow.compute as pc
from hypothesis import strategies as st
from hypothesis.stateful import rule

import indextables
from indextables.errors import VersionExpired
from tests.life.book import Version, Where, as_seen, has_word
from tests.life.machine import Handle, World
from tests.life.values import as_time, handles, wheres, words

HOW = ("to_arrow", "scan", "count", "files", "sql", "search", "count word", "aggregate")
FRESH = ("as it is", "refreshed", "opened", "opened without caches", "opened anew")
OPTIONS = (
    {},
    {},
    {"transaction.useOptimized": "false"},
    {"transaction.cache.enabled": "false"},
    {"search.defaultOperator": "and"},
)
READ = {"which": handles, "fresh": st.sampled_from(FRESH), "where": wheres, "word": words, "some": st.booleans()}


class Reading(World):
    """Handles come and go, and look at rows in every way there is."""

    # Handles

    @rule(given=st.sampled_from(OPTIONS))
    def open(self, given: dict[str, str]) -> None:
        handle = self.keep(self.it.open(str(self.path), given or None), given)
        assert handle.version == self.book.newest

    @rule(back=st.integers(0, 6), by_time=st.booleans(), form=st.integers(0, 2))
    def open_older(self, back: int, by_time: bool, form: int) -> None:
        version = max(self.book.newest - back, 0)
        by_time = by_time and version in self.times
        try:
            if by_time:
                table = self.it.open(str(self.path), timestamp=as_time(self.times[version], form))
            else:
                table = self.it.open(str(self.path), version=version)
        except VersionExpired:
            self.book.is_gone(version)
        else:
            assert self.keep(table, {}).version == version

    @rule(given=st.sampled_from(OPTIONS))
    def create_again(self, given: dict[str, str]) -> None:
        """Making a table that is there opens it, as long as it has the same schema and partitioning."""
        from tests.life.values import schema_of

        now = self.book.now.shape
        table = self.it.create(
            str(self.path), schema_of(now), partition_by=list(now.partition_by), options=given or None
        )
        assert self.keep(table, given).version == self.book.newest

    @rule(which=handles)
    def refresh(self, which: int) -> None:
        handle = self.handle(which)
        assert handle.table.refresh().version == self.book.newest
        self.moved(handle, self.book.newest)

    @rule(which=handles, back=st.integers(0, 6))
    def travel(self, which: int, back: int) -> None:
        """A handle at an older version, which may be gone."""
        handle, version = self.handle(which), max(self.book.newest - back, 0)
        try:
            self.keep(handle.table.at(version), handle.options)
        except VersionExpired:
            self.book.is_gone(version)

    @rule(which=handles, back=st.integers(0, 6), late=st.integers(0, 2), form=st.integers(0, 2))
    def travel_by_time(self, which: int, back: int, late: int, form: int) -> None:
        """At the time of a commit, and until the next one, the table was what that commit made it."""
        handle, version = self.handle(which), max(self.book.newest - back, 0)
        if version not in self.times:
            return
        until = self.times.get(version + 1, self.times[version] + 10)
        at = min(self.times[version] + late, until - 1)
        try:
            table = handle.table.at(timestamp=as_time(at, form))
        except VersionExpired:
            self.book.is_gone(version)
            return
        assert self.keep(table, handle.options).version == version

    @rule(which=handles)
    def pass_on(self, which: int) -> None:
        """Another holder of the same handle, which was pickled, reads the same version."""
        handle = self.handle(which)
        handle.table.close()
        try:
            copy = pickle.loads(pickle.dumps(handle.table.plain))  # noqa: S301 - our own bytes
        except VersionExpired:
            self.book.is_gone(handle.version)
            return
        assert self.keep(self.it.wrapped(copy), handle.options).version == handle.version

    @rule(which=handles)
    def forget(self, which: int) -> None:
        self.handle(which).table.invalidate_cache(what="metadata")
        self.handle(which).table.invalidate_cache()

    @rule(all_tables=st.booleans())
    def forget_everything(self, all_tables: bool) -> None:
        if all_tables:
            self.it.invalidate_caches()
        else:
            self.it.invalidate_caches(str(self.path), options={})
        assert self.it.cache_stats().regions

    # Rows

    def fresh(self, which: int, how: str) -> Handle:
        handle = self.handle(which)
        if how == "refreshed":
            self.refresh(which)
        elif how != "as it is":
            if how == "opened without caches":
                indextables.invalidate_caches()
            self.open({})
            handle = self.handles[-1]
        return handle

    def read(self, which: int, fresh: str, how: str, where: Where | None, word: str, some: bool) -> None:
        handle = self.fresh(which, fresh)
        version = self.seen_by(handle)
        if where is not None and not where.fits(version.shape):
            where = None
        read = getattr(self, "_" + how.replace(" ", "_"))
        self.expired(handle.version, lambda: read(handle.table, version, where, word, some))

    @rule(how=st.sampled_from(HOW[:4]), **READ)
    def read_rows(self, how: str, **more: Any) -> None:
        self.read(how=how, **more)

    @rule(how=st.sampled_from(HOW[4:]), **READ)
    def find_rows(self, how: str, **more: Any) -> None:
        self.read(how=how, **more)

    @rule(which=handles, fresh=st.sampled_from(FRESH))
    def read_all(self, which: int, fresh: str) -> None:
        handle = self.fresh(which, fresh)
        self.expired(handle.version, lambda: self.judge_version(handle.table, handle.version))

    @staticmethod
    def expected(version: Version, where: Where | None, word: str | None = None) -> list[Any]:
        rows = [row for row in version.rows if where is None or where.is_true(row)]
        return rows if word is None else [row for row in rows if has_word(row, word)]

    def _to_arrow(self, table: Any, version: Version, where: Where | None, word: str, some: bool) -> None:
        names = ["message", "id"] if some else None
        text = None if where is None else where.text
        self.same_rows(table.to_arrow(columns=names, where=text), version, where, names)
        wanted = len(self.expected(version, where))
        assert table.to_arrow(where=text, limit=2).num_rows == min(2, wanted)
        assert len(table.to_pandas(columns=names, where=text, limit=3)) == min(3, wanted)
        assert table.to_polars(search=None).select("id").collect().height == len(version.rows)
        if table.files()["deletionVector"].null_count == table.files().num_rows:
            assert table.to_dataset().count_rows() == len(version.rows)

    def _scan(self, table: Any, version: Version, where: Where | None, word: str, some: bool) -> None:
        names = ["p", "id"] if some else None
        text = None if where is None else where.text
        self.same_rows(table.scan(columns=names, where=text).read_all(), version, where, names)
        assert table.scan(where=text, limit=1).read_all().num_rows == min(1, len(self.expected(version, where)))

    def _count(self, table: Any, version: Version, where: Where | None, word: str, some: bool) -> None:
        assert table.count(where=None if where is None else where.text) == len(self.expected(version, where))
        assert table.count() == len(table.plain) == len(version.rows)

    def _count_word(self, table: Any, version: Version, where: Where | None, word: str, some: bool) -> None:
        query = f"message:{word}" if some else word
        found = table.count(query, where=None if where is None else where.text)
        assert found == len(self.expected(version, where, word))

    def _files(self, table: Any, version: Version, where: Where | None, word: str, some: bool) -> None:
        """Files that may match hold at least what matches; all of them hold everything."""
        if where is not None:
            found = table.files(where.text)
            assert sum(found["numRecords"].to_pylist()) >= len(self.expected(version, where))
        self.judge_files(table, version)

    def _sql(self, table: Any, version: Version, where: Where | None, word: str, some: bool) -> None:
        condition = "true" if where is None else f"({where.text})"
        rows = self.expected(version, where, word if some else None)
        if some:
            condition += f" AND TEXTSEARCH(message, '{word}')"
        found = table.sql(f"SELECT id, p, message FROM t WHERE {condition}")
        assert as_seen(found.to_pylist(), ("id", "p", "message")) == as_seen(rows, ("id", "p", "message"))
        joined = table.sql(
            "SELECT count(*) AS c FROM t JOIN o ON t.id = o.id WHERE t.id >= $least",
            tables={"o": getattr(table, "plain", table)},
            params={"least": 1},
        )
        assert joined["c"].to_pylist() == [sum(row["id"] >= 1 for row in version.rows)]

    def _search(self, table: Any, version: Version, where: Where | None, word: str, some: bool) -> None:
        rows = self.expected(version, where, word)
        text = None if where is None else where.text
        found = table.search(word, where=text, limit=None, highlight=["message"] if some else None)
        self.same_rows(found, Version(tuple(rows), version.shape, frozenset()))
        if some:
            assert all(f"<em>{word}</em>" in piece for piece in found["_highlight_message"].to_pylist())
        assert table.explain(word, where=text)["splits"] == table.files().num_rows
        ordered = table.search(word, columns=["id"], where=text, limit=2, offset=1, order_by="id desc")
        part = {"columns": ["id"], "where": text, "limit": 2, "offset": 1, "order_by": "id desc"}
        assert (
            table.search_batches(word, **part, highlight=None).read_all()["id"].to_pylist() == ordered["id"].to_pylist()
        )
        assert ordered["id"].to_pylist() == sorted((row["id"] for row in rows), reverse=True)[1:3]

    def _aggregate(self, table: Any, version: Version, where: Where | None, word: str, some: bool) -> None:
        rows = self.expected(version, where, word if some else None)
        text = None if where is None else where.text
        found = table.aggregate(word if some else None, {"ids": {"stats": {"field": "id"}}}, where=text)["ids"]
        assert (found["count"], found["sum"] or 0) == (len(rows), sum(row["id"] for row in rows))

    # What it is

    @rule(which=handles, back=st.integers(0, 4))
    def look(self, which: int, back: int) -> None:
        """Facts about a version, none of which moves a handle."""
        handle = self.handle(which)
        table, version = handle.table, self.seen_by(handle)
        assert table.url.endswith(self.path.name)
        assert table.version == handle.version
        assert table.metadata.name == "life"
        assert table.protocol.minReaderVersion >= 1
        assert table.metadata.configuration.items() >= self.properties.items()
        assert str(table.version) in repr(table.plain)
        assert "life" in table.plain._repr_html_()

        def sizes() -> None:
            assert set(table.sizes()["column"].to_pylist()) >= ({"id", "message"} if version.rows else set())
            assert table.sizes(most_splits=None).num_rows >= table.sizes(most_splits=1).num_rows

        self.expired(handle.version, sizes)
        wanted = max(self.book.newest - back, 0) if back else handle.version
        try:
            told = table.log(wanted) if back else table.log()
        except VersionExpired:
            self.book.cut_short or self.book.is_gone(wanted)
        else:
            info = told.filter(pc.field("action") == "commitInfo")["value"].to_pylist()[0]
            assert table.resolve(token=json.loads(info)["token"], version=wanted) == wanted

    @rule(which=handles, limit=st.sampled_from((None, 1, 3)))
    def history(self, which: int, limit: int | None) -> None:
        table = self.handle(which).table
        if limit is None:
            self.judge_history(table)
            return
        told = table.history(limit=limit)
        assert told.num_rows <= limit
        assert pc.max(told["version"]).as_py() == self.book.newest

    @rule(which=handles, back=st.integers(0, 6), ahead=st.integers(0, 6), net=st.booleans(), by_time=st.booleans())
    def changes(self, which: int, back: int, ahead: int, net: bool, by_time: bool) -> None:
        """What versions changed, applied to the rows below them, gives the rows of the last one."""
        table = self.handle(which).table
        first = max(self.book.newest - back, 0)
        last = min(first + ahead, self.book.newest)
        begin = self.book.versions[first - 1].rows if first else ()
        end = self.book.versions[last]
        known = [version.shape for version in self.book.versions[max(first - 1, 0) : last + 1]]
        names = [name for name in end.shape.names if len({shape.type_of(name) for shape in known} - {None}) == 1]
        asked: dict[str, Any] = {"from_version": first, "to_version": last}
        if by_time and {first, last} <= self.times.keys():
            asked = {"from_time": self.times[first], "to_time": self.times[last]}
        try:
            found = (
                table.changes(**asked, columns=names, where=None, net=net, skip_unchanged=net).read_all().to_pylist()
            )
        except VersionExpired:
            self.book.is_gone(max(first - 1, 0))
            return
        gone, came = (
            as_seen([change for change in found if change["_change_type"] in kinds], names)
            for kinds in (("delete", "update_preimage"), ("insert", "update_postimage"))
        )
        rows = as_seen(begin, names)
        rows.update(came)
        rows.subtract(gone)
        assert +rows == as_seen(end.rows, names)
        assert min(rows.values(), default=0) >= 0, "a row went that was not there"

    @rule(which=handles, module=st.booleans())
    def verify(self, which: int, module: bool) -> None:
        if module:
            report = self.it.verify(str(self.path), options={}, data_files=True, rules=True)
        else:
            report = self.handle(which).table.verify(data_files=True, rules=True)
        assert report.ok, report.findings
        assert report.version == self.book.newest

    @rule(which=handles)
    def state(self, which: int) -> None:
        found = self.handle(which).table.state()
        if found.version is None:
            return
        assert found.version <= self.book.newest
        assert found.num_files is not None
        counted = self.handle(which).table.metrics()
        assert counted["commit"]["attempts"] >= counted["commit"]["count"]
        assert counted["newest checkpoint"]["files"] == found.num_files
        health = self.handle(which).table.health()
        assert (health.version, health.rows) == (self.book.newest, len(self.book.now.rows))

    @rule(fresh=st.booleans(), back=st.integers(0, 3), where=wheres)
    def another_process_reads(self, fresh: bool, back: int, where: Where | None) -> None:
        number = None if back == 0 else max(self.book.newest - back, 0)
        version = self.book.now if number is None else self.book.versions[number]
        if where is not None and not where.fits(version.shape):
            where = None
        text = None if where is None else where.text
        told = self.other.ask(path=str(self.path), fresh=fresh, version=number, where=text, rows=None)
        if told.get("error") == "TableReplaced" and not fresh and number is not None:
            # It held the table that was there before, and did not look for a newer one.
            told = self.other.ask(path=str(self.path), fresh=True, version=number, where=text, rows=None)
        if told.get("error") == "VersionExpired":
            self.book.is_gone(self.book.newest if number is None else number)
            return
        assert "error" not in told, told
        assert told["version"] == (self.book.newest if number is None else number)
        self.same_rows(told["rows"], version, where)
        assert told["count"] == len(told["rows"])
        assert told["word"] == sum(has_word(row, "alpha") for row in version.rows)
