"""What is immutable is opened once per process: splits are shared by handles, versions, threads and SQL."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import StoreError, VersionExpired
from indextables.options import Options
from indextables.storage import open_store
from indextables.storage.local import LocalStore

COLUMNS = pa.schema([("message", pa.string()), ("n", pa.int64())])
LOCAL = {"storage.fsync": "false"}
READS = ("get", "get_range", "get_ranges", "head")


class Opened:
    """Counts what is asked of the data files of local stores, by key."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        for name in READS:
            monkeypatch.setattr(LocalStore, name, self._counting(getattr(LocalStore, name)))

    def _counting(self, real):
        def ask(store, key, *args, **kwargs):
            if not key.startswith("_transaction_log/"):
                with self._lock:
                    self.asked[key] += 1
            return real(store, key, *args, **kwargs)

        return ask

    def by(self, act) -> dict[str, int]:
        self.asked.clear()
        act()
        return dict(self.asked)


@pytest.fixture
def opened(monkeypatch):
    return Opened(monkeypatch)


@pytest.fixture
def made(tmp_path):
    def make(splits: int, **options):
        given = {"cache.directory": str(tmp_path / "cache"), **LOCAL, **options}
        table = indextables.create(tmp_path / "t", COLUMNS, indexing={"message": "text"}, options=given)
        for n in range(splits):
            table.append([line(n)])
        return table, lambda **more: indextables.open(tmp_path / "t", options=given, **more)

    return make


def line(n: int) -> dict[str, object]:
    return {"message": f"common word{n}", "n": n}


@pytest.mark.parametrize("splits", [1, 12])
def test_a_new_handle_of_a_version_that_was_searched_opens_no_split(made, opened, splits):
    _, open_again = made(splits)
    assert open_again().count("common") == splits
    hits = open_again().search("common", limit=None)
    again = open_again()
    assert opened.by(lambda: again.count("common")) == {}
    assert opened.by(lambda: again.count("word0")) == {}
    assert opened.by(lambda: again.explain("common")) == {}
    assert open_again().search("common", limit=None).equals(hits)


def test_what_scans_know_of_a_split_brings_back_no_row_and_no_file(made):
    table, open_again = made(3)
    rows = open_again().to_arrow()
    with pytest.raises(VersionExpired):
        _without_first_file(table, lambda: open_again().to_arrow())
    table.delete("n = 1")
    assert open_again().to_arrow()["n"].to_pylist() == [0, 2], "a vector belongs to its version"
    assert open_again(version=3).to_arrow().equals(rows)
    feed = open_again().changes(4, 4).read_all()
    assert (feed["n"].to_pylist(), feed["_change_type"].to_pylist()) == ([1], ["delete"])


def _without_first_file(table, act) -> None:
    """`act` while the first file of the table is gone, as after a purge."""
    (path, *_) = sorted(Path(table.url.removeprefix("file://")).rglob("*.split"))
    aside = path.rename(path.with_suffix(".aside"))
    try:
        act()
    finally:
        aside.rename(path)


def test_sql_and_older_versions_have_the_splits_that_were_searched(made, opened):
    table, open_again = made(8)
    assert table.count("common") == 8
    assert opened.by(lambda: open_again(version=5).count("common")) == {}
    assert open_again(version=5).count("common") == 5
    statement = "SELECT count(*) AS rows FROM t WHERE TEXTSEARCH(message, 'common')"
    assert open_again().sql(statement)["rows"].to_pylist() == [8]
    session = indextables.LocalSession({"t": table.url}, {})
    assert session.run(statement)["rows"].to_pylist() == [8]


def test_after_an_append_only_the_new_split_is_opened(made, opened):
    table, open_again = made(8)
    watching = open_again()
    assert watching.count("common") == 8
    before = set(watching.files()["path"].to_pylist())
    table.append([line(8)])
    asked = opened.by(lambda: (watching.refresh(), watching.count("common"), table.count("common")))
    assert watching.count("common") == 9
    assert set(asked) == set(watching.files()["path"].to_pylist()) - before


def test_what_was_forgotten_is_opened_anew(made, opened):
    _, open_again = made(3)
    handle = open_again()
    assert handle.count("common") == 3
    indextables.invalidate_caches()
    assert {name: told.entries for name, told in indextables.cache_stats().regions.items() if told.entries} == {}
    assert len(opened.by(lambda: handle.count("common"))) == 3
    indextables.invalidate_caches(handle.url)
    assert len(opened.by(lambda: open_again().count("common"))) == 3


def test_the_statistics_tell_what_was_shared(made):
    _, open_again = made(3)
    open_again().count("common")
    before = indextables.cache_stats().regions
    open_again().count("common")
    after = indextables.cache_stats().regions
    assert after["searchers"].hits == before["searchers"].hits + 1
    assert after["splits"].entries == before["splits"].entries
    assert after["splits"].misses == before["splits"].misses
    assert after["indexes"].maps == before["indexes"].maps >= 18
    assert after["indexes"].size_bytes == before["indexes"].size_bytes > 0


def test_the_statistics_tell_all_that_is_kept_in_memory_and_each_table_is_forgotten_alone(made, tmp_path):
    def kept(region: str) -> tuple[int, int]:
        told = indextables.cache_stats().regions[region]
        return told.entries, told.size_bytes

    def asked(region: str) -> tuple[int, int]:
        told = indextables.cache_stats().regions[region]
        return told.hits, told.misses

    indextables.invalidate_caches()
    table, open_again = made(3)
    other = indextables.create(
        tmp_path / "other",
        COLUMNS,
        indexing={"message": "text"},
        options={"cache.directory": str(tmp_path / "cache"), **LOCAL},
    )
    other.append([line(n) for n in range(5)])
    assert len(other.search("common")) == 5
    alone = {region: kept(region) for region in ("rows", "smallSplits")}
    assert len(open_again().search("common")) == 3
    assert len(open_again().to_arrow()) == 3
    for region in ("rows", "smallSplits", "footers", "version"):
        assert min(kept(region)) > 0, region
    assert kept("rows") > alone["rows"]
    before = {region: asked(region) for region in ("rows", "smallSplits", "footers")}
    assert len(open_again().search("common", limit=9)) == 3
    assert len(open_again().to_arrow()) == 3
    assert asked("rows")[0] > before["rows"][0]
    assert asked("rows")[1] == before["rows"][1]
    assert asked("footers") == (before["footers"][0] + 3, before["footers"][1])
    indextables.invalidate_caches(table.url)
    assert {region: kept(region) for region in ("rows", "smallSplits")} == alone
    indextables.invalidate_caches()
    assert {name: told.size_bytes for name, told in indextables.cache_stats().regions.items() if told.size_bytes} == {}


def test_a_table_that_took_the_place_of_another_is_opened_itself(made, tmp_path):
    table, open_again = made(3)
    assert open_again().search("common", limit=None)["n"].to_pylist() == [0, 1, 2]
    shutil.rmtree(tmp_path / "t")
    other = indextables.create(tmp_path / "t", COLUMNS, indexing={"message": "text"})
    for n in (10, 11, 12):
        other.append([line(n)])
    assert other.version == table.version
    assert sorted(open_again().search("common", limit=None)["n"].to_pylist()) == [10, 11, 12]


def test_handles_with_other_options_do_not_share(made, tmp_path):
    _, open_again = made(4)
    both = "word1 word2"
    assert open_again().count(both) == 2
    strict = {"cache.directory": str(tmp_path / "cache"), "search.defaultOperator": "and"}
    assert indextables.open(tmp_path / "t", options=strict).count(both) == 0
    assert open_again().count(both) == 2


def test_a_store_is_another_one_with_other_credentials(monkeypatch):
    def identity(**given):
        options = {f"storage.{name}": value for name, value in given.items()}
        return open_store("s3://bucket/t", Options({"storage.endpoint": "http://127.0.0.1:1", **options})).identity

    ours = {"accessKey": "one", "secretKey": "very secret"}
    assert identity(**ours) == identity(**ours)
    assert identity(**ours) != identity(**ours | {"secretKey": "other"})
    assert identity(**ours) != identity(**ours | {"accessKey": "two"})
    assert identity(**ours) != identity(**ours | {"endpoint": "http://127.0.0.1:2"})
    assert "secret" not in repr(identity(**ours))
    before = identity()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "three")
    assert identity() != before


def test_a_table_in_memory_that_was_made_anew_is_another_one():
    def searched(n: int) -> list[int]:
        table = indextables.create("memory://anew/t", COLUMNS, indexing={"message": "text"})
        table.append([line(n)])
        found = indextables.open("memory://anew/t").search("common")["n"].to_pylist()
        store = open_store("memory://anew/t", Options())
        store.delete_many([meta.key for meta in store.list_from("")])
        return found

    assert [searched(1), searched(2)] == [[1], [2]]


@pytest.mark.slow
def test_threads_that_search_while_others_append_open_each_split_once(made, opened):
    table, open_again = made(4)
    # What opening a split costs where nobody else does.
    alone = max(opened.by(lambda: open_again().count("common")).values())
    indextables.invalidate_caches()
    mine = threading.local()
    opened.asked.clear()

    def search(_: int) -> bool:
        del _
        mine.handle = mine.handle.refresh() if hasattr(mine, "handle") else open_again()
        return mine.handle.count("common") == mine.handle.version

    with ThreadPoolExecutor(9) as pool:
        writer = pool.submit(lambda: [table.append([line(n)]) for n in range(4, 16)])
        assert all(pool.map(search, range(64)))
        assert writer.result()[-1] == 16
    assert open_again().count("common") == 16
    files = table.files()["path"].to_pylist()
    assert len(files) == 16
    assert {path: asked for path, asked in opened.asked.items() if asked > alone} == {}


def s3_table(s3, name: str, splits: int, folder) -> tuple[str, dict[str, str]]:
    given = {**s3.settings(), "cache.directory": str(folder)}
    table = indextables.create(s3.table_url(name), COLUMNS, indexing={"message": "text"}, options=given)
    for n in range(splits):
        table.append([line(n)])
    indextables.invalidate_caches()
    s3.calm()
    return s3.table_url(name), given


def asked_of_splits(s3) -> Counter[str]:
    return Counter(request.key for request in s3.requests if request.key.endswith(".split"))


@pytest.mark.slow
def test_the_first_search_asks_an_object_store_for_an_index_once_and_for_rows_once(s3, tmp_path):
    url, given = s3_table(s3, "asked", 12, tmp_path / "cache")
    table = indextables.open(url, options=given)
    assert table.count("common") == 12
    assert asked_of_splits(s3) == Counter(dict.fromkeys(asked_of_splits(s3), 1))
    assert len(asked_of_splits(s3)) == 12
    assert table.search("common", limit=None).num_rows == 12
    assert set(asked_of_splits(s3).values()) == {2}
    # What another process has read lies on the disk of this machine.
    indextables.invalidate_caches()
    s3.calm()
    assert indextables.open(url, options=given).count("common") == 12
    assert asked_of_splits(s3) == Counter()


@pytest.mark.slow
def test_who_may_not_read_a_table_does_not_see_what_others_opened(s3, tmp_path):
    url, given = s3_table(s3, "secret", 2, tmp_path / "cache")
    s3.access_keys = {s3.access_key}
    assert indextables.open(url, options=given).search("common", limit=None).num_rows == 2
    other = {**given, "storage.accessKey": "AKOTHEROTHEROTHEROTH"}
    with pytest.raises(StoreError):
        indextables.open(url, options=other).search("common", limit=None)
    assert indextables.open(url, options=given).search("common", limit=None).num_rows == 2
