"""The rules that write, and those that care for the log: with those that read, a whole life."""

from __future__ import annotations

import shutil
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import indextables
from indextables.errors import NotSupported, SchemaMismatch, VersionExpired
from tests.life.book import WORDS, Row, Shape, Where, as_seen, has_word
from tests.life.machine import LOG, Handle
from tests.life.merging import Merging
from tests.life.values import (
    NO_RETENTION,
    STATES,
    as_time,
    drafts,
    forms,
    handles,
    rows_of,
    shape,
    state_options,
    wheres,
    wheres_by_place,
)

APPS = ("app", "bpp")
NOTES = st.sampled_from((None, "a note"))


class Life(Merging):
    """Everything that can be done to a table."""

    # Rows come

    @rule(which=handles, drawn=drafts, form=forms, note=NOTES)
    def append(self, which: int, drawn: list[Row], form: str, note: str | None) -> None:
        handle = self.handle(which)
        wanted = self.seen_by(handle).shape
        rows = self.rows(drawn, wanted)
        with self._standing(handle, rows=rows) as refused:
            version = handle.table.append(self.data(rows, wanted, form), user_metadata=note)
        if refused:
            return
        if not rows:
            assert version == handle.version
            return
        self.written(handle, version, operation="WRITE", rows=[*self.book.now.rows, *rows])

    @rule(which=handles, drawn=drafts, app=st.sampled_from(APPS), batch=st.integers(0, 3), all_rows=st.booleans())
    def append_once(self, which: int, drawn: list[Row], app: str, batch: int, all_rows: bool) -> None:
        """A batch of an application that the table holds is not written again, whoever asks."""
        handle = self.handle(which)
        wanted = self.seen_by(handle).shape
        rows = self.rows(drawn, wanted)
        known = self.book.now.txns.get(app)
        repeated = known is not None and known >= batch
        before = self.book.newest
        with self._standing(handle, rows=rows, replaces=all_rows, commits=not repeated) as refused:
            if all_rows:
                version = handle.table.overwrite(self.data(rows, wanted, "arrow"), txn=(app, batch))
            else:
                version = handle.table.append(self.data(rows, wanted, "arrow"), txn=(app, batch))
        if refused:
            return
        if repeated:
            assert version <= before
            assert self.disk_versions()[-1] == before
            handle.version = handle.table.version
            return
        held = rows if all_rows else [*self.book.now.rows, *rows]
        self.written(handle, version, operation="WRITE", rows=held, txn=(app, batch))

    @rule(which=handles, drawn=drafts, column=st.sampled_from(("extra", "size", "n")), all_rows=st.booleans())
    def grow(self, which: int, drawn: list[Row], column: str, all_rows: bool) -> None:
        """New columns, and wider numbers, with the rows that bring them."""
        handle = self.handle(which)
        before = self.seen_by(handle).shape
        wanted = before.having(column, {"extra": "string", "size": "double", "n": "long"}[column])
        rows = self.rows(drawn, wanted)
        if column == "n":
            rows = [{**row, "n": None if row["n"] is None else row["n"] + 2**40} for row in rows]
        if wanted != before and not all_rows and rows:
            self._refuses_to_grow(handle, rows, wanted)
        grows = wanted != before
        standing = self._standing(handle, rows=rows, replaces=all_rows, grows=grows)
        with standing as refused:
            verb = handle.table.overwrite if all_rows else handle.table.append
            version = verb(self.data(rows, wanted, "arrow"), merge_schema=True)
        if refused:
            return
        if not rows and wanted == before and not all_rows:
            assert version == handle.version
            return
        held = rows if all_rows else [*self.book.now.rows, *rows]
        self.written(handle, version, operation="WRITE", rows=held, shape=wanted)

    def _refuses_to_grow(self, handle: Handle, rows: list[dict[str, Any]], wanted: Shape) -> None:
        before = self.disk_versions()
        try:
            handle.table.append(self.data(rows, wanted, "arrow"))
        except SchemaMismatch:
            assert self.disk_versions() == before
            return
        # Numbers that are wide by type only fit into the narrow column.
        assert all(row["n"] is None for row in rows), "rows that do not fit were taken"
        self.written(handle, handle.table.version, operation="WRITE", rows=[*self.book.now.rows, *rows])

    # Rows are replaced

    @rule(which=handles, drawn=drafts, form=forms, note=NOTES)
    def overwrite(self, which: int, drawn: list[Row], form: str, note: str | None) -> None:
        handle = self.handle(which)
        wanted = self.seen_by(handle).shape
        rows = self.rows(drawn, wanted)
        with self._standing(handle, rows=rows, replaces=True) as refused:
            version = handle.table.overwrite(self.data(rows, wanted, form), user_metadata=note)
        if not refused:
            self.written(handle, version, operation="WRITE", rows=rows)

    @rule(which=handles, drawn=drafts, where=wheres_by_place)
    def overwrite_where(self, which: int, drawn: list[Row], where: Where) -> None:
        handle = self.handle(which)
        wanted = self.seen_by(handle).shape
        rows = [row for row in self.rows(drawn, wanted) if where.is_true(row)]
        if not wanted.partition_by:
            self._refused(lambda: handle.table.overwrite(rows, where=where.text), NotSupported)
            return
        with self._standing(handle, rows=rows, replaces=True, where=where) as refused:
            version = handle.table.overwrite(self.data(rows, wanted, "arrow"), where=where.text)
        if not refused:
            kept = [row for row in self.book.now.rows if not where.is_true(row)]
            self.written(handle, version, operation="WRITE", rows=[*kept, *rows])

    @rule(which=handles, drawn=drafts)
    def overwrite_dynamic(self, which: int, drawn: list[Row]) -> None:
        handle = self.handle(which)
        wanted = self.seen_by(handle).shape
        rows = self.rows(drawn, wanted)
        places = {row["p"] for row in rows}
        inside = Where("", frozenset(), lambda row: not wanted.partition_by or row["p"] in places)
        with self._standing(handle, rows=rows, replaces=True, where=inside) as refused:
            version = handle.table.overwrite(self.data(rows, wanted, "arrow"), partitions="dynamic")
        if not refused:
            kept = [row for row in self.book.now.rows if not inside.is_true(row)]
            self.written(handle, version, operation="WRITE", rows=[*kept, *rows])

    @rule(which=handles, drawn=drafts, narrow=st.booleans(), partitioned=st.booleans())
    def overwrite_schema(self, which: int, drawn: list[Row], narrow: bool, partitioned: bool) -> None:
        handle = self.handle(which)
        wanted = shape(partitioned=partitioned, narrow=narrow)
        rows = self.rows(drawn, wanted)
        with self._standing(handle, rows=rows, replaces=True, new_shape=True) as refused:
            version = handle.table.overwrite(
                self.data(rows, wanted, "arrow"), overwrite_schema=True, partition_by=list(wanted.partition_by)
            )
        if not refused:
            self.written(handle, version, operation="WRITE", rows=rows, shape=wanted)

    @rule(which=handles, where=wheres_by_place, dry=st.booleans())
    def drop_partitions(self, which: int, where: Where, dry: bool) -> None:
        handle = self.handle(which)
        if not self.book.now.shape.partition_by:
            self._refused(lambda: handle.table.drop_partitions(where.text), NotSupported)
            return
        gone = [row for row in self.book.now.rows if where.is_true(row)]
        with self._standing(handle, rows=[], replaces=True, where=where, commits=not dry and bool(gone)) as refused:
            report = handle.table.drop_partitions(where.text, dry_run=dry)
        if refused:
            return
        assert report.rows == len(gone)
        if dry or not report.dropped:
            assert not gone or dry
            handle.version = handle.table.version
            assert self.disk_versions()[-1] == self.book.newest
            return
        kept = [row for row in self.book.now.rows if not where.is_true(row)]
        self.written(handle, report.version, operation="DROP PARTITIONS", rows=kept)

    @rule(which=handles, where=wheres, word=st.one_of(st.none(), st.sampled_from(WORDS)), dry=st.booleans(), note=NOTES)
    def delete(self, which: int, where: Where | None, word: str | None, dry: bool, note: str | None) -> None:
        """Rows of the newest version go, whatever version the handle shows."""
        handle = self.handle(which)
        where, kept, gone = self._chosen(where, word)
        report = handle.table.delete(
            None if where is None else where.text,
            search=word,
            dry_run=dry,
            user_metadata=note,
            progress=lambda _: None,
        )
        assert report.deleted == len(gone)
        if dry or not gone:
            assert report.version is None
            assert self.disk_versions()[-1] == self.book.newest
            return
        self.written(handle, report.version, operation="DELETE", rows=kept)

    @rule(which=handles, where=wheres, app=st.sampled_from(APPS), batch=st.integers(0, 3))
    def delete_once(self, which: int, where: Where | None, app: str, batch: int) -> None:
        """A batch that the table holds is not done again; one that finds nothing is remembered."""
        handle = self.handle(which)
        where, kept, gone = self._chosen(where, None)
        known = self.book.now.txns.get(app)
        report = handle.table.delete(None if where is None else where.text, txn=(app, batch))
        if known is not None and known >= batch:
            assert report.deleted == 0
            assert self.disk_versions()[-1] == self.book.newest
            handle.version = handle.table.version
            return
        assert report.deleted == len(gone)
        self.written(handle, report.version, operation="DELETE", rows=kept, txn=(app, batch))

    @rule(which=handles, where=wheres)
    def delete_as_read(self, which: int, where: Where | None) -> None:
        """What was decided by reading the version of the handle is refused where others changed these rows since."""
        handle = self.handle(which)
        seen = self.seen_by(handle)
        where = where if where is not None and where.fits(seen.shape) else None
        inside = (lambda _: True) if where is None else where.is_true
        gone = [row for row in seen.rows if inside(row)]
        same_shape = not self.book.changed_shape_since(handle.version)
        changed = same_shape and self.book.changed_rows_since(handle.version, inside)
        read = handle.version
        concerned = bool(gone) or any(inside(row) for row in self.book.now.rows)
        with self.maybe_refused(handle, may=changed or not same_shape, must=changed and concerned) as refused:
            report = handle.table.delete(None if where is None else where.text, expect_version=read)
        if refused or report.version is None:
            return
        assert report.deleted == len(gone)
        kept = [row for row in self.book.now.rows if not inside(row)]
        self.written(handle, report.version, operation="DELETE", rows=kept)

    @rule(which=handles, where=wheres, word=st.one_of(st.none(), st.sampled_from(WORDS)), how=st.integers(0, 3))
    def update(self, which: int, where: Where | None, word: str | None, how: int) -> None:
        """Rows get other values, are told once, or are only counted."""
        handle = self.handle(which)
        where, _, chosen = self._chosen(where, word)
        known = self.book.now.txns.get("upp", -1)
        batch = known + 1 if how != 1 else max(known, 0)
        more: dict[str, Any] = {"txn": ("upp", batch)} if how in (1, 2) else {}
        if how == 3:
            more = {"dry_run": True, "progress": lambda _: None, "user_metadata": "a note"}
        report = handle.table.update(
            {"n": 1, "message": "concat(message, ' delta')"},
            None if where is None else where.text,
            search=word,
            expect_version=self.book.newest if how == 0 else None,
            **more,
        )
        if how == 1 and known >= batch:
            assert report.updated == 0
            handle.version = handle.table.version
            return
        assert report.updated == len(chosen)
        if how == 3 or (not chosen and not more):
            assert report.version is None
            assert self.disk_versions()[-1] == self.book.newest
            return
        ids = {row["id"] for row in chosen}
        rows = [{**r, "n": 1, "message": f"{r['message']} delta"} if r["id"] in ids else r for r in self.book.now.rows]
        txn = ("upp", batch) if how in (1, 2) else None
        self.written(handle, report.version, operation="UPDATE", rows=rows, txn=txn)

    def _chosen(self, where: Where | None, word: str | None) -> tuple[Where | None, list[Row], list[Row]]:
        """A predicate that fits the newest version, the rows that it leaves there, and those that it takes."""
        where = where if where is not None and where.fits(self.book.now.shape) else None
        rows = self.book.now.rows
        gone = [r for r in rows if (where is None or where.is_true(r)) and (word is None or has_word(r, word))]
        kept = [r for r in rows if not ((where is None or where.is_true(r)) and (word is None or has_word(r, word)))]
        return where, kept, gone

    @rule(which=handles, back=st.integers(1, 6), by_time=st.booleans(), form=st.integers(0, 2))
    def restore(self, which: int, back: int, by_time: bool, form: int) -> None:
        handle, version = self.handle(which), max(self.book.newest - back, 0)
        then, before = self.book.versions[version], self.book.newest
        by_time = by_time and version in self.times
        try:
            if by_time:
                report = handle.table.restore(timestamp=as_time(self.times[version], form), progress=lambda _: None)
            else:
                report = handle.table.restore(version)
        except VersionExpired:
            self.book.is_gone(version)
            return
        assert report.restored == version
        if report.version == before:
            self.same_rows(list(self.book.now.rows), then)
            self.moved(handle, before)
            return
        self.written(handle, report.version, operation="RESTORE", rows=then.rows, shape=then.shape, schema=then.schema)

    # Rows stay

    @rule(which=handles, where=st.one_of(st.none(), wheres_by_place), dry=st.booleans(), order=st.integers(0, 3))
    def merge_splits(self, which: int, where: Where | None, dry: bool, order: int) -> None:
        handle = self.handle(which)
        if where is not None and not self.book.now.shape.partition_by:
            where = None
        more: dict[str, Any] = {"cluster_by": ["n", "id"], "curve": "hilbert"} if order == 1 else {}
        if order == 2:
            more = {"max_source_splits_per_merge": 2, "max_dest_splits": 1, "target_size": 1 << 30}
        text = None if where is None else where.text
        report = handle.table.merge_splits(text, dry_run=dry, progress=lambda _: None, **more)
        assert not report.failed
        assert not report.skipped
        self._same_rows_in_new_files(handle, [] if dry else report.versions, "MERGE SPLITS")

    @rule(which=handles, where=wheres, force=st.booleans())
    def reindex(self, which: int, where: Where | None, force: bool) -> None:
        handle = self.handle(which)
        if where is not None and not where.fits(self.book.now.shape):
            where = None
        report = handle.table.reindex(None if where is None else where.text, force=force, progress=lambda _: None)
        assert not report.failed
        self._same_rows_in_new_files(handle, report.versions, "REINDEX")

    def _same_rows_in_new_files(self, handle: Handle, versions: list[int], operation: str) -> None:
        for _ in versions:
            self.book.commit(operation)
        if versions:
            assert versions[-1] == self.book.newest
        handle.version = handle.table.version
        assert handle.version <= self.book.newest
        self.caught_up()

    @rule(which=handles, where=wheres)
    def prewarm(self, which: int, where: Where | None) -> None:
        if where is not None and not where.fits(self.book.now.shape):
            where = None
        text = None if where is None else where.text
        self.handle(which).table.prewarm(text, columns=["message"], progress=lambda _: None)

    @rule(which=handles, stop=st.booleans())
    def mirror(self, which: int, stop: bool) -> None:
        """A Delta table beside the log: readers of Delta see the rows of the newest version, where they can."""
        handle, before, versions = self.handle(which), self.book.newest, self.disk_versions()
        try:
            report = handle.table.mirror(stop=stop, progress=lambda _: None)
        except NotSupported:
            assert self.disk_versions() == versions
            return
        if report.version == before:
            self.moved(handle, before)
        else:
            self.written(handle, report.version, operation="MIRROR")
        if not stop:
            self._mirrored(handle)
            # An empty partition value would stop the mirror, and a mirror that has stopped holds up cleanup.
            self.written(handle, handle.table.mirror(stop=True).version, operation="MIRROR")

    def _mirrored(self, handle: Handle) -> None:
        """delta-rs shows the rows of the newest version, or says that it knows no widened columns."""
        widened = "typeWidening" in (handle.table.protocol.readerFeatures or [])
        try:
            shown = QueryBuilder().register("t", DeltaTable(self.path)).execute("SELECT * FROM t")
        except DeltaError as error:
            if not widened or "TypeWidening" not in str(error):
                raise
        else:
            self.same_rows(pa.table(shown).select(list(self.book.now.shape.names)), self.book.now)

    @rule(which=handles)
    def flush_caches(self, which: int) -> None:
        self.handle(which).table.flush_caches()

    @rule(which=handles)
    def skips(self, which: int) -> None:
        table = self.handle(which).table
        assert table.skips().num_rows == 0
        assert table.clear_skips() == 0
        assert table.skip([], reason="none", hours=1) is None
        self._refused(lambda: table.skip(paths=["nothing"], reason="no"), indextables.errors.InvalidArgument)
        self._refused(lambda: table.clear_skips(paths=["nothing"]), indextables.errors.InvalidArgument)

    # The log

    @rule(which=handles, state=st.one_of(st.none(), st.sampled_from(STATES)), anew=st.booleans())
    def checkpoint(self, which: int, state: str | None, anew: bool) -> None:
        """In the table's own format, or in another one, so that logs hold several."""
        table = self.handle(which).table
        if state is not None:
            table = self.it.open(str(self.path), options=state_options(state))
        assert (table.compact() if anew else table.checkpoint()) == self.book.newest
        self.caught_up()

    @rule(which=handles, dry=st.booleans(), at_once=st.booleans())
    def clean_up(self, which: int, dry: bool, at_once: bool) -> None:
        table = self.handle(which).table
        if at_once:
            table = self.it.open(str(self.path), options=NO_RETENTION)
        before = self.disk_versions()
        if at_once and not dry:
            self.may_go()
        report = table.clean_up(dry_run=dry)
        assert not report.failed
        if dry:
            assert self.disk_versions() == before
        elif report.cut is not None:
            self.book.kept_from = min(self.book.kept_from, max(report.cut, self.book.gone_below))
        self.caught_up()

    @rule(which=handles, at_once=st.booleans(), dry=st.booleans())
    def purge(self, which: int, at_once: bool, dry: bool) -> None:
        before = self.disk_versions()
        more: dict[str, Any] = {"older_than_hours": 0, "tx_log_retention_hours": 0, "force": True} if at_once else {}
        if at_once and not dry:
            self.may_go()
        report = self.handle(which).table.purge(dry_run=dry, progress=lambda _: None, **more)
        assert not report.failed
        if dry:
            assert self.disk_versions() == before
        self.caught_up()

    @rule(which=handles, dry=st.booleans())
    def truncate(self, which: int, dry: bool) -> None:
        handle, before = self.handle(which), self.disk_versions()
        report = handle.table.truncate_time_travel(dry_run=dry, progress=lambda _: None)
        assert not report.failed
        if dry:
            assert self.disk_versions() == before
            return
        if report.version > self.book.newest:
            self.book.commit("TRUNCATE TIME TRAVEL")
        assert report.version == self.book.newest
        self.may_go()
        if not self.held:
            assert report.oldest == self.book.newest, report.reason
            self.book.gone_below = self.book.newest
        self.moved(handle, report.version)
        self.caught_up()

    @precondition(lambda self: len(self.held) < 2)
    @rule(which=handles)
    def protect(self, which: int) -> None:
        handle = self.handle(which)
        try:
            self.held.append((handle.table.protect(hours=1.0), handle.version))
        except VersionExpired:
            self.book.is_gone(handle.version)
        else:
            self.book.kept_from = min(self.book.kept_from, handle.version)

    @precondition(lambda self: self.held)
    @rule()
    def let_go(self) -> None:
        protection, _ = self.held.pop(0)
        protection.release()

    @rule()
    def recreate_pointer(self) -> None:
        found = self.it.recreate_pointer(str(self.path), options={})
        assert found is None or found <= self.book.newest

    # Copies

    @rule(rebuilt=st.booleans(), in_place=st.booleans())
    def repair(self, rebuilt: bool, in_place: bool) -> None:
        """A copy of the newest version's files, with a log made from the old one or from the files alone."""
        now = self.book.now
        copy, log = self.folder / uuid.uuid4().hex, self.folder / uuid.uuid4().hex
        copy.mkdir()
        files = indextables.open(str(self.path)).files()
        for path in files["path"].to_pylist():
            from urllib.parse import unquote

            target = copy / unquote(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.path / unquote(path), target)
        try:
            if rebuilt and not files.num_rows:
                return
            if rebuilt:
                place = None if in_place else str(log)
                try:
                    self.it.rebuild(str(copy), at=place, options={}, with_old_rows=False)
                except NotSupported:
                    # Rows were updated or moved: the files alone do not tell which are older images.
                    self.it.rebuild(str(copy), at=place, options={}, with_old_rows=True)
            else:
                self.it.repair(str(self.path), at=str(log), options={})
            if not (rebuilt and in_place):
                (log / LOG).rename(copy / LOG)
            table = indextables.open(str(copy))
            if rebuilt and files["deletionVector"].null_count < files.num_rows:
                # Which rows were deleted stood in the log alone.
                found = as_seen(table.to_arrow().to_pylist(), now.shape.names)
                assert found >= as_seen(now.rows, now.shape.names)
                assert found.total() == sum(files["numRecords"].to_pylist())
                return
            self.same_rows(table.to_arrow(), now)
            assert table.count() == len(now.rows)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.rmtree(log, ignore_errors=True)

    @rule(whole=st.booleans())
    def convert(self, whole: bool) -> None:
        """The rows as Parquet files of nobody's table become a table, at once or in two goes."""
        now = self.book.now
        files, made = self.folder / uuid.uuid4().hex, self.folder / uuid.uuid4().hex
        files.mkdir()
        rows = indextables.open(str(self.path)).to_arrow()
        first = rows.num_rows if whole else rows.num_rows // 2
        how: dict[str, Any] = {"options": {}, "source_options": {}, "progress": lambda _: None}
        anew = {"name": "t", "description": "a copy", "properties": {"checkpoint.interval": "5"}, "version": 0}
        try:
            pq.write_table(rows.slice(0, first), files / "a.parquet")
            indexing = {"message": "text"} if "message" in rows.column_names else {}
            by = list(now.shape.partition_by)
            self.it.convert(str(files), str(made), system="parquet", partition_by=by, indexing=indexing, **anew, **how)
            if not whole:
                pq.write_table(rows.slice(first), files / "b.parquet")
                assert self.it.convert(str(files), str(made), **how).rows == rows.num_rows - first
            assert self.it.convert(str(files), str(made), **how).files == 0
            table = indextables.open(str(made))
            self.same_rows(table.to_arrow(), now)
            assert table.count() == len(now.rows)
        finally:
            shutil.rmtree(files, ignore_errors=True)
            shutil.rmtree(made, ignore_errors=True)

    @rule(fresh=st.booleans(), drawn=drafts)
    def another_process_appends(self, fresh: bool, drawn: list[Row]) -> None:
        """Its handle may be stale, too: it is opened anew so that the schema fits."""
        del fresh
        rows = rows_of(drawn, self.next_id, self.book.now.shape.names)
        self.next_id += len(rows)
        if not rows:
            return
        told = self.other.ask(path=str(self.path), fresh=True, version=None, where=None, rows=rows)
        assert "error" not in told, told
        self.book.commit("WRITE", rows=[*self.book.now.rows, *rows])
        assert told["version"] == self.book.newest
        self.caught_up()

    # Another table

    @rule(which=handles, narrow=st.booleans(), partitioned=st.booleans(), drawn=drafts)
    def dropped_and_made_anew(self, which: int, narrow: bool, partitioned: bool, drawn: list[Row]) -> None:
        """The folder is deleted and another table is made there: who holds the old one writes nothing into it."""
        old = self.handle(which)
        wanted = self.seen_by(old).shape
        rows = self.rows(drawn, wanted)
        shutil.rmtree(self.path)
        self.held, self.handles, self.times = [], [], {}
        self.begin(partitioned=partitioned, narrow=narrow)
        if rows:
            self._refused(lambda: old.table.append(self.data(rows, wanted, "arrow")), indextables.IndexTablesError)
            self._refused(lambda: old.table.overwrite(self.data(rows, wanted, "arrow")), indextables.IndexTablesError)
        old.table.refresh()
        self.moved(self.keep(old.table, {}), self.book.newest)

    # Refusals

    def _standing(
        self,
        handle: Handle,
        *,
        rows: list[dict[str, Any]],
        replaces: bool = False,
        where: Where | None = None,
        new_shape: bool = False,
        grows: bool = False,
        commits: bool = True,
    ):
        """What a write of these rows stands on: the schema that the handle saw, and the rows where it must."""
        seen = self.book.versions[handle.version]
        inside = (lambda _: True) if where is None else where.is_true
        may = self.book.changed_shape_since(handle.version)
        must = bool(rows) and seen.shape != self.book.now.shape and not new_shape
        if replaces and self.properties.get("isolationLevel") == "Serializable":
            may = may or self.book.changed_properties_since(handle.version)
            may = may or self.book.changed_rows_since(handle.version, lambda _: True)
            must = must or self.book.changed_rows_since(handle.version, inside)
        elif replaces and (new_shape or grows):
            may = may or self.book.changed_properties_since(handle.version)
            may = may or self.book.changed_rows_since(handle.version, lambda _: True)
        return self.maybe_refused(handle, may=may, must=must and commits)

    def _refused(self, call: Any, error: type[Exception]) -> None:
        before = self.disk_versions()
        try:
            call()
        except error:
            assert self.disk_versions() == before
        else:
            raise AssertionError(f"{error.__name__} was to be raised")
