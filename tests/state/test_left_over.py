"""A checkpoint of a table that was dropped, left in the log of the one made in its place: nobody believes it."""

from __future__ import annotations

import contextlib
import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import CheckpointInvalid, IndexTablesError, TableNotFound
from indextables.log.checkpoint.belonging import is_left_over
from indextables.log.commit.create import create_table
from indextables.log.wire.names import LOG_DIR
from indextables.storage.local import LocalStore
from tests.log.commits import METADATA, add
from tests.log.test_commit import Place
from tests.log.test_commit import checkpoint as write_json
from tests.world.commits import append
from tests.world.tables import filled

SCHEMA = pa.schema([("x", pa.int64())])
QUIET = {"storage.fsync": "false", "checkpoint.interval": 1000}
NOTHING_KEPT = {
    **QUIET,
    "logRetention.duration": 0,
    "state.retention.versions": 1,
    "state.retention.hours": 0,
    "state.gc.minManifestAgeHours": 0,
    "checkpointRetention.duration": 0,
}
FORMATS = ("avro", "json", "parquet")


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(table: it.Table) -> list[int]:
    return sorted(table.to_arrow()["x"].to_pylist())


def opened(place: Path, options: dict[str, object] = QUIET) -> it.Table:
    it.invalidate_caches()
    return it.open(str(place), options=options)


def table_of(place: Path, commits: int, start: int, form: str) -> it.Table:
    batches = [rows(start + number) for number in range(commits)]
    return filled(place, batches, schema=SCHEMA, options=QUIET, properties={"state.format": form})


def log_of(place: Path) -> Path:
    return place / "_transaction_log"


def plant(old: Path, new: Path) -> list[Path]:
    """Put the checkpoint of the table at `old` into the log at `new`, and what it names."""
    put = []
    for path in sorted(log_of(old).rglob("*")):
        below = path.relative_to(log_of(old))
        if path.is_file() and ("checkpoint." in path.name or below.parts[0].startswith(("state-v", "manifests"))):
            target = log_of(new) / below
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            put.append(target)
    shutil.copytree(old / "splits", new / "splits", dirs_exist_ok=True)
    assert put
    return put


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[2, 4, 6], ids=["below", "at", "above"])
def place(request: pytest.FixtureRequest, form: str, tmp_path: Path) -> Path:
    """Version 4 of a table, with a checkpoint of an earlier table at version 2, 4 or 6 beside it."""
    old, new = tmp_path / "old", tmp_path / "t"
    table_of(old, request.param, 0, form).checkpoint()
    table_of(new, 4, 100, form)
    plant(old, new)
    it.invalidate_caches()
    return new


def test_a_left_over_state_is_passed_over_by_readers_of_every_version(place: Path) -> None:
    table = opened(place)
    assert (table.version, table.count()) == (4, 4)
    assert values(table) == [100, 101, 102, 103]
    assert table.history().num_rows == 5
    for version in range(5):
        assert values(opened(place).at(version=version)) == list(range(100, 100 + version))


def test_writers_go_on_from_the_table_itself_past_the_left_over_state(place: Path) -> None:
    for number in range(104, 109):
        opened(place).append(rows(number))
        assert values(opened(place)) == list(range(100, number + 1))
    table = opened(place)
    assert table.version == 9
    assert table.restore(version=4).restored == 4
    assert values(opened(place)) == [100, 101, 102, 103]


def test_a_checkpoint_and_a_purge_beside_a_left_over_state_lose_nothing(place: Path) -> None:
    table = opened(place, NOTHING_KEPT)
    # Nobody writes over another table's checkpoint of the same version: its writer may yet take it back.
    with contextlib.suppress(CheckpointInvalid):
        table.checkpoint()
    assert values(opened(place)) == [100, 101, 102, 103]
    table = opened(place, NOTHING_KEPT)
    table.append(rows(104))
    table.checkpoint()
    table.purge(older_than_hours=0, tx_log_retention_hours=0, force=True)
    assert values(opened(place)) == [100, 101, 102, 103, 104]
    assert opened(place).verify(data_files=True).ok


def states_of(place: Path) -> list[str]:
    files = sorted(path.relative_to(place).as_posix() for path in log_of(place).rglob("*") if path.is_file())
    return [name for name in files if "checkpoint." in name or "/state-v" in name]


def test_cleanup_takes_a_left_over_state_once_it_is_past_retention(place: Path) -> None:
    left = states_of(place)
    young = opened(place).clean_up(dry_run=False)
    assert (young.states, states_of(place)) == ((), left)
    foreseen = opened(place, NOTHING_KEPT).clean_up(dry_run=True)
    assert (sorted(foreseen.states), states_of(place)) == (left, left)
    done = opened(place, NOTHING_KEPT).clean_up(dry_run=False)
    assert (sorted(done.states), done.failed, states_of(place)) == (left, {}, [])
    assert values(opened(place)) == [100, 101, 102, 103]
    assert opened(place).verify().ok


def test_cleanup_leaves_a_state_alone_that_its_own_table_put_there_meanwhile(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The left-over state was taken back and the name taken anew between the plan and the delete."""
    left = states_of(place)
    real = LocalStore.delete_many

    def delete(store: LocalStore, keys: list[str], **how: object) -> object:
        if any(key in left for key in keys):
            for name in left:
                (place / name).write_bytes(b"another file")
        return real(store, keys, **how)

    monkeypatch.setattr(LocalStore, "delete_many", delete)
    done = opened(place, NOTHING_KEPT).clean_up(dry_run=False)
    assert set(left) & set(done.failed)
    assert states_of(place) == left


def test_truncation_counts_no_version_that_only_a_dropped_table_had(form: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "t"
    table_of(old, 2, 0, form).checkpoint()
    table_of(new, 4, 100, form)
    opened(new).truncate_time_travel()
    newest = opened(new).version
    plant(old, new)
    again = opened(new).truncate_time_travel(dry_run=True)
    assert (again.version, again.oldest) == (newest, newest)
    assert opened(new).truncate_time_travel().version == newest
    assert opened(new).version == newest


def test_verify_names_the_left_over_state_and_says_what_to_do(place: Path) -> None:
    found = [finding for finding in opened(place).verify().findings if finding.severity == "error"]
    assert [finding.kind for finding in found] == ["table"]
    assert found[0].key is not None
    assert "another table" in found[0].message
    assert "delete" in found[0].message
    (place / found[0].key).unlink()
    assert opened(place).verify().ok


def late(monkeypatch: pytest.MonkeyPatch, table: it.Table, meanwhile: Callable[[], object]) -> object:
    """What a checkpoint gives whose last put waits until `meanwhile` is done."""
    real = LocalStore.put_if_absent
    done = threading.Event()

    def put(store: LocalStore, key: str, data: bytes, **how: object) -> object:
        if not done.is_set() and ("checkpoint." in key or "state-v" in key):
            done.set()
            meanwhile()
        return real(store, key, data, **how)

    monkeypatch.setattr(LocalStore, "put_if_absent", put)
    try:
        return table.checkpoint()
    except IndexTablesError as error:
        return error


@pytest.mark.parametrize("commits", [3, 6, 8])
def test_a_checkpointer_that_wakes_up_in_another_table_takes_its_state_back(
    form: str, commits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    old = table_of(place, 6, 0, form)

    def replace() -> None:
        shutil.rmtree(place)
        it.invalidate_caches()
        table_of(place, commits, 100, form)

    answer = late(monkeypatch, old, replace)
    assert isinstance(answer, CheckpointInvalid)
    assert not [p for p in log_of(place).rglob("*") if "checkpoint." in p.name or p.parent.name.startswith("state-v")]
    assert values(opened(place)) == list(range(100, 100 + commits))
    assert opened(place).verify().ok


def test_a_checkpointer_that_wakes_up_takes_back_no_file_but_its_own(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is taken anew by the table that lives there, between the look and the delete."""
    place = tmp_path / "t"
    old = table_of(place, 6, 0, form)

    def replace() -> None:
        shutil.rmtree(place)
        it.invalidate_caches()
        table_of(place, 8, 100, form)

    real = LocalStore.delete_many
    planted: list[str] = []

    def delete(store: LocalStore, keys: list[str], **how: object) -> object:
        if any("checkpoint." in key or "state-v" in key for key in keys):
            planted.extend(keys)
            for key in keys:
                (place / key).unlink()
                (place / key).write_bytes(b"of the living table")
        return real(store, keys, **how)

    monkeypatch.setattr(LocalStore, "delete_many", delete)
    answer = late(monkeypatch, old, replace)
    assert isinstance(answer, CheckpointInvalid)
    assert planted
    assert all((place / key).read_bytes() == b"of the living table" for key in planted)


def test_a_checkpointer_that_wakes_up_after_the_drop_does_not_raise_the_dead(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    old = table_of(place, 6, 0, form)
    assert isinstance(late(monkeypatch, old, lambda: shutil.rmtree(place)), CheckpointInvalid)
    it.invalidate_caches()
    with pytest.raises(TableNotFound):
        it.open(str(place))


@pytest.mark.parametrize(
    ("state", "log", "start", "others", "expected"),
    [
        ("T", "T", 0, [], False),
        (None, "T", 0, [], False),
        ("T", None, 0, [], False),
        ("T", "U", 0, [], True),
        ("T", "U", 5, [], False),
        ("T", "U", 5, [(4, "U")], True),
        ("T", "U", 5, [(3, "U")], False),
        ("T", "U", 5, [(4, "T")], False),
    ],
)
def test_a_state_is_left_over_only_where_a_whole_log_of_another_table_says_so(
    state: str | None, log: str | None, start: int, others: list[tuple[int, str]], expected: bool
) -> None:
    assert is_left_over(state, log, start, others) is expected


@pytest.mark.parametrize("head", [1, 3, 5])
@pytest.mark.parametrize("is_local", [True, False], ids=["local", "memory"])
def test_a_writer_on_any_store_is_not_stopped_by_a_state_of_another_table(
    head: int, *, is_local: bool, tmp_path: Path
) -> None:
    root = str(tmp_path) if is_local else f"memory://{uuid.uuid4().hex}"
    old, new = (Place(f"{root}/{name}") for name in ("old", "new"))
    for place, id_, commits in ((old, "the dropped one", 3), (new, "the new one", head)):
        create_table(place.process(), msgspec.structs.replace(METADATA, id=id_))
        for number in range(1, commits + 1):
            append(place.process(), [add(f"{number}.split")])
    write_json(old)
    source, target = old.process().env.store, new.process().env.store
    for meta in source.list_from(LOG_DIR):
        if "checkpoint." in meta.key:
            target.put(meta.key, source.get(meta.key))
    writer = new.process()
    for number in range(head + 1, head + 4):
        assert append(writer, [add(f"{number}.split")]).version == number
    assert new.paths() == [f"{number}.split" for number in range(1, head + 4)]
