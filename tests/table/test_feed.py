"""The feed of changes: what versions did to rows, applied to the version below, gives the version."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.golden.table.test_golden_rows import OLDER, placed
from tests.world.row_ids import scan_row_ids

import indextables
from indextables.errors import (
    InvalidArgument,
    NotSupported,
    QueryInvalid,
    SchemaMismatch,
    VersionExpired,
    VersionNotFound,
)
from indextables.log.commit import Transaction
from indextables.table.feed import Asked, FeedTail, read_bundle
from indextables.table.read import Limits, Place, Tail, place_from, place_to
from indextables.table.rows import fit, read_rows
from indextables.table.writing import target_of, write_adds

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("m", pa.string()), ("tags", pa.list_(pa.string()))])
META = ("_change_type", "_commit_version", "_commit_timestamp")


def row(k: int, m: str = "born", p: str = "a") -> dict[str, Any]:
    return {"k": k, "p": p, "m": m, "tags": [m, None] if k % 2 else None}


def told(table: indextables.Table, *args: Any, **asked: Any) -> list[tuple[int, str, int, str]]:
    """Version, change, key and message of each row of a feed, sorted."""
    rows = table.changes(*args, **asked).read_all().to_pylist()
    return sorted((r["_commit_version"], r["_change_type"], r["k"], r["m"]) for r in rows)


def kinds(table: indextables.Table, *args: Any, **asked: Any) -> Counter[tuple[str, int, str]]:
    return Counter(told_row[1:] for told_row in told(table, *args, **asked))


def by_id(table: indextables.Table, version: int) -> dict[int, dict[str, Any]]:
    """The rows of a version by their ids, read without the feed."""
    at = table.at(version)
    found: dict[int, dict[str, Any]] = {}
    for batch in scan_row_ids(at._log.env, at._snapshot):
        for one in batch.to_pylist():
            number = one.pop("_row_id")
            assert number not in found
            found[number] = one
    return found


def applied(rows: dict[int, dict[str, Any]], feed: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The rows after the changes, each of which must fit: what goes is as it was."""
    left = dict(rows)
    for change in (c for c in feed if c["_change_type"] in {"delete", "update_preimage"}):
        image = {name: value for name, value in change.items() if name not in {*META, "_row_id"}}
        assert left.pop(change["_row_id"]) == image
    for change in (c for c in feed if c["_change_type"] in {"insert", "update_postimage"}):
        assert change["_row_id"] not in left
        left[change["_row_id"]] = {n: v for n, v in change.items() if n not in {*META, "_row_id"}}
    both = [
        [c["_row_id"] for c in feed if c["_change_type"] == kind] for kind in ("update_preimage", "update_postimage")
    ]
    assert sorted(both[0]) == sorted(both[1]), "an image without its other one"
    return left


class World:
    """A table and the same rows in plain Python, with what each version must tell."""

    def __init__(self, path: Any, seed: int) -> None:
        self.random = random.Random(seed)
        self.table = indextables.create(path, SCHEMA, partition_by=["p"], indexing={"m": "text"})
        self.versions: list[dict[int, dict[str, Any]]] = [{}]
        self.expected: list[Counter[tuple[str, int, str]]] = [Counter()]

    def step(self) -> None:
        verbs = [self.append, self.append, self.delete, self.update, self.upsert, self.merge, self.overwrite]
        self.random.choice([*verbs, self.dynamic, self.drop, self.merge_splits, self.restore, self.delete_all])()

    def told(self, after: dict[int, dict[str, Any]], *, replaced: set[int] | None = None) -> None:
        """The verb made a version: rows with these keys are others by name, all others that differ are updates."""
        if self.table.version < len(self.versions):
            assert after == self.versions[-1], "a change of rows made no version"
            return
        before, again = self.versions[-1], replaced or set()
        found: Counter[tuple[str, int, str]] = Counter()
        for key in before.keys() | after.keys():
            old, new = before.get(key), after.get(key)
            is_update = old is not None and new is not None and key not in again
            if is_update and old == new and key not in self.touched:
                continue
            if old is not None:
                found["update_preimage" if is_update else "delete", key, old["m"]] += 1
            if new is not None:
                found["update_postimage" if is_update else "insert", key, new["m"]] += 1
        self.versions.append(after)
        self.expected.append(found)

    touched: frozenset[int] = frozenset()

    def keys(self, most: int = 3) -> list[int]:
        there = sorted(self.versions[-1])
        return self.random.sample(there, min(len(there), self.random.randint(0, most)))

    def append(self) -> None:
        first = max((key for version in self.versions for key in version), default=0) + 1
        rows = [row(first + n, p=self.random.choice("ab")) for n in range(self.random.randint(1, 6))]
        self.table.append(rows)
        self.told(self.versions[-1] | {one["k"]: one for one in rows})

    def delete(self) -> None:
        gone = self.keys()
        self.table.delete(f"k IN ({', '.join(map(str, [-1, *gone]))})")
        self.told({key: one for key, one in self.versions[-1].items() if key not in gone})

    def delete_all(self) -> None:
        place = self.random.choice("ab")
        self.table.delete(f"p = '{place}'")
        self.told({key: one for key, one in self.versions[-1].items() if one["p"] != place})

    def update(self) -> None:
        keys, place = self.keys(), self.random.choice("ab")
        self.table.update({"m": "'updated'", "p": f"'{place}'"}, f"k IN ({', '.join(map(str, [-1, *keys]))})")
        changed = {key: {**self.versions[-1][key], "m": "updated", "p": place} for key in keys}
        self.touched = frozenset(keys)
        self.told(self.versions[-1] | changed)

    def upsert(self) -> None:
        keys = [*self.keys(), 1000 + len(self.versions)]
        rows = [row(key, "upserted", self.random.choice("ab")) for key in keys]
        self.table.upsert(rows, on="k")
        self.touched = frozenset(keys)
        self.told(self.versions[-1] | {one["k"]: one for one in rows})

    def merge(self) -> None:
        keys = self.keys(4)
        gone, changed = keys[:2], keys[2:]
        source = pa.Table.from_pylist([{"k": key, "gone": key in gone} for key in [*keys, -5]])
        builder = self.table.merge(source, "t.k = s.k").when_matched_delete("s.gone")
        builder.when_matched_update({"m": "'merged'"}).execute()
        after = {key: one for key, one in self.versions[-1].items() if key not in gone}
        self.touched = frozenset(changed)
        self.told(after | {key: {**after[key], "m": "merged"} for key in changed})

    def overwrite(self) -> None:
        rows = [row(key, "written over") for key in self.keys()]
        self.table.overwrite(pa.Table.from_pylist(rows, SCHEMA))
        self.told({one["k"]: one for one in rows}, replaced=set(self.versions[-1]))

    def dynamic(self) -> None:
        rows = [row(3000 + len(self.versions), "dynamic", "b")]
        self.table.overwrite(rows, partitions="dynamic")
        self.told({k: one for k, one in self.versions[-1].items() if one["p"] != "b"} | {one["k"]: one for one in rows})

    def drop(self) -> None:
        self.table.drop_partitions("p = 'b'")
        self.told({key: one for key, one in self.versions[-1].items() if one["p"] != "b"})

    def merge_splits(self) -> None:
        self.table.merge_splits()
        for _ in range(len(self.versions), self.table.version + 1):
            self.versions.append(self.versions[-1])
            self.expected.append(Counter())

    def restore(self) -> None:
        version = self.random.randrange(len(self.versions))
        before = by_id(self.table, self.table.version)
        self.table.restore(version=version)
        if self.table.version < len(self.versions):
            return
        after = by_id(self.table, self.table.version)
        found: Counter[tuple[str, int, str]] = Counter()
        for number in before.keys() | after.keys():
            old, new = before.get(number), after.get(number)
            if old == new:
                continue
            if old is not None:
                found["delete" if new is None else "update_preimage", old["k"], old["m"]] += 1
            if new is not None:
                found["insert" if old is None else "update_postimage", new["k"], new["m"]] += 1
        self.versions.append(dict(self.versions[version]))
        self.expected.append(found)


def check(seed: int, path: Any, steps: int) -> None:
    world = World(path, seed)
    for _ in range(steps):
        world.touched = frozenset()
        world.step()
        assert {one["k"]: one for one in world.table.to_arrow().to_pylist()} == world.versions[-1]
    table, last = world.table, len(world.versions) - 1
    operations = {one["version"]: one["operation"] for one in table.history().to_pylist()}
    rows = [by_id(table, version) for version in range(last + 1)]
    columns = [*SCHEMA.names, "_row_id"]
    for version in range(1, last + 1):
        feed = table.changes(version, version, columns=columns).read_all().to_pylist()
        assert applied(rows[version - 1], feed) == rows[version]
        # A restore may bring rows back from where they were before they were merged: nothing of them has changed.
        skip = operations[version] == "RESTORE"
        assert kinds(table, version, version, skip_unchanged=skip) == world.expected[version], operations[version]
    for _ in range(6):
        first = world.random.randint(1, last)
        end = world.random.randint(first, last)
        net = table.changes(first, end, columns=columns, net=True).read_all().to_pylist()
        assert applied(rows[first - 1], net) == rows[end]
        slim = table.changes(first, end, columns=columns, net=True, skip_unchanged=True).read_all().to_pylist()
        assert applied(rows[first - 1], slim) == rows[end]
        differs = {n for n in rows[first - 1].keys() | rows[end].keys() if rows[first - 1].get(n) != rows[end].get(n)}
        assert {change["_row_id"] for change in slim} == differs
        whole = table.changes(first, end, columns=columns).read_all().to_pylist()
        single = [c for v in range(first, end + 1) for c in table.changes(v, v, columns=columns).read_all().to_pylist()]
        assert whole == single


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_changes_applied_to_a_version_give_the_later_one(tmp_path, seed):
    check(seed, tmp_path / "t", 24)


@pytest.mark.soak
def test_changes_of_many_histories_give_the_later_versions(tmp_path):
    for seed in range(10, 210):
        check(seed, tmp_path / str(seed), 30)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = indextables.create(tmp_path_factory.mktemp("feed") / "t", SCHEMA, indexing={"m": "text"})
    made.append([row(n) for n in range(4)])  # 1
    made.append([row(n) for n in range(4, 8)])  # 2
    made.update({"m": "'new'"}, "k IN (1, 5)")  # 3
    made.update({"m": "m"}, "k = 2")  # 4: nothing is other than it was
    made.merge_splits()  # 5
    made.upsert([row(1, "newer"), row(9, "came")], on="k")  # 6
    made.delete("k = 0")  # 7
    return made


def test_each_version_tells_what_it_did(table):
    assert told(table, 0, 2) == [(1, "insert", n, "born") for n in range(4)] + [
        (2, "insert", n, "born") for n in range(4, 8)
    ]
    assert told(table, 3, 3) == [
        (3, "update_postimage", 1, "new"),
        (3, "update_postimage", 5, "new"),
        (3, "update_preimage", 1, "born"),
        (3, "update_preimage", 5, "born"),
    ]
    assert told(table, 5, 5) == []
    assert told(table, 6) == [
        (6, "insert", 9, "came"),
        (6, "update_postimage", 1, "newer"),
        (6, "update_preimage", 1, "new"),
        (7, "delete", 0, "born"),
    ]
    feed = table.changes(7, 7).read_all()
    assert feed.schema.names == [*SCHEMA.names, *META]
    assert feed["_commit_timestamp"][0] == table.history(1)["timestamp"][0]


def test_a_range_folds_into_first_and_last_images(table):
    assert told(table, 3, net=True) == [
        (3, "update_postimage", 5, "new"),
        (3, "update_preimage", 5, "born"),
        (4, "update_postimage", 2, "born"),
        (4, "update_preimage", 2, "born"),
        (6, "insert", 9, "came"),
        (6, "update_postimage", 1, "newer"),
        (6, "update_preimage", 1, "born"),
        (7, "delete", 0, "born"),
    ]
    assert kinds(table, 3, net=True, skip_unchanged=True) == {
        ("update_preimage", 5, "born"): 1,
        ("update_postimage", 5, "new"): 1,
        ("insert", 9, "came"): 1,
        ("update_preimage", 1, "born"): 1,
        ("update_postimage", 1, "newer"): 1,
        ("delete", 0, "born"): 1,
    }


def test_updates_that_change_nothing_can_be_left_out(table):
    assert len(told(table, 4, 4)) == 2
    assert told(table, 4, 4, skip_unchanged=True) == []
    assert told(table, 3, 3, columns=["k", "m"], skip_unchanged=True) == told(table, 3, 3)
    assert table.changes(3, 3, columns=["k"], skip_unchanged=True).read_all().num_rows == 0


def test_a_predicate_looks_at_each_image_and_at_what_the_feed_adds(table):
    assert told(table, where="m = 'new'") == [
        (3, "update_postimage", 1, "new"),
        (3, "update_postimage", 5, "new"),
        (6, "update_preimage", 1, "new"),
    ]
    assert told(table, where="_change_type = 'delete' OR _commit_version = 6 AND k = 9") == [
        (6, "insert", 9, "came"),
        (7, "delete", 0, "born"),
    ]
    assert table.changes(3, 3, columns=["tags"], where="_commit_version = 3 AND k = 1").read_all().num_rows == 2
    with pytest.raises(QueryInvalid):
        table.changes(where="nothing = 1")


def test_ranges_are_found_by_time_and_may_be_empty(table):
    times = dict(zip(*(table.history()[name].to_pylist() for name in ("version", "timestamp")), strict=True))
    assert told(table, from_time=times[3], to_time=times[4]) == told(table, 3, 4)
    assert told(table, from_time=times[7] + dt.timedelta(minutes=1)) == []
    assert told(table.at(4), 5) == []
    assert told(table.at(4), 3) == told(table, 3, 4)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"from_version": 5, "to_version": 3}, InvalidArgument),
        ({"from_version": 99}, VersionNotFound),
        ({"to_version": 99}, VersionNotFound),
        ({"from_version": -1}, VersionNotFound),
        ({"from_version": 1, "from_time": 5}, InvalidArgument),
        ({"to_version": 1, "to_time": 5}, InvalidArgument),
        ({"columns": ["nothing"]}, InvalidArgument),
        ({"net": "yes"}, InvalidArgument),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(table, asked, error):
    with pytest.raises(error):
        table.changes(**asked)


def test_nothing_is_written_for_a_feed(table):
    root = Path(table.url.removeprefix("file://"))
    before = {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}
    table.changes().read_all()
    assert {path: path.stat().st_size for path in root.rglob("*") if path.is_file()} == before


def test_rows_without_ids_come_and_go_and_are_never_paired(tmp_path):
    table = indextables.open(placed(OLDER, tmp_path / "t"))
    first = table.version + 1
    table.append([{"id": 100, "message": "more"}])
    table.update({"message": "'changed'"}, "id = 100")
    found = table.changes(first).read_all().to_pylist()
    assert [(c["_commit_version"], c["_change_type"], c["message"]) for c in found] == [
        (first, "insert", "more"),
        (first + 1, "delete", "more"),
        (first + 1, "insert", "changed"),
    ]
    with pytest.raises(NotSupported, match="no ids"):
        table.changes(first, net=True).read_all()


def test_a_range_that_has_expired_names_the_first_version_that_works(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA)
    for n in range(3):
        table.append([row(n)])
    table.delete("k = 0")
    table.truncate_time_travel()
    kept = table.version
    table.append([row(9)])
    with pytest.raises(VersionExpired, match=f"is {kept + 1}$") as failure:
        table.changes()
    assert failure.value.details["earliest"] == kept + 1
    assert told(table, failure.value.details["earliest"]) == [(kept + 1, "insert", 9, "born")]


def test_columns_are_those_of_the_end_of_the_range(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("k", pa.int32()), ("m", pa.string()), ("x", pa.string())]))
    table.append([{"k": 1, "m": "old", "x": "gone"}])
    table.append(pa.table({"k": pa.array([2], pa.int64()), "m": ["wide"], "y": ["new"]}), merge_schema=True)
    feed = table.changes().read_all()
    assert feed.schema.field("k").type == pa.int64()
    assert feed.select(["k", "x", "y"]).to_pylist() == [
        {"k": 1, "x": "gone", "y": None},
        {"k": 2, "x": None, "y": "new"},
    ]
    table.overwrite(pa.table({"m": ["other"], "k": ["text"]}), overwrite_schema=True)
    with pytest.raises(SchemaMismatch, match="version 2"):
        table.changes(3)
    found = table.changes(3, columns=["m"]).read_all()
    assert sorted(zip(found["_change_type"].to_pylist(), found["m"].to_pylist(), strict=True)) == [
        ("delete", "old"),
        ("delete", "wide"),
        ("insert", "other"),
    ]


def test_sql_reads_changes_where_a_table_stands(table):
    counted = table.sql(
        "SELECT _commit_version v, count(*) n FROM table_changes('t', 3, '2999-01-01') GROUP BY 1 ORDER BY 1"
    )
    assert counted.to_pylist() == [{"v": 3, "n": 4}, {"v": 4, "n": 2}, {"v": 6, "n": 3}, {"v": 7, "n": 1}]
    found = table.sql(
        "SELECT c.K, c._change_type FROM table_changes(t, $a, 7) AS c JOIN t ON c.k = t.k", params={"a": 6}
    )
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [
        (1, "update_postimage"),
        (1, "update_preimage"),
        (9, "insert"),
    ]
    session = indextables.LocalSession({"ev": table.url})
    assert session.run("SELECT count(*) n FROM table_changes('ev', 0)")["n"].to_pylist() == [18]
    assert session.run("SELECT 'table_changes(1)' AS text")["text"].to_pylist() == ["table_changes(1)"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("table_changes('t')", QueryInvalid),
        ("table_changes('t', 1, 2, 3)", QueryInvalid),
        ("table_changes('t', 1 + 1)", QueryInvalid),
        ("table_changes('nobody', 1)", InvalidArgument),
        ("table_changes('t', 'noon')", InvalidArgument),
        ("table_changes('t', 99)", VersionNotFound),
        ("table_changes('t', 1) WHERE TEXTSEARCH(m, 'born')", NotSupported),
    ],
)
def test_calls_that_mean_nothing_are_refused(table, call, error):
    with pytest.raises(error):
        table.sql(f"SELECT * FROM {call}")


@pytest.mark.parametrize("files", [1, 2, 3, None])
def test_a_stream_that_is_killed_anywhere_reads_each_change_once_and_both_images_together(table, files):
    chance = random.Random(files or 0)
    asked = Asked.of(table._snapshot.schema, None, None, skip_unchanged=False)

    def tail() -> FeedTail:
        """As a process that was just started."""
        return FeedTail(table._log, table._log.env, table._snapshot)

    place, read = Place(0, 0), []
    while place.version <= table.version:
        end = tail().reach(place, Limits(files=files), head=chance.randint(place.version, table.version))
        assert end != place
        for _ in range(chance.randint(1, 3)):  # Killed after the offset was written, or while rows were read.
            again = tail()
            bundles = list(again.bundles_between(place_from(place_to(place, "x"), "x"), end))
            piece = [
                change
                for one in bundles
                for batch in read_bundle(again.feed.env, one, asked)
                for change in batch.to_pylist()
            ]
        images = [
            Counter(c["k"] for c in piece if c["_change_type"] == kind)
            for kind in ("update_preimage", "update_postimage")
        ]
        assert images[0] == images[1], "the images of one update came apart"
        read += piece
        place = end
    assert read == table.changes().read_all().to_pylist()
    whole = tail().starting()
    inserted = [
        c
        for one in tail().bundles_between(whole, Place(table.version + 1, 0))
        for b in read_bundle(table._log.env, one, asked)
        for c in b.to_pylist()
    ]
    assert {c["_change_type"] for c in inserted} == {"insert"}
    assert sorted(c["k"] for c in inserted) == sorted(table.to_arrow()["k"].to_pylist())


@pytest.mark.parametrize("by", ["verb", "property", "delta"])
def test_rows_of_an_older_table_get_their_ids_by_one_commit(tmp_path, by):
    table = indextables.open(placed(OLDER, tmp_path / "t"))
    table.update({"message": "'before'"}, "id = 0")
    rows, paths = table.to_arrow(), set(table.files()["path"].to_pylist())
    appended = indextables.open(table.url)
    if by == "verb":
        version = table.enable_row_tracking()
        assert table.enable_row_tracking() == version
    else:
        version = table.set_properties({"enableRowTracking" if by == "property" else "delta.enableRowTracking": "true"})
    assert version == table.version
    assert table.to_arrow() == rows
    assert set(table.files()["path"].to_pylist()) == paths
    assert table.changes(version, version).read_all().num_rows == 0
    stream = Tail(table._log, table.metadata)
    assert list(stream.files_between(Place(version, 0), Place(version + 1, 0))) == [], "a stream reads the rows again"
    ids = by_id(table, version)
    assert None not in ids
    appended.append([{"id": 200, "message": "by who did not know"}])
    table.refresh()
    table.update({"message": "'after'"}, "id IN (0, 200)")
    assert by_id(table, table.version).keys() > ids.keys()
    found = table.changes(table.version, columns=["id"]).read_all()
    assert sorted(zip(found["_change_type"].to_pylist(), found["id"].to_pylist(), strict=True)) == [
        ("update_postimage", 0),
        ("update_postimage", 200),
        ("update_preimage", 0),
        ("update_preimage", 200),
    ]
    assert table.changes(version, net=True).read_all().num_rows == 3
    assert table.verify().ok
    indextables.invalidate_caches()
    table.checkpoint()
    assert by_id(indextables.open(table.url), table.version) == by_id(table, table.version)


def test_an_append_in_flight_follows_when_rows_get_ids(tmp_path):
    table = indextables.open(placed(OLDER, tmp_path / "t"))
    log, before = table._log, table._snapshot
    committing = Transaction(log, before, operation="WRITE")
    adds = write_adds(log.env, target_of(before.metadata, log.env.over(before.metadata.configuration)), fitted(before))
    version = indextables.open(table.url).enable_row_tracking()
    committing.add(adds).commit_or_raise()
    table.refresh()
    assert table.version == version + 1
    assert None not in by_id(table, table.version)
    assert table.count(where="id = 300") == 1


def fitted(snapshot: Any) -> Any:
    rows = read_rows([{"id": 300, "message": "in flight"}], snapshot.schema)
    return fit(rows, snapshot.schema)


def test_a_dropped_column_that_a_restore_brings_back_is_not_told_as_if_it_had_been_there(tmp_path: Path) -> None:
    """Its values are back in rows that no version changed, so that the feed cannot make one version of the other."""
    table = indextables.create(tmp_path / "t", SCHEMA)
    table.append([row(1), row(2)])
    table.drop_columns("m")
    table.delete("k = 2")
    table.restore(version=1)

    with pytest.raises(SchemaMismatch, match=r"m had been dropped at version 2.*columns=\[\.\.\.\]") as refused:
        table.changes(from_version=3)
    assert refused.value.details["columns"] == ["m"]
    assert kinds(table, from_version=2) == Counter({("delete", 2, "born"): 1, ("insert", 2, "born"): 1})
    without = table.changes(from_version=3, columns=["k"]).read_all().to_pylist()
    assert [(r["_change_type"], r["k"]) for r in without] == [("delete", 2), ("insert", 2)]
    assert table.changes(from_version=5).read_all().num_rows == 0


def test_an_old_type_is_told_by_the_name_that_the_column_has_now(tmp_path: Path) -> None:
    table = indextables.create(tmp_path / "t", pa.schema([("k", pa.int64()), ("n", pa.int32())]))
    table.append([{"k": 1, "n": 1}])
    table.alter_column("n", type="bigint")
    table.append([{"k": 2, "n": 2}])
    table.restore(version=1)
    table.rename_column("n", "size")

    with pytest.raises(SchemaMismatch, match=r"column size is int64"):
        table.changes().read_all()
    assert table.changes(columns=["k"]).read_all().num_rows == 3
