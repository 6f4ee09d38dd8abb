"""Volume: a table of ten million files is made, opened and worked on in bounded memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import pytest

COUNT = int(os.environ.get("INDEXTABLES_STATE_FILES", "10000000"))
STEP = 300_000


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_state_of_ten_million_files_opens_for_one_partition_in_seconds(tmp_path):
    script = f"from tests.state.test_soak import generate; generate({str(tmp_path)!r}, {COUNT})"
    made = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    opened = subprocess.run(
        [sys.executable, "-c", f"from tests.state.test_soak import open_one; open_one({str(tmp_path)!r})"],
        check=True,
        capture_output=True,
        text=True,
    )
    print(made.stdout, opened.stdout)
    files, seconds, peak = opened.stdout.split()
    assert int(files) == 1000
    assert float(seconds) < 60
    assert float(peak) < 1024
    assert float(made.stdout.split()[-1]) < 1536


VERBS = {
    "open": "table.version",
    "detail": "table.detail()['numFiles']",
    "append": "table.append([{'id': 1, 'ts': 1, 'note': 'new', 'day': '2024-01-07', 'shard': 1}])",
    "append a batch": "table.append([{'id': 2, 'ts': 2, 'note': 'x', 'day': '2024-01-07', 'shard': 1}], txn=('a', 1))",
    "prune one partition": "table.files(\"day = '2024-01-07' AND shard = 100\").num_rows",
    "prune by bounds": "table.files('id = 4000000').num_rows",
    "merge plan of one partition": "table.merge_splits(\"day = '2024-01-07' AND shard = 100\", dry_run=True).groups",
    "merge plan": "table.merge_splits(dry_run=True).groups",
    "purge": "table.purge(dry_run=True).files.num_rows",
    "append until somebody looks what to merge": "[table.append([{'id': n, 'ts': 3, 'note': 'x', 'day': '2024-01-07', "
    "'shard': 2}]) for n in range(10)], table.close()",
}
"""What is done to the table through the public API, each by a process of its own."""


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_what_is_done_to_ten_million_files_takes_bounded_memory(tmp_path):
    script = f"from tests.state.test_soak import generate; generate({str(tmp_path)!r}, {COUNT})"
    subprocess.run([sys.executable, "-c", script], check=True)
    orphan = tmp_path / "splits" / f"split-{'f' * 32}.split"
    orphan.parent.mkdir()
    orphan.touch()
    # Purge reads all versions that are retained only where something could go.
    os.utime(orphan, (0, 0))
    peaks, answers = {}, {}
    for name, code in VERBS.items():
        script = f"from tests.state.test_soak import do; do({str(tmp_path)!r}, {code!r})"
        told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
        print(f"{name}: {told.strip()}")
        peaks[name], answers[name] = int(told.split()[-2]), told.split()[0]
    assert int(answers["detail"]) == COUNT
    assert int(answers["prune one partition"]) == 1002
    assert int(answers["purge"]) == 1
    # The report of a merge of everything names every file.
    most = {"merge plan": 2048}
    assert {name: peak for name, peak in peaks.items() if peak >= most.get(name, 1024)} == {}


def do(place: str, code: str) -> None:
    """Prints what a verb answers, its seconds (without imports) and the peak memory of the process in MiB."""
    import indextables

    began = time.perf_counter()
    table = indextables.open(place)
    told = str(eval(code, {"table": table}))  # noqa: S307 - from VERBS
    print(told[:200], "in", round(time.perf_counter() - began, 2), "s,", _peak(), "MiB")


def generate(place: str, count: int) -> None:
    """The state, partition after partition; prints its seconds and its peak memory in MiB."""
    import msgspec
    from benchmarks.state import environment, make_files, metadata, state_of, write_ours

    from indextables.log.checkpoint.avro.bounds import partition_types
    from indextables.log.checkpoint.avro.write import list_of, publish_list, write_manifests
    from indextables.log.checkpoint.write import point_to
    from indextables.log.wire import CommitInfo, encode_version, version_key
    from indextables.log.wire.protocol import new_table_protocol
    from indextables.log.wire.sethash import EMPTY, combine
    from indextables.log.wire.state import StateTotals

    began = time.perf_counter()
    env = environment(place)
    write_ours(env, make_files(0))
    infos, total, hashed = [], 0, EMPTY
    types = partition_types(metadata())
    for start in range(0, count, STEP):
        files = make_files(min(STEP, count - start), start)
        total += sum(files.column("size").to_pylist())
        infos += list(write_manifests(env, files, types, compacted=True))
    for info in infos:
        hashed = combine(hashed, info.set_hash or EMPTY)
    draft = list_of(state_of(make_files(0), 2), env.ambient.now_ms(), 8192)
    totals = StateTotals(num_files=count, total_bytes=total, set_hash=hashed)
    ref, _ = publish_list(env, msgspec.structs.replace(draft, manifests=tuple(infos), totals=totals))
    info = CommitInfo(inCommitTimestamp=1_700_000_000_000, tableId=metadata().id, token=f"{3:032x}")
    env.store.put_if_absent(version_key(2), encode_version([info], compress=True))
    # Who opens the table goes by the pointer: without it, it would be read from the empty state below.
    point_to(env, ref, totals, count, new_table_protocol().minReaderVersion)
    print(len(infos), round(time.perf_counter() - began, 1), _peak())


def open_one(place: str) -> None:
    """Open for one partition; prints its files, seconds (without imports) and the peak memory in MiB."""
    from benchmarks.state import environment, open_where

    env = environment(place)
    open_where(env, "day = '1999-01-01'")
    began = time.perf_counter()
    files = open_where(env, "day = '2024-01-07' AND shard = 100")
    print(len(files), round(time.perf_counter() - began, 2), _peak())


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
