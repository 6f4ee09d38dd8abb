"""`open` finds tables of other systems; what it gives reads like a table, and refuses whatever writes."""

from __future__ import annotations

import contextlib
import inspect
import logging
import pickle
import tempfile

import duckdb
import pyarrow as pa
import pytest
from tests.foreign.delta_world import DeltaWorld, rows, with_features

import indextables
from indextables.embedded.foreign import ForeignTable
from indextables.errors import (
    InvalidArgument,
    NotSupported,
    QueryInvalid,
    TableNotFound,
    TableReplaced,
    VersionNotFound,
)

ANSWERED = {
    "aggregate",
    "at",
    "close",
    "count",
    "detail",
    "explain",
    "files",
    "history",
    "metadata",
    "partition_columns",
    "protocol",
    "refresh",
    "scan",
    "schema",
    "search",
    "search_batches",
    "sql",
    "system",
    "to_arrow",
    "to_pandas",
    "to_polars",
    "url",
    "version",
}


@pytest.fixture
def world(tmp_path):
    made = DeltaWorld(tmp_path / "table")
    made.create()
    made.commit(made.add(rows(1, 2, 3)))
    made.commit(made.add(rows(4)))
    return made


def everything_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_reads_like_a_table(world):
    table = indextables.open(world.root)
    assert isinstance(table, indextables.Table)
    assert (table.version, table.system, table.url) == (2, "Delta", f"file://{world.root}")
    assert table.scan(["id"], where="id BETWEEN 2 AND 3").read_all().to_pydict() == {"id": [2, 3]}
    assert table.to_arrow(limit=2).num_rows == 2
    assert table.sql("SELECT max(id) AS m FROM t WHERE name LIKE 'row%'").to_pylist() == [{"m": 4}]
    assert table.detail()["numRows"] == 4
    assert table.history(limit=1)["version"].to_pylist() == [2]
    assert repr(table) == f"ForeignTable('file://{world.root}', system='Delta', version=2)"
    assert "Delta" in table._repr_html_()


def test_a_handle_stays_on_its_version_until_it_is_refreshed(world):
    table = indextables.open(world.root)
    world.commit(world.add(rows(5)))
    assert (table.version, table.count()) == (2, 4)
    assert (table.refresh().version, table.count()) == (3, 5)
    assert table.at(version=1).count() == 3


def test_a_select_joins_it_with_a_table_of_ours(world, tmp_path):
    ours = indextables.create(tmp_path / "ours", pa.schema([("id", pa.int64()), ("tag", pa.string())]))
    ours.append(pa.table({"id": [2, 4], "tag": ["a", "b"]}))
    theirs = indextables.open(world.root)
    wanted = [{"name": "row 2", "tag": "a"}, {"name": "row 4", "tag": "b"}]
    statement = "SELECT name, tag FROM t JOIN other ON t.id = other.id ORDER BY tag"
    assert theirs.sql(statement, tables={"other": ours}).to_pylist() == wanted
    assert ours.sql(statement, tables={"other": theirs}).to_pylist() == wanted


def test_its_rows_go_into_a_table_of_ours_as_the_refusals_say(world, tmp_path):
    theirs = indextables.open(world.root)
    ours = indextables.create(tmp_path / "ours", theirs.schema)
    ours.append(theirs.scan())
    assert ours.to_arrow().equals(theirs.to_arrow())


def test_a_search_is_answered_from_a_copy_and_says_so(world, caplog):
    table = indextables.open(world.root)
    with caplog.at_level(logging.WARNING, "indextables"):
        assert table.search("name:row AND name:3")["id"].to_pylist() == [3]
    assert "copies all its rows" in caplog.text
    caplog.clear()
    assert table.count("row") == 4
    assert table.count("row", where="id > 2") == 2
    found = table.sql("SELECT id FROM t WHERE TEXTSEARCH(name, '2') OR id = 4 ORDER BY id")
    assert found["id"].to_pylist() == [2, 4]
    assert table.aggregate("row", {"s": {"stats": {"field": "id"}}})["s"]["count"] == 4
    assert table.explain("row")["splits"] == 1
    assert not caplog.text
    world.commit(world.add(rows(5)))
    assert table.refresh().count("row") == 5


def test_nothing_is_ever_written_below_its_root(world):
    before = everything_below(world.root)
    table = indextables.open(world.root)
    table.to_arrow()
    table.search("row")
    table.sql("SELECT * FROM t WHERE TEXTSEARCH(*, 'row')")
    table.history()
    for name in sorted(set(dir(indextables.Table)) - ANSWERED):
        if not name.startswith("_"):
            with pytest.raises(NotSupported):
                getattr(table, name)()
    assert everything_below(world.root) == before


@pytest.mark.parametrize("name", sorted(name for name in dir(indextables.Table) if not name.startswith("_")))
def test_every_verb_is_answered_or_refused_by_name(world, name):
    table = indextables.open(world.root)
    if name in ANSWERED:
        assert name in vars(ForeignTable)
        return
    with pytest.raises(NotSupported, match=rf"^{name}: .* is one of Delta, .*indextables.convert") as caught:
        getattr(table, name)()
    assert (caught.value.verb, caught.value.system) == (name, "Delta")


def test_answers_take_what_those_of_a_table_take():
    for name in ANSWERED - {"system", "search", "search_batches"}:
        ours, theirs = getattr(indextables.Table, name), getattr(ForeignTable, name)
        if not isinstance(ours, property):
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)


def test_other_tools_take_it_as_they_take_a_table(world):
    table = indextables.open(world.root)
    assert pa.table(table).equals(table.to_arrow())
    assert pa.schema(table).equals(table.schema)
    events = table
    assert duckdb.sql("SELECT sum(id) FROM events").fetchall() == [(10,)]
    assert len(events.schema) == 2
    assert table.to_pandas(["id"], where="id > 2")["id"].tolist() == [3, 4]
    assert (len(table), bool(table.at(version=0))) == (4, True)
    with pytest.raises(TypeError):
        iter(table)
    with indextables.open(world.root) as opened:
        assert opened.count() == 4


def test_its_rows_are_appended_to_a_table_of_ours_as_they_are(world, tmp_path):
    theirs = indextables.open(world.root)
    ours = indextables.create(tmp_path / "ours", theirs.schema)
    ours.append(theirs)
    assert ours.to_arrow().equals(theirs.to_arrow())


def received(sent):
    return pickle.loads(sent)  # noqa: S301 - our own


def test_a_pickled_handle_means_the_same_version_of_the_same_table(world):
    table = indextables.open(world.root)
    sent = pickle.dumps(table.at(version=1))
    assert (received(sent).version, received(sent).count()) == (1, 3)
    place = world.log / f"{0:020d}.json"
    place.write_text(place.read_text().replace("5f6d1a9e", "00000000"))
    with pytest.raises(TableReplaced):
        received(sent).count()
    for path in world.log.iterdir():
        path.unlink()
    with pytest.raises(TableNotFound):
        received(sent).count()


def test_the_copy_of_a_search_goes_when_the_handle_is_closed(world, monkeypatch, tmp_path):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    with indextables.open(world.root) as table:
        assert table.count("row") == 4
        assert list((tmp_path / "scratch").glob("indextables-search-*"))
    assert not list((tmp_path / "scratch").glob("indextables-search-*"))
    assert table.count("row") == 4


def test_bad_questions_are_told_as_those_of_a_table(world):
    table = indextables.open(world.root)
    with pytest.raises(QueryInvalid):
        table.to_arrow(where="id >")
    with pytest.raises(InvalidArgument, match="nowhere"):
        table.to_arrow(["nowhere"])
    with pytest.raises(InvalidArgument):
        table.to_arrow(limit=-1)
    with pytest.raises(InvalidArgument):
        table.at()
    with pytest.raises(InvalidArgument):
        table.at(version=1, timestamp=1)
    with pytest.raises(InvalidArgument):
        indextables.open(world.root, version=1, timestamp=1)
    with pytest.raises(InvalidArgument):
        table.history(limit=0)
    with pytest.raises(VersionNotFound):
        indextables.open(world.root, version=9)


def test_a_session_of_sql_reads_it_by_name_and_by_path(world):
    session = indextables.LocalSession({"events": str(world.root)})
    session.check("events")
    assert session.schema("events").names == ["id", "name"]
    assert session.run("SELECT count(*) AS n FROM events").to_pylist() == [{"n": 4}]
    assert session.run("SELECT count(*) AS n FROM events VERSION AS OF 1").to_pylist() == [{"n": 3}]
    by_path = f"SELECT max(id) AS m FROM indextables.`{world.root}` TIMESTAMP AS OF '2100-01-01'"
    assert session.run(by_path).to_pylist() == [{"m": 4}]
    pinned = indextables.LocalSession({"events": str(world.root)}, pinned={"events": 1})
    assert pinned.run("SELECT max(id) AS m FROM events").to_pylist() == [{"m": 3}]
    searched = "SELECT count(*) AS n FROM events {}WHERE TEXTSEARCH(name, 'row')"
    assert session.run(searched.format("")).to_pylist() == [{"n": 4}]
    assert session.run(searched.format("VERSION AS OF 1 ")).to_pylist() == [{"n": 3}]
    assert session.run(searched.format("")).to_pylist() == [{"n": 4}]
    with pytest.raises(TableNotFound):
        indextables.LocalSession({"events": str(world.root / "nothing")}).check("events")


def test_the_shell_reads_it(world, capfd):
    from indextables.cli import main

    def shell(*words):
        with contextlib.suppress(SystemExit):
            main([*words])
        return capfd.readouterr()

    assert shell("count", str(world.root)).out == "4\n"
    assert "row 3" in shell("sql", str(world.root), "SELECT name FROM t WHERE id = 3").out
    assert "only read here" in shell("merge-splits", str(world.root)).err


def test_a_log_of_ours_always_wins(world, tmp_path):
    ours = indextables.create(tmp_path / "ours", pa.schema([("x", pa.int64())]))
    ours.append(pa.table({"x": [1]}))
    (tmp_path / "ours" / "_delta_log").mkdir()
    for path in world.log.iterdir():
        (tmp_path / "ours" / "_delta_log" / path.name).write_bytes(path.read_bytes())
    table = indextables.open(tmp_path / "ours")
    assert not isinstance(table, ForeignTable)
    assert table.to_arrow().to_pydict() == {"x": [1]}


@pytest.mark.parametrize("remains", ["_last_checkpoint", "00000000000000000007.crc", "_intents/a.json"])
def test_remains_of_a_log_of_ours_are_not_read_over(world, remains):
    place = world.root / "_transaction_log" / remains
    place.parent.mkdir(parents=True)
    place.write_text("{}")
    with pytest.raises(indextables.IndexTablesError) as caught:
        indextables.open(world.root)
    assert not isinstance(caught.value, NotSupported)


def test_a_folder_without_any_log_is_no_table(tmp_path):
    with pytest.raises(TableNotFound):
        indextables.open(tmp_path)
    with pytest.raises(TableNotFound):
        indextables.open(tmp_path / "nothing", version=1)


def test_no_table_of_ours_begins_in_it(world):
    with pytest.raises(InvalidArgument, match="Delta"):
        indextables.create(world.root, pa.schema([("x", pa.int64())]))


def test_object_stores_hold_such_tables_too(world):
    from indextables.storage import open_store

    store = open_store("memory://foreign-delta")
    for path, data in everything_below(world.root).items():
        store.put(str(path.relative_to(world.root)), data)
    assert sorted(indextables.open("memory://foreign-delta").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]


def test_column_names_that_predicates_must_quote(tmp_path):
    made = DeltaWorld(tmp_path / "table")
    schema = pa.schema([("a b", pa.int64()), ("c,d", pa.string())])
    made.create(schema, protocol=with_features("columnMapping"))
    made.commit(made.add(pa.table([[1, 2], ["x", "y"]], schema=schema)))
    table = indextables.open(made.root)
    assert table.to_arrow(where="`a b` = 2").to_pylist() == [{"a b": 2, "c,d": "y"}]
    assert table.sql('SELECT "c,d" FROM t WHERE "a b" = 1').to_pylist() == [{"c,d": "x"}]
