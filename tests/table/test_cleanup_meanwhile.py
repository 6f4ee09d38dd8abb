"""Readers beside a cleanup without retention: a handle reads its version or hears that it expired, a new one reads."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.world.store import InterruptedStore

import indextables
from indextables.errors import VersionExpired
from indextables.log.care.opening import open_log
from indextables.log.read.cache import LogCache
from indextables.table.environment import open_env

SCHEMA = pa.schema([("x", pa.int64())])
SETTINGS = {
    "checkpoint.interval": "2",
    "checkpoint.async": "false",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
    "state.gc.minManifestAgeHours": "0",
}


def rows(x):
    return pa.table({"x": [x]}, schema=SCHEMA)


@pytest.fixture(scope="module", params=["avro", "json", "parquet"])
def template(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "t"
    table = indextables.create(path, SCHEMA, properties={"state.format": request.param}, options=SETTINGS)
    for x in range(5):
        table.append(rows(x))
    later = path.with_name("later")
    shutil.copytree(path, later)
    for x in range(5, 10):
        indextables.open(later, options=SETTINGS).append(rows(x))
    indextables.open(later, options=SETTINGS).clean_up()
    return path


def moved_on(path, template):
    """What commits, checkpoints and cleanups have made of the table: nothing of its log is left as it was."""
    later = template.with_name("later")
    for file in sorted(later.rglob("*")):
        to = path / file.relative_to(later)
        if file.is_dir():
            to.mkdir(exist_ok=True)
        elif not to.exists() or to.name == "_last_checkpoint":
            shutil.copy2(file, to.with_suffix(".new"))
            to.with_suffix(".new").replace(to)
    for file in sorted(path.rglob("*"), reverse=True):
        if file.is_file() and not (later / file.relative_to(path)).exists():
            file.unlink()


def handle(path, template, at, **which):
    """A handle in a process of its own, in which the table moves on before call number `at` of the store."""
    env = open_env(path, SETTINGS)
    store = InterruptedStore(env.store, at, lambda: moved_on(path, template))
    log = open_log(type(env)(store, env.ambient, env.options), cache=LogCache())
    return store, indextables.Table(log, log.snapshot(), **which)


@pytest.mark.slow
def test_a_handle_reads_its_version_or_says_that_it_expired(template, tmp_path):
    heard = set()
    for at in range(1, 200):
        path = tmp_path / str(at)
        shutil.copytree(template, path)
        store, table = handle(path, template, at)
        version = table.version
        try:
            answer = table.to_arrow()
        except VersionExpired:
            heard.add("expired")
        else:
            heard.add("read")
            assert answer.num_rows == version
        if store.left > 0:
            break
    assert store.left > 0
    # A handle holds its checkpoint from the start: a JSON or Parquet one whole, of an Avro one the list; newer ones
    # share its manifests.
    assert heard == {"read"}


@pytest.mark.slow
def test_a_new_handle_reads_whatever_cleanup_does(template, tmp_path):
    for at in range(1, 200):
        path = tmp_path / str(at)
        shutil.copytree(template, path)
        store, table = handle(path, template, at, is_seen=False)
        assert table.to_arrow()["x"].to_pylist() in ([0, 1, 2, 3, 4], list(range(10)))
        assert table.version in (5, 10)
        if store.left > 0:
            break
    assert store.left > 0


WRITER = """
import sys, pyarrow as pa, indextables
from tests.table.test_cleanup_meanwhile import SETTINGS, rows
for x in range(int(sys.argv[2])):
    indextables.open(sys.argv[1], options=SETTINGS).append(rows(x))
"""


@pytest.mark.slow
def test_new_handles_read_beside_processes_that_clean_up_at_once(tmp_path):
    path = tmp_path / "t"
    indextables.create(path, SCHEMA, options=SETTINGS)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), "10"]) for _ in range(2)]
    seen = [0]
    try:
        while any(writer.poll() is None for writer in writers):
            indextables.invalidate_caches()
            seen.append(indextables.open(path, options=SETTINGS).to_arrow().num_rows)
    finally:
        codes = [writer.wait(120) for writer in writers]
    assert codes == [0, 0]
    assert seen == sorted(seen)
    assert indextables.open(path).count() == 20
