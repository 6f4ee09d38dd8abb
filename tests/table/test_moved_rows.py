"""A change of rows that lost its race against what only moves rows follows them, and does not begin again."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.golden.table.test_golden_table import GOLDEN as OLDER
from tests.golden.table.test_golden_table import placed
from tests.table.test_delete import meanwhile
from tests.table.test_row_ids import ids as row_ids

import indextables

SCHEMA = pa.schema([("key", pa.int64()), ("n", pa.int64()), ("day", pa.string()), ("message", pa.string())])


def row(key: int, n: int = 0, message: str | None = None) -> dict:
    return {"key": key, "n": n, "day": f"d{key % 2}", "message": message or f"word w{key}"}


def made(path, *, partitioned: bool = False) -> indextables.Table:
    table = indextables.create(path, SCHEMA, partition_by=["day"] if partitioned else [], indexing={"message": "text"})
    for start in (0, 10, 20):
        table.append([row(key, n=97 * key % 31) for key in range(start, start + 10)])
    return table


def held(table) -> dict[int, dict]:
    """All rows by key, from a new handle, every way to read them agreeing."""
    fresh = indextables.open(table.url)
    found = {one["key"]: one for one in fresh.to_arrow().to_pylist()}
    assert fresh.count() == len(found)
    assert sorted(fresh.search("word", limit=None, columns=["key"])["key"].to_pylist()) == sorted(
        key for key, one in found.items() if "word" in one["message"]
    )
    return found


MOVES: dict[str, Callable] = {
    "merge": lambda table, a: table.merge_splits(),
    "sort": lambda table, a: table.merge_splits(cluster_by=["n"], target_size=2_000),
    "reindex": lambda table, a: table.reindex(force=True),
    "delete and merge": lambda table, a: (table.delete(f"key = {a}"), table.merge_splits()),
    "update, sort and merge": lambda table, a: (
        table.update({"message": "'word of theirs'"}, where=f"key = {a}"),
        table.merge_splits(cluster_by=["n"]),
        table.merge_splits(target_size=1),
    ),
}


def _delete(table, keys, progress=None):
    return table.delete(f"key IN ({keys})", progress=progress)


def _update(table, keys, progress=None):
    return table.update({"n": "n + 1000", "message": "concat(message, ' more')"}, f"key IN ({keys})", progress=progress)


def _upsert(table, keys, progress=None):
    given = [row(int(key), 7, "word of ours") for key in keys.split(",")]
    return table.upsert([*given, row(100, 7)], "key", progress=progress)


def _merge(table, keys, progress=None):
    """It depends on rows that it finds and leaves alone."""
    source = [{"key": int(key)} for key in keys.split(",")] + [{"key": 5}, {"key": 25}]
    return (
        table.merge(list({one["key"]: one for one in source}.values()), ["key"])
        .when_matched_update({"n": "t.n + 1"}, condition=f"t.key IN ({keys})")
        .when_not_matched_by_source_delete(condition="t.key IN (2, 22)")
        .execute(progress=progress)
    )


STATEMENTS = {"delete": _delete, "update": _update, "upsert": _upsert, "merge": _merge}


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(STATEMENTS)),
    st.lists(st.sampled_from(sorted(MOVES)), min_size=1, max_size=2),
    st.sets(st.integers(0, 29), min_size=1, max_size=4),
    st.sets(st.integers(0, 29), max_size=3),
    st.booleans(),
    st.integers(0, 29),
)
def test_rows_that_others_moved_meanwhile_are_changed_as_if_they_had_been_moved_before(
    tmp_path_factory, what, moves, keys, gone, partitioned, theirs
):
    folder, statement = tmp_path_factory.mktemp("moved"), STATEMENTS[what]
    chosen = ",".join(map(str, sorted(keys)))
    results = []
    for name, first in (("before", True), ("meanwhile", False)):
        table = made(folder / name, partitioned=partitioned)
        table.update({"message": "'word again'"}, where="key in (1, 11, 12)")
        for key in sorted(gone):
            table.delete(f"key = {key}")
        other = indextables.open(table.url)

        def rivals(other=other):
            for move in moves:
                MOVES[move](other.refresh(), theirs)

        if first:
            rivals()
            report = statement(table.refresh(), chosen)
        else:
            report = statement(table, chosen, progress=meanwhile(rivals))
            clash = theirs in keys | ({2, 22} if what == "merge" else set()) | ({5, 25} if what == "merge" else set())
            if not clash or all("and" not in move for move in moves):
                assert report.reruns == 0, "it can be followed"
        rows = held(table)
        numbers = row_ids(indextables.open(table.url))
        counts = (report.deleted, report.updated, report.inserted)
        results.append((rows, {key: one for key, one in numbers.items() if key != 100}, counts))
        assert not table.refresh().verify().findings
    assert results[0] == results[1]


def test_rows_that_a_merge_depends_on_are_followed_too(tmp_path):
    """It found row 5 and left it alone; once that is gone, the row of the source is a new one."""
    table = made(tmp_path / "t")
    other = indextables.open(table.url)

    def rivals():
        other.merge_splits(cluster_by=["n"])
        other.delete("key = 5")

    source = [row(5, 70), row(6, 70)]
    merge = table.merge(source, ["key"]).when_matched_update_all(condition="t.key <> 5").when_not_matched_insert_all()
    report = merge.execute(progress=meanwhile(rivals))
    assert (report.updated, report.inserted, report.reruns) == (1, 1, 1)
    assert [held(table)[key]["n"] for key in (5, 6)] == [70, 70]


def test_a_statement_with_an_expected_version_goes_on_where_rows_were_only_moved(tmp_path):
    table = made(tmp_path / "t")
    version = table.version
    indextables.open(table.url).merge_splits(cluster_by=["n"])
    report = table.update({"n": "-1"}, "key = 3", expect_version=version)
    assert (report.updated, report.repairs, report.reruns) == (1, 1, 0)
    assert held(table)[3]["n"] == -1


def test_a_delete_that_takes_in_rows_of_others_follows_them_too(tmp_path):
    table = made(tmp_path / "t")
    table.append([row(50)])
    other = indextables.open(table.url)

    def rivals():
        other.upsert([row(40), row(41)], "key")
        other.merge_splits(cluster_by=["n"])

    report = table.delete("key IN (3, 40, 50)", progress=meanwhile(rivals))
    assert (report.deleted, report.repairs, report.reruns) == (3, 2, 0)
    assert sorted(held(table)) == [*(key for key in range(30) if key != 3), 41]


def test_a_table_whose_rows_have_no_ids_is_asked_again(tmp_path):
    table = indextables.open(placed(OLDER, tmp_path / "t"))
    table.append([{"id": 100, "message": "more"}])
    other = indextables.open(table.url)
    report = table.update({"message": "'changed'"}, "id = 0", progress=meanwhile(other.merge_splits))
    assert (report.updated, report.reruns) == (1, 1)
    assert table.count("changed") == 1
