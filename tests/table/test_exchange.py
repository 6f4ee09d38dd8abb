"""Other tools take a table as it is, and give it rows in the form that they have."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import pickle
import shutil
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import indextables
from indextables.embedded.frames import lazy_frame
from indextables.errors import (
    InvalidArgument,
    NotSupported,
    SchemaMismatch,
    TableNotFound,
    TableReplaced,
    VersionExpired,
)

SCHEMA = pa.schema([("id", pa.int64()), ("m", pa.string())])
ROWS = [{"id": 1, "m": "foo"}, {"id": 2, "m": None}, {"id": 3, "m": "bar"}]


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "a table", SCHEMA, indexing={"m": "text"}, options={"storage.fsync": "false"})
    made.append(ROWS)
    return made


def test_duckdb_takes_a_table_by_the_name_of_its_variable(table):
    logs = table
    assert duckdb.sql("SELECT sum(id), count(m) FROM logs").fetchall() == [(6, 2)]
    assert len(logs) == 3


def test_polars_pandas_and_pyarrow_take_the_version_that_a_handle_reads(table):
    before = table.at(1)
    table.append([{"id": 4, "m": "later"}])
    assert pl.DataFrame(before).to_dicts() == ROWS
    assert pa.table(before).to_pylist() == ROWS
    assert before.to_pandas(["id"], where="m IS NOT NULL", limit=1)["id"].tolist() == [1]
    assert pa.schema(before) == before.schema


def test_a_table_without_rows_is_true_and_has_the_length_of_its_version(table):
    assert len(table.at(0)) == 0
    assert bool(table.at(0))
    assert (len(table), len(table.at(1))) == (3, 3)


def test_the_length_leaves_out_deleted_rows(table):
    table.delete("id = 2")
    assert len(table) == 2


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_handle_reads_the_same_version_and_writes_as_before(table, protocol):
    before = table.at(1)
    table.append([{"id": 4, "m": "later"}])
    copy = pickle.loads(pickle.dumps(before, protocol))  # noqa: S301 - our own bytes
    assert (copy.url, copy.version, copy.to_arrow().to_pylist()) == (before.url, 1, ROWS)
    assert copy.search("foo").num_rows == 1
    assert copy.append([{"id": 5, "m": "by the copy"}]) == 3
    assert len(table.refresh()) == 5


def _found(table: indextables.Table) -> tuple[int, int]:
    return table.version, table.search("foo").num_rows


@pytest.mark.slow
def test_workers_of_a_pool_are_given_handles(table):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_found, [table, table.at(0)]) == [(1, 1), (0, 0)]


def test_a_pickled_handle_of_a_replaced_table_reads_nothing_of_the_new_one(tmp_path):
    place = tmp_path / "t"
    old = indextables.create(place, SCHEMA)
    old.append(ROWS)
    kept = pickle.dumps(old)
    shutil.rmtree(place)
    indextables.create(place, SCHEMA).append([{"id": 9, "m": "new"}])
    copy = pickle.loads(kept)  # noqa: S301 - our own bytes
    for _ in range(2):
        with pytest.raises((TableReplaced, VersionExpired)):
            copy.count()


def test_a_handle_that_cannot_be_opened_is_unpickled_and_tells_why_when_it_is_used(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA)
    table.append(ROWS)
    told = pickle.dumps(table)
    (tmp_path / "t").rename(tmp_path / "away")
    copy = pickle.loads(told)  # noqa: S301 - our own bytes
    with pytest.raises(TableNotFound, match="create the table first"):
        copy.count()
    with pytest.raises(AttributeError):
        _ = copy.__arrow_c_device_stream__
    again = pickle.loads(pickle.dumps(copy))  # noqa: S301 - our own bytes
    (tmp_path / "away").rename(tmp_path / "t")
    assert (copy.count(), again.count(), len(copy)) == (3, 3, 3)


@pytest.mark.slow
def test_a_pool_that_is_given_a_table_of_the_memory_of_its_parent_answers(tmp_path):
    table = indextables.create("memory://handed-on", SCHEMA)
    table.append(ROWS)
    with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(TableNotFound):
        pool.map_async(_found, [table]).get(timeout=60)


def test_a_pickled_handle_reads_no_other_version_of_its_number(tmp_path):
    place, kept = tmp_path / "t", tmp_path / "kept"
    table = indextables.create(place, SCHEMA)
    shutil.copytree(place, kept)
    table.append(ROWS)
    told = pickle.dumps(table)
    shutil.rmtree(place)
    shutil.copytree(kept, place)
    indextables.open(place).append([{"id": 9, "m": "another version 1"}])
    with pytest.raises(VersionExpired, match="a copy of the table was put back"):
        pickle.loads(told).to_arrow()  # noqa: S301 - our own bytes


@pytest.mark.parametrize("was_read", [True, False])
def test_refresh_moves_a_pickled_handle_to_the_version_that_is_there(tmp_path, was_read):
    place, kept = tmp_path / "t", tmp_path / "kept"
    table = indextables.create(place, SCHEMA)
    shutil.copytree(place, kept)
    table.append(ROWS)
    told = pickle.dumps(table)
    shutil.rmtree(place)
    shutil.copytree(kept, place)
    indextables.open(place).append([{"id": 9, "m": "another version 1"}])
    handle = pickle.loads(told)  # noqa: S301 - our own bytes
    if was_read:
        with pytest.raises(VersionExpired, match="refresh"):
            handle.to_arrow()
    assert handle.refresh().to_arrow()["id"].to_pylist() == [9]
    handle.append([{"id": 10, "m": "goes on"}])
    assert handle.to_arrow()["id"].to_pylist() == [9, 10]


def test_a_handle_as_a_context_lets_go_of_the_version_that_it_protects(table, tmp_path):
    with indextables.open(table.url, {"reader.leaseHours": "1"}) as handle:
        assert len(_protected(tmp_path)) == 1
        assert len(handle) == 3
    assert _protected(tmp_path) == []
    assert len(handle) == 3


def _protected(place: Path) -> list[Path]:
    return list(place.rglob("_intents/*"))


def test_an_iterator_of_batches_tables_or_dicts_is_written_piece_by_piece(table):
    def batches():
        yield pa.record_batch({"id": [4]})
        yield pa.table({"id": [5, 6]})

    table.append(batches())
    table.append([pa.record_batch({"m": ["x"]}), pa.record_batch({"m": ["y"]})])
    table.append({"id": number, "m": "many"} if number % 2 else {"id": number} for number in range(25_000))
    assert len(table) == 3 + 3 + 2 + 25_000
    assert table.count("m:many") == 12_500


def test_columns_that_only_later_dicts_of_an_iterator_have_are_taken_if_the_table_knows_them(table):
    rows = [{"id": number} for number in range(10_000)]
    table.append(iter([*rows, {"M": "late"}]))
    assert table.search("late").to_pylist()[0]["m"] == "late"
    with pytest.raises(SchemaMismatch, match="a later row"):
        table.append(iter([*rows, {"other": 1}]))
    assert table.version == 2


@pytest.mark.parametrize("how", ["list", "iterator"])
@pytest.mark.parametrize("verb", ["append", "overwrite", "upsert", "merge"])
@pytest.mark.parametrize(
    "data",
    [
        [None, {"id": 1, "m": "x"}],
        [{"id": 1, "m": "x"}, None],
        [None, pa.record_batch({"id": [1]})],
        [{"id": 1, "m": "a"}, {"ID": 2, "m": "b"}],
        [{"id": 1, "M": "a"}, {"id": 2, "m": "b"}],
    ],
    ids=["nothing first", "nothing last", "nothing before a batch", "two cases", "two cases of another"],
)
def test_rows_with_nothing_among_them_or_one_name_in_two_cases_are_refused(table, data, verb, how):
    given = iter(data) if how == "iterator" else data
    calls = {
        "append": lambda: table.append(given, txn=("job", 1)),
        "overwrite": lambda: table.overwrite(given),
        "upsert": lambda: table.upsert(given, "id"),
        "merge": lambda: table.merge(given, "t.id = s.id").when_not_matched_by_source_delete().execute(),
    }
    with pytest.raises((InvalidArgument, SchemaMismatch)):
        calls[verb]()
    assert (table.refresh().version, table.to_arrow().to_pylist()) == (1, ROWS)


@pytest.mark.parametrize("how", [list, iter])
def test_rows_that_lack_a_column_keep_it_or_are_refused_in_an_upsert(table, how):
    with pytest.raises(SchemaMismatch):
        table.upsert(how([{"id": 1}]), "id")
    with pytest.raises(InvalidArgument):
        table.upsert(how([{"m": "x"}]), "id")
    table.upsert(how([{"id": 1}, {"id": 9}]), "id", merge_schema=True)
    assert table.to_arrow().sort_by("id").to_pylist() == [*ROWS, {"id": 9, "m": None}]


def test_a_dict_that_is_filled_again_and_again_is_many_rows(table):
    one = {}
    table.append(one for number in range(5) if one.update(id=number) is None)
    assert table.to_arrow(["id"])["id"].to_pylist()[3:] == [0, 1, 2, 3, 4]


def test_no_table_is_made_for_the_columns_of_an_iterator(tmp_path):
    with pytest.raises(InvalidArgument, match="read once"):
        indextables.create(tmp_path / "t", iter([{"id": 1}]))


def test_what_an_iterator_raises_is_raised_and_nothing_is_written(table):
    def broken():
        yield {"id": 1}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        table.append(broken())
    assert (table.refresh().version, len(table)) == (1, 3)


def test_datasets_scanners_lazy_frames_and_tables_are_appended(table, tmp_path):
    pq.write_table(pa.table({"id": [7], "m": ["a file"]}), tmp_path / "x.parquet")
    table.append(ds.dataset(tmp_path / "x.parquet"))
    table.append(ds.dataset(tmp_path / "x.parquet").scanner(filter=ds.field("id") > 7))
    table.append(pl.LazyFrame({"id": [8]}))
    table.append(table.at(1))
    assert table.to_arrow(["id"])["id"].to_pylist() == [1, 2, 3, 7, 8, 1, 2, 3]


@pytest.mark.parametrize(
    "data", [5, "id", b"id", {"id": [1]}, iter([5]), [{"id": 1}, 5], iter([{"id": 1}, pa.record_batch({"id": [1]})])]
)
def test_what_holds_no_rows_is_refused(table, data):
    with pytest.raises(InvalidArgument, match=r"cannot be written: give|let it give one kind"):
        table.append(data)
    assert table.refresh().version == 1


class _OnlyAnArray:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return pa.record_batch({"id": [7]}).__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        _OnlyAnArray(),
        pl.DataFrame({"id": [7], "m": ["foo"]}, schema={"id": pl.Int64, "m": pl.Categorical}),
        pl.DataFrame({"id": [7], "m": ["foo"]}, schema={"id": pl.Int64, "m": pl.Enum(["bar", "foo"])}),
    ],
)
def test_an_arrow_array_and_categories_are_taken(table, data):
    table.append(data)
    assert table.count(where="id = 7") == 1


def test_an_iterator_of_nothing_writes_nothing(table):
    assert table.append(iter([])) == 1
    assert table.refresh().version == 1


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Rows of every kind that a predicate of Polars is about, in partitions; one column is wider in later files."""
    path = tmp_path_factory.mktemp("wide") / "t"
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "n": pa.array([*range(-4, 5), None], pa.int32()),
            "day": [None, "", "a", "b", "a", "b", "c\\d'", "a", "b", "a"],
            "d": [dt.date(2026, 1, 1 + i) if i % 4 else None for i in range(10)],
            "at": pa.array([start + dt.timedelta(hours=i) for i in range(10)], pa.timestamp("us", "UTC")),
            "local": pa.array([dt.datetime(1969, 12, 31, i) for i in range(10)], pa.timestamp("us")),  # noqa: DTZ001
            "f": [float("nan"), None, -0.0, 0.0, 1.5, float("inf"), -1.0, 2.0, 3.0, 4.0],
            "m": ["odd" if i % 2 else "even" for i in range(10)],
        }
    )
    made = indextables.create(path, rows.schema, partition_by=["day"], indexing={"m": "text"})
    made.append(rows)
    made.append(pa.table({"n": pa.array([2**40], pa.int64()), "day": ["a"], "more": ["x"]}), merge_schema=True)
    return made


ASKS = {
    "numbers": (pl.col("n") > 1) & (pl.col("n") <= 4),
    "numbers on the left": pl.lit(2) < pl.col("n"),
    "between": pl.col("n").is_between(-1, 2, closed="none"),
    "null": pl.col("n").is_null() | (pl.col("day") == "a"),
    "not null": pl.col("d").is_not_null(),
    "texts": pl.col("day") == "c\\d'",
    "order of texts": pl.col("day") < "b",
    "not equal": pl.col("day") != "a",
    "dates": pl.col("d") >= dt.date(2026, 1, 4),
    "instants": pl.col("at") < dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC),
    "times without a zone": pl.col("local") > dt.datetime(1969, 12, 31, 3),  # noqa: DTZ001
    "floats": pl.col("f") >= 1.0,
    "a number and a float": pl.col("n") < 1.5,
    "a large number": pl.col("n") > 2**31,
    "half of it known": (pl.col("n") > 0) & pl.col("m").str.starts_with("o"),
    "or with something unknown": (pl.col("n") > 3) | pl.col("m").str.starts_with("o"),
    "not": ~(pl.col("n") > 0),
    "a list": pl.col("day").is_in(["a", "b"]),
    "two columns": pl.col("n") == pl.col("n").abs(),
    "the same or null": pl.col("n").eq_missing(None),
}


@pytest.mark.parametrize("ask", ASKS)
def test_a_lazy_frame_answers_as_the_rows_in_memory_do(wide, ask):
    rows = pl.DataFrame(wide)
    wanted = rows.filter(ASKS[ask])
    assert wide.to_polars().filter(ASKS[ask]).collect().equals(wanted)
    assert wide.to_polars().filter(ASKS[ask]).select("m").head(2).collect().equals(wanted.select("m").head(2))
    found = wide.to_polars(search="m:odd").filter(ASKS[ask]).select("at").sort("at").collect()
    assert found.equals(rows.filter(pl.col("m") == "odd").filter(ASKS[ask]).select("at").sort("at"))


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (ASKS["numbers"], "(`n` > (1)) AND (`n` <= (4))"),
        (ASKS["texts"], "`day` = 'c\\\\d\\''"),
        (ASKS["half of it known"], "(`n` > (0))"),
        (ASKS["or with something unknown"], None),
        (ASKS["floats"], None),
    ],
)
def test_what_polars_asks_goes_into_the_table(wide, ask, text):
    asked = []
    scan = wide.scan

    class Spy:
        def scan(self, columns=None, where=None, limit=None):
            asked.append((columns, where))
            return scan(columns, where, limit)

    lazy_frame(Spy(), wide.schema, None).filter(ask).select("m").collect()
    assert asked[0][1] == text
    assert set(asked[0][0]) <= {"m", "n", "day", "f"}


def test_a_lazy_frame_stays_with_its_version(table):
    frame = table.to_polars()
    table.append([{"id": 4, "m": "later"}])
    assert frame.collect().height == 3
    assert frame.head(2).collect()["id"].to_list() == [1, 2]
    assert table.to_polars(search="later").collect()["id"].to_list() == [4]


def test_a_dataset_has_the_rows_and_prunes_by_partition(wide):
    dataset = wide.to_dataset()
    assert pl.from_arrow(dataset.to_table()).sort("at").equals(pl.DataFrame(wide).sort("at"))
    assert len(list(dataset.get_fragments(pc.field("day") == "b"))) == 1
    for text in ("n > 1", "day IS NULL", "day = 'a'", "f = 0.0", "more = 'x'"):
        found = duckdb.sql(f"SELECT count(*) FROM dataset WHERE {text}").fetchall()[0][0]
        assert found == wide.count(where=text), text
    assert pl.scan_pyarrow_dataset(dataset).filter(pl.col("day") == "a").collect().height == 5


def test_a_dataset_with_deleted_rows_is_refused_and_names_the_ways_that_work(table):
    table.delete("id = 2")
    with pytest.raises(NotSupported, match=r"to_polars\(\), scan\(\)"):
        table.to_dataset()
    assert table.to_polars().collect()["id"].to_list() == [1, 3]
    assert table.at(1).to_dataset().count_rows() == 3


def test_a_dataset_over_a_store_that_is_no_file_system_reads_ranges():
    made = indextables.create("memory://datasets", SCHEMA)
    made.append(ROWS)
    assert made.to_dataset().to_table().to_pylist() == ROWS
