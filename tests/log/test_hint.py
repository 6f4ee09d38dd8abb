"""`_last_checkpoint` saves a listing and changes no result, whatever it says and whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.commits import METADATA, add, open_log
from tests.log.scripted import SLOT
from tests.log.test_commit import Place, place
from tests.log.test_lost_ground import without_links
from tests.log.test_refilled import NOTHING_KEPT, Stopped
from tests.world.clock import Clock
from tests.world.commits import append
from tests.world.store import CountingStore

from indextables.env import Env
from indextables.errors import CheckpointError, LogError, ObjectNotFound, TableNotFound, VersionExpired
from indextables.log.care.cleanup import clean_up
from indextables.log.care.schedule import checkpoint
from indextables.log.commit.create import create_table
from indextables.log.read.histories import version_at
from indextables.log.read.log import Log
from indextables.log.read.nearby import oldest_version
from indextables.log.wire.actions import CommitInfo
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import LOG_DIR, POINTER_KEY, crc_key, parse_key, version_key

__all__ = ["place"]

FORMATS = ["avro", "json", "parquet"]


class World:
    """A log whose versions add one file each, `true-<version>`, and processes that look at it."""

    def __init__(self, place: Place, form: str = "avro") -> None:
        self.place, self.form = place, form
        self.store = self.process().env.store.store
        create_table(self.process(), METADATA)

    def process(self, **more: object) -> Log:
        return self.place.process(**NOTHING_KEPT, state__format=self.form, **more)

    def commit(self, upto: int) -> None:
        log = self.process()
        for number in range(log.latest_version() + 1, upto + 1):
            append(log, [add(f"true-{number}")])

    def checkpoint(self, upto: int | None = None) -> None:
        if upto is not None:
            self.commit(upto)
        checkpoint(self.process().env)

    def clean(self) -> None:
        env = self.process().env
        clean_up(msgspec.structs.replace(env, ambient=Clock(env.ambient.now_ms() + 10**12)))

    def point(self, **fields: object) -> None:
        self.store.put(POINTER_KEY, json.dumps(fields).encode())

    def state_files(self) -> dict[str, bytes]:
        """All but the version files and their check files."""
        keys = [meta.key for meta in self.store.list_from(LOG_DIR)]
        return {
            key: self.store.get(key) for key in keys if not key.endswith((".crc", *(f"{n}.json" for n in range(10))))
        }

    def seen(self) -> object:
        """What a new process finds: a version and its files, or why there is none."""
        try:
            snapshot = self.process().snapshot()
            return snapshot.version, sorted(snapshot.files["path"].to_pylist())
        except (LogError, TableNotFound) as error:
            return type(error)

    def travelled(self) -> dict[int, object]:
        """What new processes find at the old versions, or why there is none."""
        found: dict[int, object] = {}
        for version in range(9):
            try:
                snapshot = self.process().snapshot(version)
                found[version] = snapshot.table_id, tuple(sorted(snapshot.files["path"].to_pylist()))
            except (LogError, TableNotFound) as error:
                found[version] = type(error)
        return found


def nothing_special(world: World) -> None:
    world.checkpoint(6)
    world.commit(9)


def the_newest_version_is_the_checkpoint(world: World) -> None:
    world.checkpoint(6)


def an_older_checkpoint(world: World) -> None:
    world.checkpoint(3)
    old = world.store.get(POINTER_KEY)
    world.checkpoint(6)
    world.commit(8)
    world.store.put(POINTER_KEY, old)


def a_checkpoint_that_is_far_below(world: World) -> None:
    world.checkpoint(2)
    world.commit(75)


def a_checkpoint_that_cleanup_took(world: World) -> None:
    world.checkpoint(3)
    old = world.store.get(POINTER_KEY)
    world.checkpoint(6)
    world.commit(8)
    world.clean()
    world.store.put(POINTER_KEY, old)


def a_checkpoint_at_the_cut(world: World) -> None:
    world.checkpoint(3)
    world.commit(8)
    world.clean()


def a_checkpoint_that_never_was(world: World) -> None:
    world.checkpoint(3)
    world.commit(6)
    world.point(version=5, format=_kind(world), stateDir=f"state-v{5:020d}")


def a_checkpoint_above_the_newest_version(world: World) -> None:
    world.checkpoint(3)
    world.commit(6)
    world.point(version=500, format=_kind(world), stateDir=f"state-v{500:020d}")


def a_damaged_checkpoint(world: World) -> None:
    world.checkpoint(3)
    before = set(world.state_files())
    world.checkpoint(6)
    world.commit(8)
    for key in set(world.state_files()) - before - {POINTER_KEY}:
        world.store.put(key, b"garbage")


def a_lost_version_above_it(world: World) -> None:
    world.checkpoint(3)
    world.commit(8)
    world.store.delete_many([version_key(6)])


def the_first_version_above_it_lost(world: World) -> None:
    world.checkpoint(3)
    world.commit(8)
    world.store.delete_many([version_key(4)])


def many_lost_versions_above_it(world: World) -> None:
    world.checkpoint(3)
    world.commit(24)
    world.store.delete_many([version_key(number) for number in range(4, 18)])


def a_lost_version_below_it(world: World) -> None:
    world.checkpoint(5)
    world.commit(8)
    world.store.delete_many([version_key(2)])


def the_newest_version_lost_above_it(world: World) -> None:
    world.checkpoint(3)
    world.commit(8)
    world.store.delete_many([version_key(8)])


def the_newest_file_lost_of_a_checkpoint(world: World) -> None:
    world.checkpoint(6)
    world.store.delete_many([version_key(6)])


def a_damaged_version_above_it(world: World) -> None:
    world.checkpoint(3)
    world.commit(8)
    world.store.put(version_key(5), b"garbage")


def another_tables_file_above_it(world: World) -> None:
    world.checkpoint(3)
    world.commit(5)
    info = CommitInfo(inCommitTimestamp=9, operation="LATE", token="f" * 32, tableId="another")
    world.store.put(version_key(6), encode_version([info, add("z")], compress=True))


def _dropped(world: World, left: Callable[[str], bool]) -> None:
    """The table is dropped and made anew; of the old one those keys are left, or come late."""
    old = {meta.key: world.store.get(meta.key) for meta in world.store.list_from("")}
    world.store.delete_many(list(old))
    create_table(world.process(), msgspec.structs.replace(METADATA, id="anew"))
    for key, data in old.items():
        if left(key):
            world.store.put(key, data)


def a_checkpoint_of_a_dropped_table_above(world: World) -> None:
    world.checkpoint(6)
    kept = set(world.state_files())
    _dropped(world, kept.__contains__)
    world.commit(2)


def a_checkpoint_of_a_dropped_table_among_the_versions(world: World) -> None:
    world.checkpoint(4)
    kept = set(world.state_files())
    _dropped(world, kept.__contains__)
    world.commit(7)


def a_checkpoint_of_a_dropped_table_at_the_newest(world: World) -> None:
    world.checkpoint(4)
    kept = set(world.state_files())
    _dropped(world, kept.__contains__)
    world.commit(4)


def only_the_pointer_of_a_dropped_table(world: World) -> None:
    world.checkpoint(4)
    _dropped(world, lambda key: key == POINTER_KEY)
    world.commit(7)


def a_dropped_tables_checkpoint_and_the_version_above(world: World) -> None:
    world.checkpoint(4)
    world.commit(5)
    kept = {*world.state_files(), version_key(5)}
    _dropped(world, kept.__contains__)
    world.commit(2)


def _refilled(world: World, at: int) -> Callable[[], object]:
    """A sleeper at a slot; what it returns wakes it up."""
    world.commit(at - 1)
    sleeper = world.process()
    held: list[Callable[[], object]] = []

    def hold(call: Callable[[], object]) -> object:
        held.append(call)
        raise Stopped

    sleeper.env.store.play("put_if_absent", SLOT, hold)
    with pytest.raises(Stopped):
        append(sleeper, [add("phantom")], operation="PHANTOM")
    return held[0]


def a_refilled_slot_at_the_hint(world: World) -> None:
    """The checkpoint is the cut, and its slot is filled again; what is above was cut by a newer checkpoint."""
    wake = _refilled(world, 4)
    world.checkpoint(4)
    old = {**world.state_files()}
    world.checkpoint(8)
    world.clean()
    wake()
    for key, data in old.items():
        world.store.put(key, data)


def a_refilled_slot_above_the_hint(world: World) -> None:
    """A slow checkpointer's state lies below the cut, and right above it a slot that was refilled."""
    world.checkpoint(3)
    old = {**world.state_files()}
    wake = _refilled(world, 4)
    world.checkpoint(8)
    world.clean()
    wake()
    for key, data in old.items():
        world.store.put(key, data)


SITUATIONS = [
    nothing_special,
    the_newest_version_is_the_checkpoint,
    an_older_checkpoint,
    a_checkpoint_that_is_far_below,
    a_checkpoint_that_cleanup_took,
    a_checkpoint_at_the_cut,
    a_checkpoint_that_never_was,
    a_checkpoint_above_the_newest_version,
    a_damaged_checkpoint,
    a_lost_version_above_it,
    the_first_version_above_it_lost,
    many_lost_versions_above_it,
    a_lost_version_below_it,
    the_newest_version_lost_above_it,
    the_newest_file_lost_of_a_checkpoint,
    a_damaged_version_above_it,
    another_tables_file_above_it,
    a_checkpoint_of_a_dropped_table_above,
    a_checkpoint_of_a_dropped_table_among_the_versions,
    a_checkpoint_of_a_dropped_table_at_the_newest,
    only_the_pointer_of_a_dropped_table,
    a_dropped_tables_checkpoint_and_the_version_above,
    a_refilled_slot_at_the_hint,
    a_refilled_slot_above_the_hint,
]


def _kind(world: World) -> str:
    return "avro-state" if world.form == "avro" else world.form


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_reader_with_the_hint_finds_what_one_without_it_finds(place, form, situation):
    world = World(place, form)
    situation(world)
    assert world.store.exists(POINTER_KEY)
    hinted = world.seen()
    world.store.delete_many([POINTER_KEY])
    assert hinted == world.seen()


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_old_version_is_found_with_the_hint_as_without_it(place, situation):
    world = World(place)
    situation(world)
    hinted = world.travelled()
    world.store.delete_many([POINTER_KEY])
    for version, expected in world.travelled().items():
        # Below a file that was lost a listing of the whole log takes everything for expired; by name it is found.
        truth = ("table", tuple(sorted(f"true-{number}" for number in range(1, version + 1))))
        assert hinted[version] in ({expected, truth} if expected is VersionExpired else {expected}), version


def test_a_hint_that_cannot_be_read_is_none(tmp_path):
    world = World(Place(str(tmp_path / "t")))
    world.checkpoint(3)
    world.commit(4)
    world.store.delete_many([POINTER_KEY])
    (tmp_path / "t" / POINTER_KEY).mkdir()
    assert world.seen() == (4, [f"true-{number}" for number in range(1, 5)])


DAMAGED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'{"version":-1}',
    b'{"version":1e30,"format":"avro-state"}',
    b'{"version":18446744073709551616,"format":"avro-state"}',
    b'{"version":9223372036854775808,"format":"avro-state"}',
    b'{"version":9223372036854775807,"format":"avro-state"}',
    b'{"version":3}',
    b'{"version":3,"format":"avro-state","stateDir":"../../elsewhere"}',
    b'{"version":3,"format":"parquet","parts":1000000000}',
    b'{"version":3,"format":"parquet","parts":-1}',
    b'{"version":3,"format":"json","parts":7}',
    b'{"version":3,"format":"other"}',
    b'{"version":true}',
    b"\xff\xfe",
    b"[" * 100_000,
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_hint_is_none(place, content):
    world = World(place)
    world.checkpoint(3)
    world.commit(6)
    world.store.put(POINTER_KEY, content)
    assert world.seen() == (6, [f"true-{number}" for number in range(1, 7)])


class Interrupted(CountingStore):
    """Lets something happen once, right before a call of a number."""

    def __init__(self, store: object, at: int, happens: Callable[[], None]) -> None:
        super().__init__(store)  # type: ignore[arg-type]
        self._left, self._happens, self._lock = at, happens, threading.Lock()

    def __getattr__(self, name: str) -> object:
        if name in {"head", "exists"}:
            self._step()
        return super().__getattr__(name)

    def _step(self) -> None:
        # Versions are read by several threads: none goes on meanwhile.
        with self._lock:
            self._left -= 1
            if self._left == -1:
                self._happens()

    def get(self, key: str, **more: object) -> bytes:
        self._step()
        return super().get(key, **more)

    def list_from(self, prefix: str, after: str | None = None, **more: object):
        self._step()
        return super().list_from(prefix, after, **more)

    dies_after_a_state = False

    def put_if_absent(self, key: str, data: bytes, **more: object) -> object:
        self._step()
        answer = self._store.put_if_absent(key, data, **more)
        if self.dies_after_a_state and "state-v" in key:
            raise Stopped
        return answer

    @property
    def happened(self) -> bool:
        return self._left < 0


def goes_on(world: World, wake: Callable[[], object]) -> None:
    world.commit(11)


def goes_on_to_a_checkpoint(world: World, wake: Callable[[], object]) -> None:
    world.checkpoint(9)


def cleans_up(world: World, wake: Callable[[], object]) -> None:
    world.clean()


def overtakes(world: World, wake: Callable[[], object]) -> None:
    """All that the reader may have listed is committed over, cleaned up, and one slot of it refilled."""
    world.checkpoint(10)
    world.commit(12)
    world.clean()
    wake()


def cuts_at_the_newest(world: World, wake: Callable[[], object]) -> None:
    """The newest version is checkpointed, cleaned up under the next one, and its slot refilled."""
    world.checkpoint()
    world.commit(9)
    world.clean()
    wake()


def overtakes_in_another_format(world: World, wake: Callable[[], object]) -> None:
    other = World.__new__(World)
    other.place, other.store = world.place, world.store
    other.form = "json" if world.form == "avro" else "avro"
    overtakes(other, wake)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "form", "slot"),
    [
        (goes_on, "avro", 6),
        (goes_on_to_a_checkpoint, "avro", 6),
        (cleans_up, "avro", 6),
        (overtakes, "avro", 6),
        (overtakes, "avro", 8),
        (overtakes, "json", 8),
        (cuts_at_the_newest, "avro", 8),
        (cuts_at_the_newest, "json", 8),
        (overtakes_in_another_format, "avro", 8),
        (overtakes_in_another_format, "json", 6),
    ],
)
def test_whatever_happens_between_two_requests_a_reader_with_the_hint_sees_what_was_committed(
    tmp_path, event, form, slot
):
    for kind in ("local", "memory"):
        for at in itertools.count():
            url = str(tmp_path / f"{kind}{at}") if kind == "local" else f"memory://{tmp_path.name}{at}/table"
            world = World(Place(url), form)
            world.checkpoint(5)
            wake = _refilled(world, slot)
            world.commit(8)
            if not _sees_what_was_committed(world, at, lambda: event(world, wake)):  # noqa: B023 - called in this turn
                break
        assert at > 7


def _sees_what_was_committed(world: World, at: int, event: Callable[[], None]) -> bool:
    """False if the reader was done before its call of number `at`."""
    env = world.process().env
    store = Interrupted(env.store, at, event)
    snapshot = open_log(Env(store, env.ambient, env.options)).snapshot()  # type: ignore[arg-type]
    expected = sorted(f"true-{number}" for number in range(1, snapshot.version + 1))
    assert snapshot.version >= 8
    # That the version is gone by the time its files are asked for is no lie.
    with contextlib.suppress(VersionExpired):
        assert sorted(snapshot.files["path"].to_pylist()) == expected, at
    return store.happened


@pytest.mark.parametrize("above", [0, 1, 5])
@pytest.mark.parametrize("form", FORMATS)
def test_a_cold_open_asks_an_object_store_for_four_things_and_what_it_reads(place, form, above):
    world = World(place, form)
    world.checkpoint(12)
    world.commit(12 + above)
    env = world.process().env
    store = CountingStore(env.store.store)
    snapshot = open_log(Env(store, env.ambient, env.options)).snapshot()
    assert snapshot.version == 12 + above
    asked = [call.key for call in store.calls if call.verb != "list"]
    listings = len(store.calls) - len(asked)
    if store.is_local:
        assert listings == 0
        return
    slots = [version_key(12 + number) for number in range(1, above + 2)]
    assert [key for key in asked if key in slots] == slots
    state = [key for key in asked if "state-v" in key or ".checkpoint." in key]
    assert len(state) == 1
    # The newest version that was read is held against its check file. Without any, a JSON or Parquet checkpoint does
    # not say of which version file it was made.
    rest = [crc_key(12 + above)] if above else [] if form == "avro" else [version_key(12)]
    assert sorted(asked) == sorted([POINTER_KEY, *slots, *state, *rest])
    assert listings == 1


class Lagging(CountingStore):
    """Listings do not show these keys yet."""

    def __init__(self, store: object, hidden: Callable[[str], bool]) -> None:
        super().__init__(store)  # type: ignore[arg-type]
        self._hidden = hidden

    def list_from(self, prefix: str, after: str | None = None, **more: object):
        return (meta for meta in super().list_from(prefix, after, **more) if not self._hidden(meta.key))


@pytest.mark.slow
@pytest.mark.parametrize("shown", [-1, 4, 5, 7])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("checkpoint", [5, 8])
def test_a_listing_that_lags_behind_hides_no_version_and_no_time(place, form, checkpoint, shown):
    world = World(place, form)
    world.checkpoint(checkpoint)
    world.commit(8)
    times = world.process().read_versions([0, 4, 5, 8])
    env = world.process().env

    def hidden(key: str) -> bool:
        file = parse_key(key)
        return file is not None and file.version > shown

    def cold() -> Log:
        return open_log(Env(Lagging(env.store.store, hidden), env.ambient, env.options))

    snapshot = cold().snapshot()
    assert (snapshot.version, snapshot.files.num_rows) == (8, 8)
    for content in times:
        assert version_at(cold(), content.timestamp_ms) == content.version
        assert cold().snapshot(content.version).files.num_rows == content.version


def test_the_oldest_version_is_found_though_no_listing_shows_it(place):
    world = World(place, "avro")
    world.commit(3)
    env = world.process().env
    assert oldest_version(Env(Lagging(env.store.store, lambda key: True), env.ambient, env.options), 3) == 0


@pytest.mark.slow
@pytest.mark.parametrize("above", [40, 64, 65])
def test_many_versions_above_a_hint_are_read(place, above):
    world = World(place)
    world.checkpoint(2)
    world.commit(2 + above)
    assert world.seen() == (2 + above, sorted(f"true-{number}" for number in range(1, 3 + above)))


POINTERS = st.one_of(
    st.binary(max_size=40),
    st.fixed_dictionaries(
        {"version": st.one_of(st.integers(-2, 14), st.integers(-(2**65), 2**65), st.none(), st.floats())},
        optional={
            "format": st.one_of(st.sampled_from(["avro-state", "json", "parquet", "avro", "", "flat"]), st.none()),
            "parts": st.one_of(st.integers(-1, 4), st.integers(), st.none()),
            "stateDir": st.one_of(st.sampled_from([f"state-v{n:020d}" for n in range(13)]), st.text(max_size=20)),
            "checksum": st.text(max_size=20),
            "size": st.integers(),
        },
    ).map(lambda fields: json.dumps(fields).encode()),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_no_hint_changes_what_is_read(tmp_path, kind):
    world = World(Place(str(tmp_path / "t") if kind == "local" else f"memory://{tmp_path.name}/hostile"))
    for number, form in ((3, "avro"), (5, "json"), (6, "parquet"), (9, "avro")):
        world.form = form
        world.checkpoint(number)
    world.commit(12)
    left = {key: world.store.get(key) for key in world.state_files() if key != POINTER_KEY}
    expected = (12, sorted(f"true-{number}" for number in range(1, 13)))

    @given(pointer=POINTERS)
    def hostile(pointer: bytes) -> None:
        world.store.put(POINTER_KEY, pointer)
        assert world.seen() == expected

    hostile()
    _dropped(world, left.__contains__)
    world.commit(9)
    expected = (9, sorted(f"true-{number}" for number in range(1, 10)))
    hostile()


@pytest.mark.slow
def test_a_checkpointer_of_a_dropped_table_never_vouches_for_the_file_of_another(tmp_path):
    """It sleeps before one of its requests, the table is made anew meanwhile, and it dies once its state is there."""
    for at in itertools.count():
        world = World(Place(f"memory://{tmp_path.name}-{at}/table"))
        world.commit(6)

        def anew(world: World = world) -> None:
            _dropped(world, lambda key: False)
            world.commit(6)

        env = world.process().env
        store = Interrupted(env.store, at, anew)
        store.dies_after_a_state = True
        with contextlib.suppress(Stopped, LogError, CheckpointError, ObjectNotFound):
            checkpoint(Env(store, env.ambient, env.options))  # type: ignore[arg-type]
        world.point(version=6, format="avro-state", stateDir=f"state-v{6:020d}")
        log = world.process()
        expected = log.read_version(6).table_id
        assert log.snapshot().table_id == world.process().metadata_at().metadata.id == expected
        if not store.happened:
            break
    assert at > 6


@pytest.mark.parametrize("form", FORMATS)
def test_a_checkpoint_is_read_once_for_the_header_and_the_files(place, form):
    world = World(place, form)
    world.checkpoint(6)
    world.commit(8)
    env = world.process().env
    store = CountingStore(env.store.store)
    snapshot = open_log(Env(store, env.ambient, env.options)).snapshot()
    assert snapshot.files.num_rows == 8
    states = [call.key for call in store.reads if "state-v" in call.key or ".checkpoint." in call.key]
    assert len(states) == len(set(states)) == 1


def test_a_checkpoint_above_lost_versions_is_seen_beside_an_older_pointer(place):
    """The newest version file was lost, and the writer of its checkpoint died before it moved the pointer."""
    world = World(place)
    world.checkpoint(6)
    old = world.store.get(POINTER_KEY)
    world.checkpoint(8)
    world.store.put(POINTER_KEY, old)
    world.store.delete_many([version_key(8)])
    assert world.seen() == (8, [f"true-{number}" for number in range(1, 9)])


class Torn(CountingStore):
    """Lets something happen once, while a listing is between the numbered files and the rest."""

    def __init__(self, store: object, happens: Callable[[], None]) -> None:
        super().__init__(store)  # type: ignore[arg-type]
        self.happens: Callable[[], None] | None = happens

    def list_from(self, prefix: str, after: str | None = None, **more: object):
        yield from (meta for meta in super().list_from(prefix, after, **more) if meta.key[len(LOG_DIR)].isdigit())
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        yield from (meta for meta in super().list_from(prefix, after, **more) if "state-v" in meta.key)


def test_a_refilled_slot_that_no_version_above_names_is_seen_while_the_checkpoint_changes_its_format(tmp_path):
    world = World(Place(f"memory://{tmp_path.name}/table"), "json")
    world.checkpoint(3)
    old = world.state_files()
    wake = _refilled(world, 4)
    world.form = "avro"
    world.checkpoint(4)
    world.commit(5)
    without_links(world.place, 5)
    world.clean()
    wake()
    for key, data in old.items():
        world.store.put(key, data)
    world.form = "json"

    def replaced() -> None:
        world.checkpoint()
        world.clean()

    env = world.process().env
    store = Torn(env.store.store, replaced)
    snapshot = open_log(Env(store, env.ambient, env.options)).snapshot()  # type: ignore[arg-type]
    assert store.happens is None
    assert snapshot.version == 5
    assert sorted(snapshot.files["path"].to_pylist()) == [f"true-{number}" for number in range(1, 6)]
