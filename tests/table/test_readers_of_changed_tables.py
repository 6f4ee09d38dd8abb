"""No reader shows a deleted row: every way to look at a table, over every way in which rows can be gone.

Rows that are gone have the word `gone`, those that stay the word `kept`. A reader is a function from a table to the ids
that it shows, or to anything that holds them; a method of `Table` that is in neither list below fails the last test.
"""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import indextables
from indextables.cli.app import run
from indextables.errors import NotSupported

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("message", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.string()),
    ]
)
FEW, MANY = 40, 6_000
AGAIN = "kind = 'gone' AND id % 10 = 1 AND day <> 'old'"


class Changed(NamedTuple):
    """A table, and the ids of the rows that are left, from what was written and asked."""

    it: indextables.Table
    left: list[int]


def rows(day: str, first: int, count: int, *, old: bool = False) -> list[dict[str, Any]]:
    """Every fifth row has the word `gone`; all of them where `old`."""
    words = ["gone" if old or n % 5 == 1 else "kept" for n in range(count)]
    return [
        {
            "id": first + n,
            "kind": word,
            "message": f"{word} line {n}",
            "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n),
            "day": day,
        }
        for n, word in enumerate(words)
    ]


def by_delete(table: indextables.Table) -> None:
    table.delete("kind = 'gone'")


def by_search(table: indextables.Table) -> None:
    table.delete(search="message:gone")


def by_steps(table: indextables.Table) -> None:
    """Vectors that grow, and rows of which the same file lost some before."""
    for rest in range(3):
        table.delete(f"kind = 'gone' AND id % 3 = {rest}")


def by_update(table: indextables.Table) -> bool:
    """Old images are gone as well. As in `by_upsert`, True tells that every second of these rows is there again."""
    table.update({"kind": "'kept'", "message": "concat('kept again ', id)"}, AGAIN)
    table.delete("kind = 'gone'")
    return True


def by_merge(table: indextables.Table) -> None:
    table.merge([{"kind": "gone"}], "t.kind = s.kind").when_matched_delete().execute()


def by_upsert(table: indextables.Table) -> bool:
    gone = table.to_arrow(where=AGAIN).to_pylist()
    table.upsert([{**row, "kind": "kept", "message": "kept line"} for row in gone], on="id")
    table.delete("kind = 'gone'")
    return True


def then_merged(table: indextables.Table) -> None:
    table.delete(AGAIN)
    table.merge_splits()
    table.delete("kind = 'gone'")


def then_reindexed(table: indextables.Table) -> None:
    table.delete("kind = 'gone'")
    table.set_indexing({"kind": "text"})
    table.reindex()


def after_restore(table: indextables.Table) -> None:
    table.delete("kind = 'gone'")
    version = table.version
    table.delete("id % 2 = 0")
    table.restore(version)


CHANGES = (
    by_delete,
    by_search,
    by_steps,
    by_update,
    by_merge,
    by_upsert,
    then_merged,
    then_reindexed,
    after_restore,
)


@pytest.fixture(scope="module", params=CHANGES, ids=lambda change: change.__name__)
def table(request, tmp_path_factory):
    """A file with an inline vector, one whose vector is a file of its own, and one that goes as a whole."""
    made = indextables.create(
        tmp_path_factory.mktemp("readers") / "t",
        SCHEMA,
        partition_by=["day"],
        indexing={"message": "text"},
        properties={"mergeOnWrite.enabled": "false"},
    )
    made.append(rows("few", 0, FEW))
    made.append(rows("many", FEW, MANY))
    made.append(rows("old", FEW + MANY, 10, old=True))
    again = bool(request.param(made))
    every = [*rows("few", 0, FEW), *rows("many", FEW, MANY)]
    return Changed(made, [r["id"] for r in every if r["kind"] == "kept" or (again and r["id"] % 10 == 1)])


def from_mirror(table: indextables.Table) -> Any:
    table.mirror()
    try:
        delta = DeltaTable(table.url.removeprefix("file://"))
        return pa.table(QueryBuilder().register("t", delta).execute("SELECT id FROM t"))["id"]
    finally:
        table.mirror(stop=True)


def from_dataset(table: indextables.Table) -> Any:
    """A dataset of pyarrow knows no vectors: refused, or there are none."""
    try:
        return table.to_dataset().to_table()["id"]
    except NotSupported:
        assert any(table.files()["deletionVector"].is_valid().to_pylist())
        return table.to_arrow()["id"]


def from_feed(table: indextables.Table) -> list[int]:
    """The changes of all versions, applied one after the other."""
    there: dict[int, int] = {}
    for row in table.changes(columns=["id"]).read_all().to_pylist():
        step = -1 if row["_change_type"] in ("delete", "update_preimage") else 1
        there[row["id"]] = there.get(row["id"], 0) + step
    assert set(there.values()) <= {0, 1}
    return [n for n, count in there.items() if count]


def from_net_feed(table: indextables.Table) -> Any:
    feed = table.changes(columns=["id"], net=True).read_all()
    assert set(feed["_change_type"].to_pylist()) == {"insert"}
    return feed["id"]


def converted(table: indextables.Table) -> Any:
    target = f"{table.url}-copy-{table.version}"
    copy = indextables.create(target, table.schema, partition_by=["day"])
    copy.append(table)
    return copy.to_arrow()["id"]


def told_by_shell(*words: str) -> Callable[[indextables.Table, Any], list[int]]:
    def read(table: indextables.Table, capsys: Any) -> list[int]:
        capsys.readouterr()
        assert run([words[0], table.url, *words[1:]]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [json.loads(line)["id"] for line in lines]

    return read


def looked_up(table: indextables.Table) -> list[int]:
    """Each key by itself, those that are gone as well."""
    asked = [*range(FEW), *range(FEW + MANY, FEW + MANY + 10)]
    found = [n for n in asked for _ in table.scan(["id"], where=f"id = {n}").read_all()["id"]]
    return [*found, *table.to_arrow(["id"], where=f"id >= {FEW} AND id < {FEW + MANY}")["id"].to_pylist()]


READERS: dict[str, Callable[[indextables.Table], Any]] = {
    "scan": lambda t: t.scan(["id"]).read_all()["id"],
    "scan where": lambda t: t.scan(where="kind in ('gone', 'kept') and at is not null").read_all()["id"],
    "scan of each key": looked_up,
    "to_arrow": lambda t: t.to_arrow()["id"],
    "to_arrow where not": lambda t: t.to_arrow(where="not kind = 'nothing'")["id"],
    "to_pandas": lambda t: t.to_pandas()["id"].tolist(),
    "to_polars": lambda t: t.to_polars().collect()["id"].to_list(),
    "to_polars filtered": lambda t: t.to_polars().filter(id=-1).collect()["id"].to_list() or t.to_arrow()["id"],
    "to_polars search": lambda t: t.to_polars("gone kept").collect()["id"].to_list(),
    "to_dataset": from_dataset,
    "arrow stream": lambda t: pa.RecordBatchReader.from_stream(t).read_all()["id"],
    "pickled": lambda t: pickle.loads(pickle.dumps(t)).to_arrow()["id"],  # noqa: S301 - our own bytes
    "opened": lambda t: indextables.open(t.url).to_arrow()["id"],
    "at": lambda t: t.at(t.version).to_arrow()["id"],
    "search": lambda t: t.search("gone kept", limit=None)["id"],
    "search all": lambda t: t.search("*", limit=None)["id"],
    "search not": lambda t: t.search("* AND NOT nothing", limit=None)["id"],
    "search ordered": lambda t: t.search("gone kept", limit=None, order_by="at desc, id")["id"],
    "search highlighted": lambda t: t.search("gone kept", limit=None, highlight=["message"])["id"],
    "search where": lambda t: t.search("gone kept", where="kind <> ''", limit=None)["id"],
    "search by phrase": lambda t: t.search("message:/gone|kept/ ", limit=None)["id"],
    "search in pages": lambda t: [
        n for start in range(0, 8_000, 1_000) for n in t.search("*", offset=start, limit=1_000)["id"].to_pylist()
    ],
    "search_batches": lambda t: t.search_batches("gone kept").read_all()["id"],
    "sql": lambda t: t.sql("SELECT id FROM t")["id"],
    "sql where": lambda t: t.sql("SELECT id FROM t WHERE kind LIKE '%o%' OR kind = 'kept'")["id"],
    "sql search": lambda t: t.sql("SELECT id FROM t WHERE TEXTSEARCH(message, 'gone kept')")["id"],
    "sql grouped": lambda t: t.sql("SELECT id FROM t GROUP BY id HAVING count(*) = 1")["id"],
    "sql joined": lambda t: t.sql("SELECT a.id FROM t a JOIN t b ON a.id = b.id")["id"],
    "session": lambda t: indextables.LocalSession({"t": t.url}).run("SELECT id FROM t")["id"],
    "changes": from_feed,
    "changes net": from_net_feed,
    "mirror": from_mirror,
    "append of a table": converted,
}

SHELL = {
    "shell search": told_by_shell("search", "*", "--limit", "100000", "--json"),
    "shell sql": told_by_shell("sql", "SELECT id FROM t", "--json"),
}

COUNTS: dict[str, Callable[[indextables.Table, str], int]] = {
    "count": lambda t, word: t.count(word),
    "count where": lambda t, word: t.count(where=f"kind = '{word}'"),
    "count of a day": lambda t, word: sum(t.count(word, where=f"day = '{day}'") for day in ("few", "many", "old")),
    "sql": lambda t, word: t.sql(f"SELECT count(*) AS n FROM t WHERE kind = '{word}'")["n"][0].as_py(),
    "sql search": lambda t, word: t.sql(f"SELECT count(*) AS n FROM t WHERE TEXTSEARCH(message, '{word}')")["n"][
        0
    ].as_py(),
    "terms": lambda t, word: {
        bucket["key"]: bucket["doc_count"]
        for bucket in t.aggregate("*", {"k": {"terms": {"field": "kind"}}})["k"]["buckets"]
    }.get(word, 0),
    "terms of a search": lambda t, word: sum(
        bucket["doc_count"] for bucket in t.aggregate(word, {"k": {"terms": {"field": "day"}}})["k"]["buckets"]
    ),
    "explain": lambda t, word: sum(n or 0 for n in t.explain(word)["per_split"]["matches"].to_pylist()),
}


def values(found: Any) -> list[int]:
    return sorted(found if isinstance(found, list) else found.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_shows_the_rows_that_are_left(table, reader):
    assert values(READERS[reader](table.it)) == table.left


@pytest.mark.slow
@pytest.mark.parametrize("reader", SHELL)
def test_a_command_shows_the_rows_that_are_left(table, reader, capsys):
    assert values(SHELL[reader](table.it, capsys)) == table.left


@pytest.mark.slow
@pytest.mark.parametrize("reader", COUNTS)
def test_a_count_is_of_the_rows_that_are_left(table, reader):
    assert (COUNTS[reader](table.it, "gone"), COUNTS[reader](table.it, "kept")) == (0, len(table.left))


@pytest.mark.slow
def test_what_is_told_of_a_table_counts_the_rows_that_are_left(table):
    it, left = table.it, table.left
    assert len(it) == it.count() == it.detail()["numRows"] == len(left)
    least = it.sql("SELECT min(id) AS a, max(id) AS b, count(distinct id) AS n, sum(id) AS s FROM t").to_pylist()
    assert least == [{"a": left[0], "b": left[-1], "n": len(left), "s": sum(left)}]
    told = it.aggregate("*", {"s": {"stats": {"field": "id"}}})["s"]
    assert (told["min"], told["max"], told["count"], told["sum"]) == (left[0], left[-1], len(left), sum(left))
    assert it.prewarm().failed == {}
    assert "gone" not in str(
        it.search("gone kept", limit=None, highlight=["message"])["_highlight_message"].to_pylist()
    )


SHOWN_BY = {
    "aggregate": "told",
    "changes": "READERS",
    "count": "COUNTS",
    "explain": "COUNTS",
    "mirror": "READERS",
    "scan": "READERS",
    "search": "READERS",
    "search_batches": "READERS",
    "sql": "READERS",
    "to_arrow": "READERS",
    "to_dataset": "READERS",
    "to_pandas": "READERS",
    "to_polars": "READERS",
    "at": "READERS",
    "detail": "told",
    "prewarm": "told",
}
NO_ROWS = {
    "add_columns",
    "add_constraint",
    "alter",
    "alter_column",
    "append",
    "checkpoint",
    "clean_up",
    "clear_skips",
    "close",
    "compact",
    "delete",
    "drop_columns",
    "drop_constraint",
    "drop_partitions",
    "enable_row_tracking",
    "files",
    "flush_caches",
    "health",
    "history",
    "invalidate_cache",
    "log",
    "merge",
    "merge_splits",
    "metadata",
    "metrics",
    "overwrite",
    "partition_columns",
    "protect",
    "protocol",
    "purge",
    "refresh",
    "reindex",
    "rename_column",
    "resolve",
    "restore",
    "schema",
    "set_description",
    "set_indexing",
    "set_name",
    "set_properties",
    "sizes",
    "skip",
    "skips",
    "state",
    "truncate_time_travel",
    "txn_version",
    "unset_properties",
    "update",
    "upgrade_protocol",
    "upsert",
    "url",
    "verify",
    "version",
}
"""Methods that show no row, or write."""


def test_every_method_of_a_table_is_known_here():
    public = {name for name in dir(indextables.Table) if not name.startswith("_")}
    assert public == SHOWN_BY.keys() | NO_ROWS
    for name, where in SHOWN_BY.items():
        if where != "told":
            assert any(reader.split()[0] == name for reader in {"READERS": READERS, "COUNTS": COUNTS}[where])
