"""A power loss in the midst of a purge: what can be read is whole, whatever of the deletes reached the disk."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.storage.disk_model import Disk, Recorder

import indextables
from indextables.log.wire.names import parse_key

OPTIONS = {
    "storage.fsync": "true",
    "logRetention.duration": "0",
    "state.retention.hours": "0",
    "state.retention.versions": "1",
    "checkpoint.async": "false",
    "cleanup.enabled": "false",
    "state.gc.minManifestAgeHours": "0",
}


@pytest.fixture
def recorded(tmp_path):
    """What a table and its purge did to the disk, where the purge begins, and the files that each version named."""
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        table = indextables.create(tmp_path / "t", pa.schema([("x", pa.int64())]), options=OPTIONS)
        named = {0: set()}
        for x in range(7):
            table.overwrite(pa.table({"x": [x]}))
            named[table.version] = set(table.files()["path"].to_pylist())
            if x in (2, 4):
                table.checkpoint()
        start = len(recorder.events)
        purged = table.purge(older_than_hours=0, force=True)
    assert purged.cut == 7
    assert min(purged.count(kind) for kind in ("state", "version", "split")) > 0
    return recorder.events, start, named


def faults(left, named):
    """What contradicts itself among the keys that are left."""
    files = [file for key in left if (file := parse_key(key)) is not None]
    slots = {file.version for file in files if file.kind == "version"}
    states = {file.version for file in files if file.kind == "state"}
    splits = {key for key in left if key.endswith(".split")}
    found = []
    holes = set(range(min(slots), max(slots))) - slots
    if holes:
        found.append(f"versions {holes} are gone above {min(slots)}")
    bases = {state for state in states if min(slots) <= state + 1} | ({0} & slots)
    readable = {version for base in bases for version in range(base, max(slots) + 1)} & set(named)
    lost = [version for version in readable if not named[version] <= splits]
    if lost:
        found.append(f"versions {lost} can be read, but their data is gone")
    if min(slots) > 0 and any(state < min(slots) - 1 for state in states):
        found.append(f"a checkpoint is left below the versions that are gone: {sorted(states)}, {min(slots)}")
    return found


def replayed(events, start, named, root, *, skipped=""):
    disk, chance = Disk(base=str(root.parent)), random.Random(7)
    found = []
    for moment, event in enumerate(events):
        if moment < start or event[0] != skipped:
            disk.apply(event)
        if moment >= start:
            for keeps in (0.0, 1.0, 0.5, 0.5, 0.5, 0.5):
                left = [path.removeprefix(f"{root}/") for path in disk.after_power_loss(chance, keeps=keeps)]
                found += faults(left, named)
    return found


@pytest.mark.slow
def test_versions_go_in_order_and_data_after_them(recorded, tmp_path):
    assert replayed(*recorded, tmp_path / "t") == []


@pytest.mark.slow
def test_the_model_would_notice_deletes_that_are_not_forced_to_the_disk(recorded, tmp_path):
    found = replayed(*recorded, tmp_path / "t", skipped="sync folder")
    assert any("are gone above" in fault for fault in found)
    assert any("their data is gone" in fault for fault in found)
    assert any("a checkpoint is left" in fault for fault in found)
