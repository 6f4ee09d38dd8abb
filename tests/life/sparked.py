"""A smaller life, through `enable` in a session of Spark, beside handles of the same process that do without."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

import indextables
from tests.life.book import Row, Where, has_word
from tests.life.machine import World
from tests.life.told import Told
from tests.life.values import NO_RETENTION, drafts, schema_of, wheres, wheres_by_place, words


class Sparked(World):
    """Statements and DataFrames over one table, and embedded reads and writes between them."""

    session: ClassVar[Any]

    @property
    def name(self) -> str:
        return f"indextables.`{self.path}`"

    @property
    def table(self) -> Any:
        """The handle of Spark."""
        index_table = self.it.IndexTable
        return Told(index_table.forPath(self.session, str(self.path)), "IndexTable", self.used)

    def frame(self, rows: list[dict[str, Any]]) -> Any:
        import pyarrow as pa

        return self.session.createDataFrame(pa.Table.from_pylist(rows, schema=schema_of(self.book.now.shape)))

    def answer(self, frame: Any) -> list[dict[str, Any]]:
        return [row.asDict() for row in frame.collect()]

    # Write

    @rule(drawn=drafts, where=wheres_by_place, how=st.sampled_from(("append", "overwrite", "where", "dynamic")))
    def write(self, drawn: list[Row], where: Where, how: str) -> None:
        rows = self.rows(drawn, self.book.now.shape)
        now = list(self.book.now.rows)
        partitioned = bool(self.book.now.shape.partition_by)
        if not rows or (how == "where" and not partitioned):
            return
        mode, more, kept = "overwrite", {}, []
        if how == "append":
            mode, kept = "append", now
        elif how == "where":
            rows = [row for row in rows if where.is_true(row)]
            more, kept = {"replaceWhere": where.text}, [row for row in now if not where.is_true(row)]
        elif how == "dynamic" and partitioned:
            more, places = {"partitionOverwriteMode": "dynamic"}, {row["p"] for row in rows}
            kept = [row for row in now if row["p"] not in places]
        self.it.write(self.frame(rows), str(self.path), mode, **more)
        self.book.commit("WRITE", rows=[*kept, *rows])
        self.caught_up()

    @rule(drawn=drafts, all_rows=st.booleans())
    def embedded_write(self, drawn: list[Row], all_rows: bool) -> None:
        rows = self.rows(drawn, self.book.now.shape)
        if not rows:
            return
        handle = indextables.open(str(self.path))
        version = handle.overwrite(rows) if all_rows else handle.append(rows)
        self.book.commit("WRITE", rows=rows if all_rows else [*self.book.now.rows, *rows])
        assert version == self.book.newest
        self.caught_up()

    @rule(drawn=drafts)
    def insert(self, drawn: list[Row]) -> None:
        rows = self.rows(drawn, self.book.now.shape)
        if not rows:
            return
        self.frame(rows).createOrReplaceTempView("life_rows")
        self.session.sql(f"INSERT INTO {self.name} SELECT * FROM life_rows").collect()
        self.book.commit("WRITE", rows=[*self.book.now.rows, *rows])
        self.caught_up()

    @rule(where=wheres, word=st.one_of(st.none(), words), updates=st.booleans())
    def change(self, where: Where | None, word: str | None, updates: bool) -> None:
        """Rows go or get other values, as a handle of Spark is told."""
        where = where if where is not None and where.fits(self.book.now.shape) else None
        text = None if where is None else where.text

        def is_meant(row: Row) -> bool:
            return (where is None or where.is_true(row)) and (word is None or has_word(row, word))

        now = list(self.book.now.rows)
        meant = sum(map(is_meant, now))
        if updates:
            made = {"n": 1, "message": "concat(message, ' delta')"}
            told = self.answer(self.table.update(text, made, search=word))[0]
            assert told["num_updated_rows"] == meant
            rows = [{**row, "n": 1, "message": f"{row['message']} delta"} if is_meant(row) else row for row in now]
        else:
            told = self.answer(self.table.delete(text, search=word))[0]
            assert told["num_deleted_rows"] == meant
            rows = [row for row in now if not is_meant(row)]
        if meant:
            self.book.commit("UPDATE" if updates else "DELETE", rows=rows)
        assert told["version"] == (self.book.newest if meant else None)
        self.caught_up()

    @rule(drawn=drafts, how=st.sampled_from(("upsert", "merge", "sql")))
    def merge(self, drawn: list[Row], how: str) -> None:
        """Rows are replaced by their number, and others come: every second one has the number of one that is there."""
        rows = self.rows(drawn, self.book.now.shape)
        now = list(self.book.now.rows)
        for row, known in zip(rows[::2], now, strict=False):
            row["id"] = known["id"]
        frame = self.frame(rows)
        if how == "upsert":
            told = self.answer(self.table.upsert(frame, "id"))[0]
        elif how == "merge":
            begun = Told(self.table.alias("t"), "IndexTable", self.used).merge(frame.alias("s"), "s.id = t.id")
            told = self.answer(begun.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute())[0]
        else:
            frame.createOrReplaceTempView("life_rows")
            text = (
                f"MERGE INTO {self.name} AS t USING life_rows AS s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            told = self.answer(self.session.sql(text))[0]
        there, ids = {row["id"] for row in now}, {row["id"] for row in rows}
        assert (told["num_updated_rows"], told["num_inserted_rows"]) == (len(ids & there), len(ids - there))
        if rows:
            self.book.commit("MERGE", rows=[*(row for row in now if row["id"] not in ids), *rows])
        assert told["version"] == (self.book.newest if rows else None)
        self.caught_up()

    @rule(where=wheres_by_place)
    def drop_partitions(self, where: Where) -> None:
        if not self.book.now.shape.partition_by:
            return
        gone = [row for row in self.book.now.rows if where.is_true(row)]
        self.session.sql(f"DROP INDEXTABLES PARTITIONS FROM {self.name} WHERE {where.text}").collect()
        if gone:
            self.book.commit("DROP PARTITIONS", rows=[row for row in self.book.now.rows if not where.is_true(row)])
        self.caught_up()

    @rule(statement=st.sampled_from(("MERGE SPLITS {}", "CHECKPOINT INDEXTABLE {}", "COMPACT INDEXTABLE {}")))
    def care(self, statement: str) -> None:
        self.session.sql(statement.format(self.name)).collect()
        self.caught_up()

    @rule()
    def clean_up(self) -> None:
        indextables.open(str(self.path), options=NO_RETENTION).clean_up()
        self.may_go()
        self.caught_up()

    # Read

    @rule(where=wheres, word=words, searched=st.booleans(), forget=st.booleans())
    def select(self, where: Where | None, word: str, searched: bool, forget: bool) -> None:
        """A statement with a filter, and then all rows, by Spark and by a handle that was just opened."""
        if forget:
            indextables.invalidate_caches()
        condition = f"({where.text})" if where is not None and where.fits(self.book.now.shape) else "true"
        if searched:
            condition += f" AND TEXTSEARCH(message, '{word}')"
        found = self.answer(self.session.sql(f"SELECT * FROM {self.name} WHERE {condition}"))

        def is_asked_for(row: Row) -> bool:
            fits = where is None or not where.fits(self.book.now.shape) or where.is_true(row)
            return fits and (not searched or has_word(row, word))

        self.same_rows(found, self.book.now, Where("", frozenset(), is_asked_for))
        assert self.answer(self.session.sql(f"SELECT count(*) AS n FROM {self.name}")) == [
            {"n": len(self.book.now.rows)}
        ]
        self.judge_version(indextables.open(str(self.path)), self.book.newest)

    @rule(back=st.integers(0, 3), where=wheres)
    def travel(self, back: int, where: Where | None) -> None:
        number = max(self.book.newest - back, 0)
        version = self.book.versions[number]
        text = where.text if where is not None and where.fits(version.shape) else None

        def look() -> None:
            found = self.answer(self.table.toDF(where=text, versionAsOf=number))
            self.same_rows(found, version, where if text else None)
            told = self.session.sql(f"SELECT id FROM {self.name} VERSION AS OF {number}")
            assert sorted(row.id for row in told.collect()) == sorted(row["id"] for row in version.rows)

        self.expired(number, look)
