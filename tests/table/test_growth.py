"""What a verb asks of the store does not grow with the versions that the table has."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from tests.servers.s3 import S3Server
from tests.world.tables import lengthened

import indextables
from indextables.cli import main
from indextables.log.wire import LOG_DIR
from indextables.storage.local import LocalStore
from indextables.storage.memory import MemoryStore
from indextables.table.environment import open_env

READS = ("get", "get_range", "get_ranges", "head", "exists", "list_from")
COLUMNS = pa.schema([("message", pa.string()), ("n", pa.int64())])


class Requests:
    """Counts what is asked of stores; a listing counts once for each page of 1,000 keys that is taken from it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        for kind in (LocalStore, MemoryStore):
            for name in READS:
                monkeypatch.setattr(kind, name, self._counting(name, getattr(kind, name)))
            monkeypatch.setattr(kind, "list_from", self._paging(kind.list_from))

    def _paging(self, real):
        def ask(store, *args, **kwargs):
            for number, meta in enumerate(real(store, *args, **kwargs)):
                self.counts["list_from"] += number > 0 and number % 1000 == 0
                yield meta

        return ask

    def _counting(self, name, real):
        def ask(store, *args, **kwargs):
            self.counts[name] += 1
            return real(store, *args, **kwargs)

        return ask

    def of(self, act) -> dict[str, int]:
        self.counts.clear()
        act()
        return {name: count for name, count in self.counts.items() if count}


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


@pytest.mark.slow
def test_writers_that_race_on_local_files_list_nothing_however_long_the_log_is(tmp_path, requests, monkeypatch):
    """Each of two processes loses to the other now and then, and a third only follows them."""
    one = indextables.create(str(tmp_path / "t"), COLUMNS)
    grown(one, 12)
    for name in ("link", "third"):
        (tmp_path / name).symlink_to(tmp_path / "t")
    other, follower = indextables.open(str(tmp_path / "link")), indextables.open(str(tmp_path / "third"))
    racing: list[indextables.Table] = []
    real = LocalStore.put_if_absent

    def put_if_absent(store, key, data, **more):
        if racing and key.endswith(".json"):
            racing.pop().append(rows(-1))
        return real(store, key, data, **more)

    monkeypatch.setattr(LocalStore, "put_if_absent", put_if_absent)

    def race() -> None:
        for number in range(50):
            first, second = (one, other) if number % 2 else (other, one)
            racing.extend([second] if number % 3 else [])
            first.append(rows(number))
            second.append(rows(number))

    for handle in (one, other, follower):
        handle.append(rows(0))
    counts = requests.of(race)
    assert one.refresh().version > 140
    assert "list_from" not in counts
    assert "list_from" not in requests.of(lambda: follower.refresh().count())
    assert other.refresh().count() == follower.count() == one.version


@pytest.mark.parametrize("verb", ["merge", "delete", "update", "checkpoint"])
def test_a_verb_that_loses_a_race_on_local_files_does_not_list_the_log(tmp_path, monkeypatch, verb):
    one = indextables.create(str(tmp_path / "t"), COLUMNS)
    grown(one, 23)
    (tmp_path / "link").symlink_to(tmp_path / "t")
    racing = [indextables.open(str(tmp_path / "link")) for _ in range(3)]
    # The newest version is another process's, so that nothing is known of its file but what reading it told.
    racing[0].append(rows(-1))
    one.refresh()
    listed: list[str] = []
    put, listing = LocalStore.put_if_absent, LocalStore.list_from

    def put_if_absent(store, key, data, **more):
        if racing and key.endswith(".json"):
            racing.pop().append(rows(-1))
        return put(store, key, data, **more)

    def list_from(store, prefix, *args, **kwargs):
        listed.append(prefix)
        return listing(store, prefix, *args, **kwargs)

    monkeypatch.setattr(LocalStore, "put_if_absent", put_if_absent)
    monkeypatch.setattr(LocalStore, "list_from", list_from)
    verbs = {
        "merge": one.merge_splits,
        "delete": lambda: one.delete("n = 3"),
        "update": lambda: one.update({"message": "'other'"}, where="n = 4"),
        "checkpoint": lambda: (one.append(rows(23)), one.checkpoint()),
    }
    verbs[verb]()
    assert LOG_DIR not in listed
    assert not racing
    assert one.refresh().count() == 23 + 4 + {"merge": 0, "delete": -1, "update": 0, "checkpoint": 1}[verb]


@pytest.fixture(params=["local", "memory"])
def urls(request, tmp_path):
    def make(name: str) -> str:
        return str(tmp_path / name) if request.param == "local" else f"memory://{tmp_path.name}-{name}/t"

    return make


def long(url: str, versions: int) -> str:
    """A table with so many versions, and with checkpoints in the middle and near the end."""
    indextables.create(url, COLUMNS).append(rows(0))
    middle = versions // 2
    env = open_env(url, {"storage.fsync": "false"})
    lengthened(env, versions, checkpoints=(10, middle, middle + 5, versions - 5))
    indextables.invalidate_caches()
    return url


def _appended(url: str) -> None:
    assert indextables.open(url).append(rows(1)) > 0


def _travelled(url: str, version: int) -> None:
    assert indextables.open(url, version=version).count() == 1


VERBS = {
    "open": lambda url, n: indextables.open(url),
    "count": lambda url, n: indextables.open(url).count(),
    "append": lambda url, n: _appended(url),
    "history": lambda url, n: indextables.open(url).history(3),
    "time travel to the beginning": lambda url, n: _travelled(url, 4),
    "time travel to the middle": lambda url, n: _travelled(url, n // 2 + 3),
    "time travel to a checkpoint": lambda url, n: _travelled(url, n // 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_new_process_asks_the_same_however_many_versions_there_are(urls, requests, verb):
    asked = []
    for versions in (20, 2000):
        url = long(urls(str(versions)), versions)
        asked.append(requests.of(lambda url=url, n=versions: VERBS[verb](url, n)))
    assert asked[0] == asked[1]


@pytest.mark.slow
def test_a_new_handle_and_a_refresh_ask_the_same_however_many_versions_there_are(urls, requests):
    asked = []
    for versions in (20, 2000):
        url = long(urls(str(versions)), versions)
        old = indextables.open(url)
        old.count()
        asked.append([requests.of(lambda url=url: indextables.open(url).append(rows(1)))])
        asked[-1] += [
            requests.of(lambda old=old: old.refresh().count()),
            requests.of(lambda url=url: indextables.open(url)),
        ]
    assert asked[0] == asked[1]


@pytest.mark.slow
def test_time_travel_by_time_asks_for_little_more_in_a_long_history(urls, requests):
    asked = []
    for versions in (20, 2000):
        url = long(urls(str(versions)), versions)
        times = indextables.open(url).history()["timestamp"].to_pylist()
        middle = times[len(times) // 2]
        indextables.invalidate_caches()
        asked.append(requests.of(lambda url=url, at=middle: indextables.open(url, timestamp=at).version))
    few, many = (Counter(one) for one in asked)
    assert many["list_from"] == few["list_from"]
    # Halving 2,000 versions takes seven steps more than halving 20: each looks for a file, and reads one.
    assert all(more <= 7 for more in (many - few).values())


@pytest.mark.parametrize("files", [1, 40])
def test_an_append_reads_no_manifest_however_many_files_there_are(tmp_path, requests, monkeypatch, files):
    table = indextables.create(str(tmp_path / "t"), COLUMNS, properties={"state.entriesPerManifest": "10"})
    grown(table, files)
    table.checkpoint()
    indextables.invalidate_caches()
    read: list[str] = []
    real = LocalStore.get
    monkeypatch.setattr(LocalStore, "get", lambda store, key, **more: (read.append(key), real(store, key, **more))[1])
    indextables.open(str(tmp_path / "t")).append(rows(files))
    assert not [key for key in read if "/manifests/" in key]


@pytest.mark.slow
@pytest.mark.parametrize("above", [0, 5])
def test_a_server_is_asked_the_same_by_a_cold_open_however_many_versions_there_are(above):
    asked = []
    with S3Server() as server:
        for versions in (20, 2000):
            options = server.options()
            url = server.table_url(f"t{versions}")
            indextables.create(url, COLUMNS, options=options)
            lengthened(open_env(url, options), versions, checkpoints=(versions - above,))
            indextables.invalidate_caches()
            server.requests.clear()
            assert indextables.open(url, options=options).version == versions
            asked.append(Counter("list" if "list-type" in seen.query else seen.method for seen in server.requests))
    assert asked[0] == asked[1]
    # The pointer, the empty slot, and a listing; the list of the state; then the versions above it, and the check file
    # of the newest.
    assert asked[0] == {"GET": 2 + 1 + 5 + 1 if above else 2 + 1, "list": 1}


@pytest.mark.slow
def test_ingest_asks_the_same_however_many_versions_there_are(tmp_path, requests, capfdbinary):
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"message": "a line", "n": 1}\n')
    asked = []
    for versions in (20, 2000):
        url = long(str(tmp_path / f"t{versions}"), versions)
        asked.append(requests.of(lambda url=url: main(["ingest", url, str(lines)])))
        assert indextables.open(url).version == versions + 1
    assert asked[0] == asked[1]
