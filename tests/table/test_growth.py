"""What a verb asks of the store does not grow with the versions that the table has."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import indextables
from indextables.storage.local import LocalStore

READS = ("get", "get_range", "get_ranges", "head", "exists", "list_from")
COLUMNS = pa.schema([("message", pa.string()), ("n", pa.int64())])


class Requests:
    """Counts what is asked of local stores."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        for name in READS:
            monkeypatch.setattr(LocalStore, name, self._counting(name, getattr(LocalStore, name)))

    def _counting(self, name, real):
        def ask(store, *args, **kwargs):
            self.counts[name] += 1
            return real(store, *args, **kwargs)

        return ask

    def of(self, act) -> dict[str, int]:
        self.counts.clear()
        act()
        return dict(self.counts)


@pytest.fixture
def requests(monkeypatch):
    return Requests(monkeypatch)


def rows(n: int) -> list[dict[str, object]]:
    return [{"message": f"line {n}", "n": n}]


def grown(table, upto: int) -> None:
    for n in range(table.version, upto):
        table.append(rows(n))


@pytest.mark.slow
@pytest.mark.parametrize(("states", "upto"), [("avro", 82), ("json", 32), ("parquet", 32)])
def test_an_append_by_one_handle_asks_the_same_however_many_versions_there_are(tmp_path, requests, states, upto):
    table = indextables.create(str(tmp_path / "t"), COLUMNS, properties={"state.format": states})
    grown(table, 5)
    early = requests.of(lambda: table.append(rows(5)))
    grown(table, upto)
    assert requests.of(lambda: table.append(rows(upto))) == early
    assert not {"get", "list_from"} & set(early)
    assert sorted(table.to_arrow()["n"].to_pylist()) == list(range(upto + 1))


@pytest.mark.slow
def test_what_a_handle_appended_is_read_from_the_newest_checkpoint_on(tmp_path, requests):
    table = indextables.create(str(tmp_path / "t"), COLUMNS)
    grown(table, 45)
    asked = requests.of(table.count)
    assert table.count() == 45
    # The checkpoint of version 40, its manifests, and the version files above it.
    assert asked["get"] <= 12


def test_a_handle_goes_on_where_another_handle_of_the_process_has_committed(tmp_path):
    path = str(tmp_path / "t")
    one = indextables.create(path, COLUMNS)
    other = indextables.open(path)
    for n in range(0, 24, 2):
        one.append(rows(n))
        other.append(rows(n + 1))
        assert other.count() == n + 2
    assert one.refresh().count() == 24
    assert sorted(indextables.open(path).to_arrow()["n"].to_pylist()) == list(range(24))


def test_what_another_process_appended_meanwhile_is_not_passed_over(tmp_path):
    path = str(tmp_path / "t")
    table = indextables.create(path, COLUMNS)
    table.append(rows(0))
    elsewhere = indextables.open(path, options={"transaction.cache.enabled": "false"})
    elsewhere.append(rows(1))
    table.append(rows(2))
    elsewhere.append(rows(3))
    assert table.append(rows(4)) == 5
    assert sorted(table.to_arrow()["n"].to_pylist()) == [0, 1, 2, 3, 4]


def test_an_append_that_lost_a_race_reads_the_files_of_the_winners_and_no_more(tmp_path, monkeypatch):
    one = indextables.create(str(tmp_path / "t"), COLUMNS)
    # By another name, so that what one handle remembers is not known to the other, as in two processes.
    (tmp_path / "link").symlink_to(tmp_path / "t")
    other = indextables.open(str(tmp_path / "link"))
    one.append(rows(0))
    other.refresh().append(rows(1))
    one.append(rows(2))
    other.append(rows(3))
    other.append(rows(4))
    read: list[str] = []
    real = LocalStore.get

    def get(store, key, **more):
        read.append(key)
        return real(store, key, **more)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "get", get)
        assert one.append(rows(5)) == 6
    slots = sorted({key for key in read if key.endswith(".json")})
    assert slots == [f"_transaction_log/{version:020d}.json" for version in (4, 5, 6)]
    assert len(read) == len(slots)
    assert sorted(one.to_arrow()["n"].to_pylist()) == list(range(6))
