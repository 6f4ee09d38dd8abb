"""A life of a table as it is run: two writers, a stream in, a stream out, searches and care, all at once.

Each role is a process of its own and writes one line per step: when, how long, and how much CPU it used, how much
memory, how many threads and open files it has. What was acknowledged is compared with what the table holds at the end,
and the beginning of the run with its end.

    python -m tests.life.hour URL SECONDS FOLDER '{"option": "value"}'    all roles, and the judgement
"""

from __future__ import annotations

import ctypes
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import indextables
from indextables.errors import CommitStateUnknown, VersionExpired

SCHEMA = pa.schema([("who", pa.string()), ("n", pa.int64()), ("message", pa.string())])
WRITERS = ("first", "second")
STREAM = "stream"
ROWS = 20
_MERGED = 1 << 20
"""What is larger is not merged again: else each merge would rewrite all that there is."""
_AGE_H = 1 / 30
"""Purge leaves younger files alone: longer than any commit of the run takes, which would have to be done again."""
_KEPT = 6
"""Of this part of the run the log is kept: versions go all the while, and no stream is so far behind."""
_PARTS = 5
"""The run is cut into so many parts: the first is warming up, the second is held against the last."""
_LOOK_S = 2.0
"""A process looks at itself so often at most: counting what malloc and the caches hold takes longer than a search."""


def rows(who: str, batch: int) -> pa.Table:
    numbers = range(batch * ROWS, (batch + 1) * ROWS)
    texts = [f"request {n} of {who} took {n % 97} ms" for n in numbers]
    return pa.table({"who": [who] * ROWS, "n": list(numbers), "message": texts}, schema=SCHEMA)


_HELD = {
    "anon_mb": "MB of memory without mapped files",
    "malloc_mb": "MB that native code holds",
    "blocks": "objects that Python holds",
    "cached_mb": "MB that caches count",
}
"""What is held, apart from what the system mapped or left lying: where memory grows, these tell why."""


class Role:
    """One process of the run; `tell` writes a line about a step."""

    def __init__(self, name: str, url: str, until: float, folder: Path, options: dict[str, str]) -> None:
        self.name, self.url, self.until, self.folder, self.options = name, url, until, folder, options
        self._lines = (folder / f"{name}.jsonl").open("a", buffering=1)
        self._looked, self._facts = 0.0, dict[str, Any]()

    def steps(self) -> Iterator[int]:
        step = 0
        while time.time() < self.until:
            yield step
            step += 1

    def timed(self, what: str, action: Callable[[], Any], **more: Any) -> Any:
        began = time.perf_counter()
        answer = action()
        self.tell(what, (time.perf_counter() - began) * 1000, **more)
        return answer

    def tell(self, what: str, ms: float, **more: Any) -> None:
        now = time.time()
        if now - self._looked >= _LOOK_S:
            self._looked, self._facts = now, _process()
        cpu = round(time.process_time(), 4)
        print(
            json.dumps({"what": what, "at": now, "ms": round(ms, 2), "cpu": cpu, **self._facts, **more}),
            file=self._lines,
        )

    def open(self) -> indextables.Table:
        return indextables.open(self.url, options=self.options)


def write(role: Role) -> None:
    """Append batch after batch; a batch without an answer is looked for before the next."""
    table = role.open()
    for batch in role.steps():
        try:
            role.timed("append", lambda batch=batch: table.append(rows(role.name, batch)), batch=batch)
        except CommitStateUnknown as unknown:
            details = unknown.details
            if table.resolve(details["token"], details["version"]) is None:
                raise
            role.tell("append", 0, batch=batch)


def search(role: Role) -> None:
    """What each writer wrote is there without a hole, whatever version is looked at."""
    table = role.open()
    for step in role.steps():
        try:
            role.timed("refresh", table.refresh)
            who = WRITERS[step % 2]
            found = role.timed("search", lambda who=who: table.search(f"message:{who}", limit=10))
            assert all(name == who for name in found["who"].to_pylist())
            if step % 20 == 0:
                told = table.sql("SELECT who, count(*) AS c, max(n) AS m, count(DISTINCT n) AS d FROM t GROUP BY who")
                for row in told.to_pylist():
                    assert row["c"] == row["m"] + 1 == row["d"], f"rows are missing or doubled: {row}"
        except VersionExpired:
            # A purge without retention may be faster than a reader that asked for no protection.
            role.tell("expired", 0)


def care(role: Role) -> None:
    """Merges, checkpoints, cleanup and purge, with retention that lets things go while the run lasts."""
    table = role.open()
    for step in role.steps():
        role.timed("merge", lambda: table.merge_splits(target_size=_MERGED))
        role.timed("cleanup", table.clean_up)
        if step % 5 == 4:
            purged = role.timed("purge", lambda: table.purge(older_than_hours=_AGE_H, force=True))
            role.tell("purged", 0, deleted=purged.deleted, splits=purged.count("split"), reason=purged.reason)
        table.refresh()
        _rest(role, 2)


class Query:
    """A streaming query that is started again where Spark could not reach its own Python worker in time."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self.running = start()

    def check(self) -> None:
        """Raises RuntimeError for every other reason why it ended."""
        if self.running.isActive:
            return
        reason = str(self.running.exception())
        if "failed to connect back" not in reason and "CANNOT_OPEN_SOCKET" not in reason:
            raise RuntimeError(reason)
        self.running = self._start()

    def finish(self) -> None:
        """Until everything that is there went through it."""
        while True:
            self.check()
            try:
                self.running.processAllAvailable()
            except Exception:
                if self.running.isActive:
                    raise
                # `check` raises what is not to be forgiven.
                self.check()
            else:
                self.running.stop()
                return


def stream(role: Role) -> None:
    """Files with rows go into the table by one query, and all rows of the table go out by another."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    indextables.enable(spark)
    arriving, folder = role.folder / "arriving", role.folder
    arriving.mkdir()

    def start_in() -> Any:
        lines = spark.readStream.schema("who string, n bigint, message string").json(str(arriving))
        sink = lines.writeStream.format("indextables").options(**role.options)
        return sink.option("checkpointLocation", str(folder / "in")).trigger(processingTime="2 seconds").start(role.url)

    def start_out() -> Any:
        added = spark.readStream.format("indextables").options(**role.options).load(role.url).select("who", "n")
        sink = added.writeStream.format("parquet").option("checkpointLocation", str(folder / "out"))
        return sink.trigger(processingTime="5 seconds").start(str(folder / "leaving"))

    into, out = Query(start_in), Query(start_out)
    for batch in role.steps():
        hidden = arriving / f".{batch}.json"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows(STREAM, batch).to_pylist()))
        hidden.rename(arriving / f"{batch}.json")
        role.tell("file", 0, batch=batch)
        into.check()
        out.check()
        _rest(role, 2)
    into.finish()
    _wait_for(folder, [*WRITERS, "care"])
    out.finish()


ROLES: dict[str, Callable[[Role], None]] = {
    **dict.fromkeys(WRITERS, write),
    "search": search,
    "care": care,
    STREAM: stream,
}


def live(url: str, seconds: float, folder: Path, options: dict[str, str]) -> list[str]:
    """Run all roles; what they came to, line by line. Raises AssertionError for lost or doubled rows, and for leaks."""
    folder.mkdir(parents=True, exist_ok=True)
    kept_ms = str(int(seconds * 1000 / _KEPT))
    properties = {
        "logRetention.duration": kept_ms,
        "checkpointRetention.duration": kept_ms,
        "state.retention.hours": "0",
        "state.gc.minManifestAgeHours": "0",
    }
    indextables.create(url, SCHEMA, indexing={"message": "text"}, properties=properties, options=options)
    began = time.time()
    command = [sys.executable, "-m", "tests.life.hour", url, str(began + seconds), str(folder), json.dumps(options)]
    running = {name: subprocess.Popen([*command, name]) for name in ROLES}
    for name, process in running.items():
        code = process.wait()
        (folder / f"{name}.done").touch()
        assert code == 0, f"{name} ended with {code}"
    told = {name: _lines_of(folder / f"{name}.jsonl") for name in ROLES}
    _check_rows(url, folder, options, told)
    return [*_judged(told, began, seconds), _purged(told["care"])]


def _check_rows(url: str, folder: Path, options: dict[str, str], told: dict[str, list[dict[str, Any]]]) -> None:
    """Everything that was acknowledged is there once, in the table and in what streamed out of it."""
    table = indextables.open(url, options=options)
    streamed = pa.concat_tables([pq.read_table(path) for path in sorted((folder / "leaving").glob("*.parquet"))])
    for who in (*WRITERS, STREAM):
        wanted = (max((line["batch"] for line in told[who] if "batch" in line), default=-1) + 1) * ROWS
        for place, found in (("the table", table.to_arrow(["who", "n"])), ("the stream", streamed)):
            numbers = sorted(found.filter(pc.equal(found["who"], who))["n"].to_pylist())
            assert numbers == list(range(wanted)), f"{place} holds {len(numbers)} rows of {who}, {wanted} were written"
    assert table.verify().ok


def _purged(steps: list[dict[str, Any]]) -> str:
    """What purges came to. Raises AssertionError if they found all the while that nothing may go."""
    purges = [step for step in steps if step["what"] == "purged"]
    splits = [step["splits"] for step in purges]
    reasons = sorted({step["reason"] for step in purges} - {""})
    assert len(purges) < 3 or sum(splits), f"{len(purges)} purges deleted no split: {reasons}"
    return f"care: {len(purges)} purges, splits that each deleted {' '.join(map(str, splits))}; stopped by {reasons}"


def _lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _judged(told: dict[str, list[dict[str, Any]]], began: float, seconds: float) -> list[str]:
    """What each role did in each part of the run. Raises AssertionError where memory, threads or open files grew.

    CPU for each step tells what the clock cannot on a machine that does other work too: whether a step of the last part
    is dearer than one of the second.
    """
    lines = []
    for name, steps in told.items():
        parts = [_part(steps, began, seconds, part) for part in range(_PARTS)]
        early, late = parts[1], parts[-1]
        if not early or not late:
            continue
        for fact, spare in (("threads", 8), ("files", 8), ("rss_mb", 128)):
            before, after = max(step[fact] for step in early), max(step[fact] for step in late)
            assert after <= before * 1.5 + spare, f"{name} has {after} {fact}, {before} at the beginning"
        memory = [statistics.median(step["rss_mb"] for step in part) for part in parts if part]
        lines.append(f"{name}: memory {' '.join(f'{m:.0f}' for m in memory)} MB")
        for fact, meaning in _HELD.items():
            held = [statistics.median(step[fact] for step in part) for part in parts if part]
            lines.append(f"{name}: {meaning} {' '.join(f'{h:.0f}' for h in held)}")
        lines.append(f"{name}: CPU for each step {' '.join(f'{_cpu_ms(p):.0f}' for p in parts if p)} ms")
        for what in sorted({step["what"] for step in steps}):
            times = [sorted(step["ms"] for step in part if step["what"] == what) for part in parts]
            if times[1] and times[-1] and times[-1][-1]:
                rates = [len(part) / (seconds / _PARTS) for part in times]
                tails = [part[int(len(part) * 0.99)] for part in times if part]
                lines.append(
                    f"{name} {what}: {' '.join(f'{r:.2f}' for r in rates)} a second ({rates[-1] / rates[1]:.2f}), "
                    f"p99 {' '.join(f'{t:.0f}' for t in tails)} ms"
                )
    return lines


def _cpu_ms(steps: list[dict[str, Any]]) -> float:
    """Of the whole process, its threads in the background too."""
    return 1_000 * (steps[-1]["cpu"] - steps[0]["cpu"]) / max(1, len(steps) - 1)


def _part(steps: list[dict[str, Any]], began: float, seconds: float, number: int) -> list[dict[str, Any]]:
    start, length = began + seconds / _PARTS * number, seconds / _PARTS
    return [step for step in steps if start <= step["at"] < start + length]


def _process() -> dict[str, Any]:
    status = Path("/proc/self/status").read_text()
    facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return {
        "rss_mb": int(facts["VmRSS"].split()[0]) // 1024,
        "anon_mb": int(facts["RssAnon"].split()[0]) // 1024,
        "arrow_mb": pa.total_allocated_bytes() >> 20,
        "blocks": sys.getallocatedblocks(),
        "cached_mb": sum(region.size_bytes for region in indextables.cache_stats().regions.values()) >> 20,
        "malloc_mb": _allocated() >> 20,
        "threads": int(facts["Threads"]),
        "files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
    }


class _MallInfo(ctypes.Structure):
    """What glibc's `mallinfo2` tells, in its order."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def _allocated() -> int:
    """Bytes that malloc has given out and that were not given back: what grows here is held, not left lying."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _MallInfo
    told = ask()
    return int(told.uordblks + told.hblkhd)


def _rest(role: Role, seconds: float) -> None:
    time.sleep(max(0.0, min(seconds, role.until - time.time())))


def _wait_for(folder: Path, names: list[str]) -> None:
    """Until these roles have ended, so that what they committed last is in the table."""
    while not all((folder / f"{name}.done").exists() for name in names):
        time.sleep(0.5)


def main() -> int:
    url, until, folder, options, *name = sys.argv[1:]
    if name:
        ROLES[name[0]](Role(name[0], url, float(until), Path(folder), json.loads(options)))
    else:
        print("\n".join(live(url, float(until), Path(folder), json.loads(options))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
