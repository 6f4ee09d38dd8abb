"""The rules that merge rows into a table: upserts, and merges with every clause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.life.book import Row, Shape
from tests.life.reading import Reading
from tests.life.values import drafts, forms, handles


class Merging(Reading):
    """What changes rows by their keys; it runs on the newest version, whatever version a handle shows."""

    @rule(which=handles, drawn=drafts, form=forms, how=st.integers(0, 3))
    def upsert(self, which: int, drawn: list[Row], form: str, how: int) -> None:
        """Rows are replaced by their number, and others come; told once, or only counted."""
        handle = self.handle(which)
        wanted, there = self.book.now.shape, {row["id"] for row in self.book.now.rows}
        rows = self._some_known(drawn, wanted)
        known = self.book.now.txns.get("mpp", -1)
        batch = known + 1 if how != 1 else max(known, 0)
        more: dict[str, Any] = {"txn": ("mpp", batch)} if how in (1, 2) else {}
        if how == 0:
            more = {"expect_version": self.book.newest, "merge_schema": True}
        if how == 3:
            more = {"dry_run": True, "progress": lambda _: None, "user_metadata": "a note"}
        report = handle.table.upsert(self.data(rows, wanted, form), "id" if how else ["id"], **more)
        if how == 1 and known >= batch:
            assert (report.updated, report.inserted) == (0, 0)
            handle.version = handle.table.version
            return
        ids = {row["id"] for row in rows}
        assert (report.updated, report.inserted) == (len(ids & there), len(ids - there))
        if how == 3 or (not rows and "txn" not in more):
            self._made_nothing(report)
            return
        held = [row for row in self.book.now.rows if row["id"] not in ids]
        self.written(handle, report.version, operation="MERGE", rows=[*held, *rows], txn=more.get("txn"))

    @rule(which=handles, drawn=drafts, how=st.integers(0, 3))
    def merge(self, which: int, drawn: list[Row], how: int) -> None:
        """Every clause at once: which takes a row is told by its number."""
        handle = self.handle(which)
        wanted = self.book.now.shape
        rows = self._some_known(drawn, wanted)
        begun = handle.table.merge(
            self.data(rows, wanted, "arrow"), "a.id = b.id", source_alias="b", target_alias="a", merge_schema=how == 0
        )
        begun = (
            begun.when_matched_delete(condition="b.n = 0")
            .when_matched_update(set={"message": "concat(a.message, ' beta')", "n": 5}, condition="a.id % 2 = 0")
            .when_matched_update_all(condition="b.id > 0", except_cols=["p"])
            .when_not_matched_insert(values={"id": "b.id", "message": "'gamma'"}, condition="b.n = 3")
            .when_not_matched_insert_all(condition="b.id >= 0", except_cols=[])
            .when_not_matched_by_source_update(set={"n": 6}, condition="a.n = -1")
            .when_not_matched_by_source_delete(condition="a.n = 5")
        )
        more: dict[str, Any] = {}
        if how == 1:
            more = {"txn": ("npp", self.book.now.txns.get("npp", -1) + 1), "expect_version": self.book.newest}
        if how == 2:
            more = {"dry_run": True, "progress": lambda _: None, "user_metadata": "a note"}
        report = begun.execute(**more)
        held, counts = merged(list(self.book.now.rows), rows, wanted)
        assert (report.updated, report.deleted, report.inserted) == counts
        if how == 2 or (not any(counts) and "txn" not in more):
            self._made_nothing(report)
            return
        self.written(handle, report.version, operation="MERGE", rows=held, txn=more.get("txn"))

    def _some_known(self, drawn: list[Row], wanted: Shape) -> list[dict[str, Any]]:
        """New rows; every second one has the number of a row that is there."""
        return some_known(self.rows(drawn, wanted), self.book.now.rows)

    def _made_nothing(self, report: Any) -> None:
        assert report.version is None
        assert self.disk_versions()[-1] == self.book.newest


def some_known(rows: list[dict[str, Any]], there: Iterable[Row]) -> list[dict[str, Any]]:
    """Every second row with the number of a row that is there."""
    for row, known in zip(rows[::2], there, strict=False):
        row["id"] = known["id"]
    return rows


def merged(target: list[Row], source: list[dict[str, Any]], wanted: Shape) -> tuple[list[Row], tuple[int, int, int]]:
    """What the merge of `Merging.merge` leaves, and how many rows it updates, deletes and inserts."""
    given = {row["id"]: row for row in source}
    held: list[Row] = []
    updated = deleted = 0
    for row in target:
        partner = given.get(row["id"])
        if partner is None:
            deleted += row["n"] == 5
            updated += row["n"] == -1
            held += [] if row["n"] == 5 else [{**row, "n": 6} if row["n"] == -1 else row]
        elif partner["n"] == 0:
            deleted += 1
        elif row["id"] % 2 == 0:
            updated += 1
            held.append({**row, "message": f"{row['message']} beta", "n": 5})
        else:
            updated += 1
            held.append({**partner, "p": row["p"]})
    new = [row for row in source if row["id"] not in {one["id"] for one in target}]
    nothing = dict.fromkeys(wanted.names)
    come = [{**nothing, "id": row["id"], "message": "gamma"} if row["n"] == 3 else row for row in new]
    return [*held, *come], (updated, deleted, len(come))
