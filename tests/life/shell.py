"""The same life through the command line, in one process: every command and every flag of it."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import indextables
from indextables.cli import main
from tests.life.book import Book, Row, Version, Where, as_seen, has_word
from tests.life.machine import World
from tests.life.merging import merged, some_known
from tests.life.values import (
    NO_RETENTION,
    STATES,
    as_time,
    drafts,
    mostly,
    properties,
    schema_of,
    shape,
    state_options,
    wheres,
    wheres_by_place,
    words,
)

DONE, WRONG, NO_VERSION = 0, 2, 3


def _where_text(where: Where | None, word: str | None) -> str:
    """A WHERE of SQL, with a search that stands beside AND."""
    terms = [f"({where.text})"] if where is not None else []
    terms += [f"TEXTSEARCH(x.message, '{word}')"] if word is not None else []
    return f" WHERE {' AND '.join(terms)}" if terms else ""


def _where_flags(where: Where | None, word: str | None) -> list[str]:
    return [*([] if where is None else ["--where", where.text]), *([] if word is None else ["--search", word])]


BACK = st.integers(0, 5)


class Shell(World):
    """Nothing is kept open: each command opens the table, and the caches of the process are what is left of it."""

    @initialize(
        partitioned=mostly,
        narrow=st.booleans(),
        given=properties(),
        how=st.sampled_from(("--schema", "--like", "ingest")),
        drawn=drafts,
    )
    def born(self, partitioned: bool, narrow: bool, given: dict[str, str], how: str, drawn: list[Row]) -> None:
        self.properties = given
        first = shape(partitioned=partitioned, narrow=narrow)
        self.book = Book(first)
        flags: list[str] = ["--text", "message", "--fast", "n", "--index", "p=string"]
        if partitioned:
            flags += ["--partition-by", "p"]
        for key, value in given.items():
            flags += ["--property", f"{key}={value}"]
        rows = self.rows(drawn, first) if how == "ingest" else []
        file = self.file(rows, "parquet")
        if how == "ingest":
            self.run("ingest", self.path, file, *flags)
        else:
            columns = ", ".join(f"{name} {kind}" for name, kind in first.columns)
            told = self.run("create", self.path, how, columns if how == "--schema" else file, *flags)
            assert "version 0" in told[1]
        if rows:
            self.book.commit("WRITE", rows=rows)
        self.caught_up()

    # How it is run

    def run(self, command: str, *arguments: Any, code: int = DONE) -> tuple[int, str]:
        """Exit code and output, which must be this code, or that of a version which is gone."""
        words_given = [command, *map(str, arguments), "--option", "storage.fsync=false"]
        self.used.update((command, word) for word in ("", *words_given))
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        err = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = main(words_given)
            sys.stdout.flush()
        text = out.buffer.getvalue().decode()
        assert found in {code, NO_VERSION}, f"{words_given} ended with {found}: {err.getvalue()}{text}"
        return found, text

    def lines(self, command: str, *arguments: Any) -> list[Any] | None:
        """The rows that a command prints, None if the version is gone."""
        code, text = self.run(command, *arguments, "--json")
        return None if code == NO_VERSION else [json.loads(line) for line in text.splitlines()]

    def file(self, rows: list[dict[str, Any]], kind: str) -> str:
        path = self.path.parent / f"{uuid.uuid4().hex}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows, schema=schema_of(self.book.now.shape)), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def then(self, back: int, by_time: bool) -> tuple[list[str], Version, int]:
        """Flags for a version, and what it holds."""
        number = max(self.book.newest - back, 0)
        if by_time and number in self.times:
            return ["--timestamp", as_time(self.times[number], 2)], self.book.versions[number], number
        return ["--version", str(number)], self.book.versions[number], number

    def forgets(self, forget: bool) -> None:
        if forget:
            indextables.invalidate_caches()

    # Write

    @rule(drawn=drafts, kind=st.sampled_from(("jsonl", "parquet")), once=st.booleans(), forget=st.booleans())
    def ingest(self, drawn: list[Row], kind: str, once: bool, forget: bool) -> None:
        self.forgets(forget)
        rows = self.rows(drawn, self.book.now.shape)
        if not rows:
            return
        file = self.file(rows, kind)
        flags = ["--once"] if once else ["--quiet", "--format", kind]
        if forget and kind == "jsonl":
            # The same rows as lines of text, once and again.
            once, flags = True, ["--follow", "--until-idle", "0", "--pattern", "json", "--bad-lines", f"{file}.bad"]
        elif once and kind == "jsonl":
            columns = ", ".join(f"{name} {kind}" for name, kind in self.book.now.shape.columns)
            flags += ["--merge-schema", "--schema", columns]
        for _ in range(1 + once):
            self.run("ingest", self.path, file, *flags)
        self.book.commit("WRITE", rows=[*self.book.now.rows, *rows])
        self.caught_up()

    @rule(where=wheres, word=st.one_of(st.none(), words), how=st.integers(0, 3), as_sql=st.booleans())
    def delete(self, where: Where | None, word: str | None, how: int, as_sql: bool) -> None:
        where = where if where is not None and where.fits(self.book.now.shape) else None
        gone = self._selected(where, word)
        if as_sql:
            self.run("sql", self.path, f"DELETE FROM t AS x{_where_text(where, word)}", "--yes")
        else:
            self._change("delete", *_where_flags(where, word), "--yes", *self._terms(how))
        left = [row for row in self.book.now.rows if row not in gone]
        self._changed("DELETE", gone, left, dry=not as_sql and how == 3)

    @rule(where=wheres, word=st.one_of(st.none(), words), how=st.integers(0, 3), as_sql=st.booleans())
    def update(self, where: Where | None, word: str | None, how: int, as_sql: bool) -> None:
        where = where if where is not None and where.fits(self.book.now.shape) else None
        chosen = self._selected(where, word)
        if as_sql:
            values = "message = concat(x.message, ' beta'), n = 5"
            self.run("sql", self.path, f"UPDATE t AS x SET {values}{_where_text(where, word)}")
        else:
            values_given = ["--set", "message = concat(message, ' beta')", "--set", "n=5"]
            self._change("update", *values_given, *_where_flags(where, word), *self._terms(how))
        rows = [
            {**row, "message": row["message"] and f"{row['message']} beta", "n": 5} if row in chosen else row
            for row in self.book.now.rows
        ]
        self._changed("UPDATE", chosen, rows, dry=not as_sql and how == 3)

    @rule(drawn=drafts, kind=st.sampled_from(("jsonl", "parquet")), how=st.integers(0, 3))
    def upsert(self, drawn: list[Row], kind: str, how: int) -> None:
        rows = some_known(self.rows(drawn, self.book.now.shape), self.book.now.rows)
        if not rows:
            return
        more = ["--merge-schema", "--format", kind] if how == 1 else []
        self._change("upsert", self.file(rows, kind), "--on", "id", *more, *self._terms(how))
        ids = {row["id"] for row in rows}
        held = [row for row in self.book.now.rows if row["id"] not in ids]
        self._changed("MERGE", rows, [*held, *rows], dry=how == 3)

    @rule(drawn=drafts)
    def merge_rows(self, drawn: list[Row]) -> None:
        """Every clause at once, in SQL; the source is a folder of Parquet files."""
        wanted = self.book.now.shape
        rows = some_known(self.rows(drawn, wanted), self.book.now.rows)
        folder = self.path.parent / uuid.uuid4().hex
        folder.mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema_of(wanted)), folder / "rows.parquet")
        clauses = (
            "WHEN MATCHED AND b.n = 0 THEN DELETE "
            "WHEN MATCHED AND a.id % 2 = 0 THEN UPDATE SET message = concat(a.message, ' beta'), n = 5 "
            "WHEN NOT MATCHED BY SOURCE AND a.n = -1 THEN UPDATE SET n = 6 "
            "WHEN NOT MATCHED BY SOURCE AND a.n = 5 THEN DELETE "
            "WHEN NOT MATCHED AND b.n = 3 THEN INSERT (id, message) VALUES (b.id, 'gamma') "
            "WHEN MATCHED THEN UPDATE SET * EXCEPT (p) WHEN NOT MATCHED THEN INSERT *"
        )
        statement = f"MERGE INTO t AS a USING o AS b ON a.id = b.id {clauses}"
        plan = self.lines("sql", self.path, f"EXPLAIN {statement}", "--with", f"o={folder}") or []
        assert "when matched and b.n = 0: delete" in plan[0]["plan"]
        told = self.lines("sql", self.path, statement, "--with", f"o={folder}") or []
        held, counts = merged(list(self.book.now.rows), rows, wanted)
        assert [told[0][f"num_{what}_rows"] for what in ("updated", "deleted", "inserted")] == list(counts)
        self._changed("MERGE", [one for one in counts if one], held)

    def _selected(self, where: Where | None, word: str | None) -> list[Row]:
        rows = [row for row in self.book.now.rows if where is None or where.is_true(row)]
        return [row for row in rows if word is None or has_word(row, word)]

    def _terms(self, how: int) -> list[str]:
        """Flags of a change: once, as read, or only told."""
        if how == 1:
            return ["--txn", f"shell:{self.book.now.txns.get('shell', -1) + 1}", "--user-metadata", "a note"]
        return [[], [], ["--expect-version", str(self.book.newest), "--quiet"], ["--dry-run"]][how]

    def _change(self, command: str, *arguments: Any) -> None:
        told = self.lines(command, self.path, *arguments)
        assert told is not None
        if "--txn" in arguments:
            name, _, batch = str(arguments[arguments.index("--txn") + 1]).partition(":")
            self._txn = (name, int(batch))

    _txn: tuple[str, int] | None = None

    def _changed(self, operation: str, concerned: list[Any], rows: list[Row], dry: bool = False) -> None:
        txn, self._txn = self._txn, None
        if not dry and (concerned or txn is not None):
            self.book.commit(operation, rows=rows, txn=txn)
        self.caught_up()

    @rule(quiet=st.booleans())
    def convert(self, quiet: bool) -> None:
        """The rows, as a folder of Parquet files, become another table."""
        files, made = self.path.parent / uuid.uuid4().hex, self.path.parent / uuid.uuid4().hex
        files.mkdir()
        pq.write_table(indextables.open(str(self.path)).to_arrow(), files / "rows.parquet")
        flags = ["--text", "message", "--fast", "n", "--index", "p=string", "--property", "checkpoint.interval=5"]
        flags += ["--system", "parquet", "--version", "0", *(["--quiet"] if quiet else [])]
        if self.book.now.shape.partition_by:
            flags += ["--partition-by", "p"]
        self.run("convert", files, made, *flags)
        self.run("convert", files, made)
        self.same_rows(indextables.open(str(made)).to_arrow(), self.book.now)

    @rule(where=wheres_by_place, dry=st.booleans(), as_sql=st.booleans())
    def drop_partitions(self, where: Where, dry: bool, as_sql: bool) -> None:
        partitioned = bool(self.book.now.shape.partition_by)
        gone = [row for row in self.book.now.rows if where.is_true(row)] if partitioned else []
        code = DONE if partitioned else WRONG
        if as_sql and not dry:
            self.run("sql", self.path, f"DROP INDEXTABLES PARTITIONS FROM t WHERE {where.text}", "--yes", code=code)
        else:
            flags = ["--dry-run"] if dry else ["--yes"]
            self.run("drop-partitions", self.path, "--where", where.text, *flags, "--json", code=code)
        if gone and not dry:
            self.book.commit("DROP PARTITIONS", rows=[row for row in self.book.now.rows if not where.is_true(row)])
        self.caught_up()

    @rule(back=BACK, by_time=st.booleans())
    def restore(self, back: int, by_time: bool) -> None:
        flags, version, number = self.then(back, by_time)
        before = self.book.newest
        if self.lines("restore", self.path, "--quiet", *flags) is None:
            self.book.is_gone(number)
        elif self.disk_versions()[-1] > before:
            self.book.commit("RESTORE", rows=version.rows, shape=version.shape, schema=version.schema)
        else:
            self.same_rows(list(self.book.now.rows), version)
        self.caught_up()

    @rule(order=st.integers(0, 2), dry=st.booleans(), as_sql=st.booleans(), where=wheres_by_place)
    def merge_splits(self, order: int, dry: bool, as_sql: bool, where: Where) -> None:
        if as_sql:
            self.run("sql", self.path, "MERGE SPLITS t")
        else:
            more: list[str] = ["--cluster-by", "n,id", "--curve", "hilbert"] if order == 1 else []
            if order == 2:
                more = ["--max-dest-splits", "2", "--max-source-splits-per-merge", "2", "--target-size", "1G"]
            if self.book.now.shape.partition_by:
                more += ["--where", where.text]
            self.lines("merge-splits", self.path, "--quiet", *more, *(["--dry-run"] if dry else []))
        self.made("MERGE SPLITS")

    @rule(force=st.booleans(), where=wheres)
    def reindex(self, force: bool, where: Where | None) -> None:
        more = ["--force"] if force else []
        if where is not None and where.fits(self.book.now.shape):
            more += ["--where", where.text]
        self.lines("reindex", self.path, "--quiet", *more)
        self.made("REINDEX")

    def made(self, operation: str) -> None:
        """New files for the same rows: as many versions as there are."""
        for version in range(self.book.newest + 1, self.disk_versions()[-1] + 1):
            told = self.commit_info(version)
            self.book.commit(operation if told is None else told["operation"])
            assert self.book.now.operations <= {operation, "MERGE SPLITS", "PURGE"}
        self.caught_up()

    # Read

    @rule(back=BACK, by_time=st.booleans(), where=wheres, word=words, forget=st.booleans())
    def read(self, back: int, by_time: bool, where: Where | None, word: str, forget: bool) -> None:
        """A question with a filter, and then everything."""
        self.forgets(forget)
        flags, version, number = self.then(back, by_time)
        text = ["--where", where.text] if where is not None and where.fits(version.shape) else []
        rows = [row for row in version.rows if not text or where is None or where.is_true(row)]
        found = [row for row in rows if has_word(row, word)]
        told = self.lines("search", self.path, word, *text, *flags, "--limit", "99", "--no-highlight")
        if told is None:
            self.book.is_gone(number)
            return
        self.same_rows(told, Version(tuple(found), version.shape, frozenset()))
        paged = self.lines(
            "search", self.path, word, *text, *flags, "--columns", "id", "--order-by", "id", "--offset", "1"
        )
        assert [row["id"] for row in paged or ()] == sorted(row["id"] for row in found)[1:11]
        assert self.run("count", self.path, *text, *flags) == (DONE, f"{len(rows)}\n")
        assert self.run("count", self.path, word, *text, *flags) == (DONE, f"{len(found)}\n")
        assert self.run("count", self.path) == (DONE, f"{len(self.book.now.rows)}\n")

    @rule(back=BACK, by_time=st.booleans(), where=wheres, word=words, forget=st.booleans())
    def select(self, back: int, by_time: bool, where: Where | None, word: str, forget: bool) -> None:
        self.forgets(forget)
        flags, version, number = self.then(back, by_time)
        fits = where is not None and where.fits(version.shape)
        condition = f"({where.text})" if where is not None and fits else "true"
        rows = [row for row in version.rows if not fits or where is None or where.is_true(row)]
        found = [row for row in rows if has_word(row, word)]
        statement = f"SELECT * FROM t WHERE TEXTSEARCH(message, $word) AND {condition}"
        told = self.lines("sql", self.path, statement, *flags, "--param", f"word={word}")
        if told is None:
            self.book.is_gone(number)
            return
        self.same_rows(told, Version(tuple(found), version.shape, frozenset()))
        file = self.path.parent / f"{uuid.uuid4().hex}.sql"
        file.write_text("SELECT t.id FROM t JOIN o ON t.id = o.id;")
        joined = self.lines("sql", self.path, "--file", file, "--with", f"o={self.path}")
        assert as_seen(joined or (), ("id",)) == as_seen(self.book.now.rows, ("id",))

    @rule(back=BACK, by_time=st.booleans(), what=st.sampled_from(("", "--files", "--columns")))
    def describe(self, back: int, by_time: bool, what: str) -> None:
        flags, version, number = self.then(back, by_time)
        columns = self.lines("schema", self.path, *flags)
        if columns is None:
            self.book.is_gone(number)
            return
        assert [column["column"] for column in columns] == list(version.shape.names)
        told = self.lines("describe", self.path, *flags, *([what] if what else []))
        if told is None:
            self.book.is_gone(number)
        elif what == "--files":
            assert sum(file["numRecords"] for file in told) == len(version.rows)

    @rule(back=BACK, net=st.booleans())
    def changes(self, back: int, net: bool) -> None:
        """What the last versions changed, applied to the rows below them, gives the rows that are there."""
        first = max(self.book.newest - back, 0)
        known = [version.shape for version in self.book.versions[max(first - 1, 0) :]]
        names = [n for n in self.book.now.shape.names if len({shape.type_of(n) for shape in known} - {None}) == 1]
        flags = ["--net", "--skip-unchanged"] if net else ["--where", "_commit_version >= 0"]
        ends = ["--from", first, "--to", self.book.newest]
        told = self.lines("changes", self.path, *ends, "--columns", ",".join(names), *flags)
        if told is None:
            self.book.is_gone(max(first - 1, 0))
            return
        rows = as_seen(self.book.versions[first - 1].rows if first else (), names)
        rows.update(as_seen([row for row in told if row["_change_type"] in ("insert", "update_postimage")], names))
        rows.subtract(as_seen([row for row in told if row["_change_type"] in ("delete", "update_preimage")], names))
        assert +rows == as_seen(self.book.now.rows, names)

    @rule(limit=st.sampled_from((None, 2)))
    def history(self, limit: int | None) -> None:
        told = self.lines("history", self.path, *([] if limit is None else ["--limit", limit])) or []
        assert [row["version"] for row in told] == [self.book.newest - place for place in range(len(told))]
        for row in told:
            assert row["operation"] in self.book.versions[row["version"]].operations
        self.run("log", self.path)
        self.run("metrics", self.path)
        (counted,) = self.lines("metrics", self.path) or ()
        assert counted["newest checkpoint"]["version"] <= self.book.newest
        self.run("log", self.path, max(self.book.newest - 1, 0))

    # Care

    @rule(state=st.one_of(st.none(), st.sampled_from(STATES)), command=st.sampled_from(("checkpoint", "compact")))
    def checkpoint(self, state: str | None, command: str) -> None:
        more = [f"--option={key}={value}" for key, value in state_options(state).items()] if state else []
        assert f"version {self.book.newest} " in self.run(command, self.path, *more)[1]
        self.caught_up()

    @rule(at_once=st.booleans(), dry=st.booleans())
    def clean_up(self, at_once: bool, dry: bool) -> None:
        more = [f"--option={key}={value}" for key, value in NO_RETENTION.items()] if at_once else []
        self.lines("clean-up", self.path, *more, *(["--dry-run"] if dry else ["--yes"]))
        if at_once and not dry:
            self.may_go()
        self.caught_up()

    @rule(at_once=st.booleans(), dry=st.booleans())
    def purge(self, at_once: bool, dry: bool) -> None:
        more = ["--older-than-hours", "0", "--tx-log-retention-hours", "0", "--force"] if at_once else []
        self.lines("purge", self.path, "--quiet", *more, *(["--dry-run"] if dry else ["--yes"]))
        if at_once and not dry:
            self.may_go()
        self.caught_up()

    @rule(dry=st.booleans())
    def truncate(self, dry: bool) -> None:
        self.lines("truncate", self.path, "--quiet", *(["--dry-run"] if dry else ["--yes"]))
        if not dry:
            self.made("TRUNCATE TIME TRAVEL")
            self.may_go()

    @rule(where=wheres, flush=st.booleans())
    def warm(self, where: Where | None, flush: bool) -> None:
        more = ["--where", where.text] if where is not None and where.fits(self.book.now.shape) else []
        self.lines("prewarm", self.path, "--quiet", "--columns", "message", *more)
        if flush:
            self.lines("flush-caches", self.path)
            self.lines("mirror", self.path, "--stop", "--quiet")
        assert self.lines("skips", self.path) == []
        self.run("skips", self.path, "--clear")
        self.run("skips", self.path, "--clear", "--path", "nothing", code=WRONG)

    @rule(rebuilt=st.booleans())
    def mend(self, rebuilt: bool) -> None:
        """A log beside the table; the table itself is as it was."""
        place = self.path.parent / uuid.uuid4().hex
        self.lines("repair", self.path, "--at", place)
        self.run("repair", self.path, "--pointer")
        if rebuilt and self.book.now.rows:
            self.lines("rebuild", self.path, "--at", place / "rebuilt", "--with-old-rows")
        assert self.lines("verify", self.path) is not None
        assert self.lines("verify", self.path, "--no-data-files", "--rules") is not None
