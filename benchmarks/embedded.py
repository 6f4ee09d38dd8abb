"""Embedded engine: warm searches, the first search of a process, and ingest of JSON lines.

Queries are a fixed mix over "logs": needles, words of all frequencies, two words joined by AND and OR, phrases,
prefixes and a word with a level. Ours return ten rows with all columns; raw Tantivy returns ids and scores only.
LanceDB has no prefix queries and DuckDB no words: they run the part of the mix that they can, and are compared on that
part. CPU is told beside the wall clock, because it depends less on what else the machine does.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.corpus import logs, vocabulary
from benchmarks.harness import Bar, growth

QUERIES = 1_000
Times = dict[str, dict[int, tuple[str, float]]]
"""By engine and number of the query: its kind and milliseconds."""
KINDS = ("needle", "word", "and", "or", "phrase", "prefix", "level")


def run(scale: str) -> list[Bar]:
    rows = 1_000_000 if scale == "full" else 100_000
    size = 1_000_000_000 if scale == "full" else 40_000_000
    with tempfile.TemporaryDirectory(prefix="indextables-bench-") as name:
        folder = Path(name)
        data = logs(rows)
        less, more = (timed_searches(folder / str(n), data.slice(0, n)) for n in (rows // 100, rows))
        bars = search_bars(less, more, rows)
        bars += start_bars(folder / str(rows))
        return bars + ingest_bars(folder, data, size)


def as_installed(folder: Path) -> dict[str, str]:
    """An environment in which a process finds the bytecode of our modules, once another one has run in it."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def make_queries(data: pa.Table, count: int) -> list[tuple[str, list[str]]]:
    """(kind, words) pairs, the same on every machine."""
    rng = random.Random(5)
    words = vocabulary().to_pylist()
    messages = data["message"]
    made = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        row = messages[rng.randrange(len(messages))].as_py().split()
        if kind == "needle":
            made.append((kind, [row[-1].partition("-")[2]]))
        elif kind == "phrase":
            at = rng.randrange(len(row) - 2)
            made.append((kind, row[at : at + 2]))
        else:
            made.append((kind, [words[int(len(words) ** rng.random()) - 1] for _ in range(2)]))
    return made


def timed_searches(folder: Path, data: pa.Table) -> Times:
    """The times of the same mix over these rows: ours, raw Tantivy, LanceDB and DuckDB."""
    import indextables

    folder.mkdir()
    queries = make_queries(data, QUERIES)
    table = indextables.create(
        folder / "table", data.schema, indexing={"message": "text"}, options={"cache.directory": str(folder / "cache")}
    )
    table.append(data)
    words = [q for q in queries if q[0] not in {"prefix", "level"}]
    return {
        "ours": timings(lambda kind, words: table.search(our_query(kind, words), limit=10), queries),
        "raw": timings(raw_tantivy(folder, data), queries),
        "lance": timings(lancedb_search(folder, data), words),
        "like": timings(duckdb_like(folder, data), words[:50]),
    }


def search_bars(less: Times, more: Times, rows: int) -> list[Bar]:
    """Bars of the searches over `rows` rows, and how they grew from a hundredth of these."""
    ours, raw, lance, like = (more[name] for name in ("ours", "raw", "lance", "like"))
    spent, of_raw = _CPU[id(ours)], _CPU[id(raw)]
    slowest = sorted(spent, key=lambda number: -spent[number][1])[: len(spent) // 100]
    of_tantivy = sum(of_raw[number][1] for number in slowest) / sum(spent[number][1] for number in slowest)
    added = {number: ("", spent[number][1] - of_raw[number][1]) for number in spent}
    name = f"{len(ours)} mixed queries on {rows:,} rows, warm"
    bars = [
        Bar(f"{name}: p50 above raw Tantivy", p50(ours) - p50(raw), None, "ms", 5, absolute=True),
        Bar(f"{name}: p50", p50(ours), p50(raw), "ms", peer_name="raw Tantivy, no rows"),
        Bar(f"{name}: mean CPU above raw Tantivy", cpu(ours) - cpu(raw), None, "ms"),
        Bar(f"{name}: p99", p99(ours), p99(raw), "ms", peer_name="raw Tantivy, no rows"),
        Bar(f"{name}: p99 of the CPU that is added to the same query of raw Tantivy", p99(added), None, "ms"),
        Bar(f"{name}: share of raw Tantivy in the CPU of the slowest hundredth", of_tantivy, None, ""),
        Bar("the same without prefix and level: p50", p50(ours, lance), p50(lance), "ms", 1, peer_name="LanceDB FTS"),
        Bar("the same without prefix and level: p99", p99(ours, lance), p99(lance), "ms", 1, peer_name="LanceDB FTS"),
        Bar(
            "the same without prefix and level: p99 of raw Tantivy",
            p99(raw, lance),
            p99(lance),
            "ms",
            peer_name="LanceDB",
        ),
        Bar(
            "the same without prefix and level: p99 of CPU",
            p99(spent, lance),
            p99(_CPU[id(lance)]),
            "ms",
            peer_name="LanceDB FTS",
        ),
        Bar("the same without prefix and level: mean CPU", cpu(ours, lance), cpu(lance), "ms", peer_name="LanceDB FTS"),
        Bar("the same without prefix and level: p50", p50(ours, like), p50(like), "ms", 1, peer_name="DuckDB LIKE"),
    ]
    for what, of in (("p50", p50), ("p99", p99)):
        claim = f"{what} without prefix and level, {rows // 100:,} to {rows:,} rows"
        mine = of(less["ours"], lance), of(ours, lance)
        bars.append(growth(claim, mine, (of(less["lance"]), of(lance)), "LanceDB FTS"))
    bars += [Bar(f"p50 of {kind}", by_kind(ours, kind), by_kind(raw, kind), "ms", peer_name="raw") for kind in KINDS]
    return bars


def start_bars(folder: Path) -> list[Bar]:
    """From the start of a process to ten rows; bytecode is there, as in any installed package."""
    code = (
        "import sys, indextables\n"
        f"table = indextables.open({str(folder / 'table')!r}, options={{'cache.directory': sys.argv[1]}})\n"
        "assert table.search('message:timeout', limit=10).num_rows == 10\n"
    )
    environment = as_installed(folder)

    def started(*command: str) -> tuple[float, float]:
        """Wall-clock and CPU milliseconds of a process."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", *command], env=environment, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds * 1e3, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3

    cache = str(folder / "cache")
    shell = "import sys; from indextables.cli import main; sys.exit(main())"
    asked = (shell, "search", str(folder / "table"), "message:timeout", "--option", f"cache.directory={cache}")
    imports = "import pyarrow.compute, pyarrow.parquet, tantivy, msgspec"
    commands = {"api": (code, cache), "json": (*asked, "--json"), "rich": asked, "libraries": (imports,)}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(10):
        for name, command in commands.items():
            # The first turn writes the bytecode.
            times[name] += [started(*command)] if turn else [started(*command)][:0]
    wall = {name: min(time for time, _ in found) for name, found in times.items()}
    cpu = {name: min(time for _, time in found) for name, found in times.items()}
    cold = min(started(code, str(folder / f"cold{n}"))[0] for n in range(3))
    return [
        Bar("process start to first 10 rows, index cached", wall["api"], None, "ms", 250, absolute=True),
        Bar("the same by CPU", cpu["api"], cpu["libraries"], "ms", peer_name="the native libraries alone"),
        Bar("of which the native libraries alone", wall["libraries"], None, "ms"),
        Bar("indextables search --json from the shell, index cached", wall["json"], None, "ms", 250, absolute=True),
        Bar("the same by CPU", cpu["json"], cpu["libraries"], "ms", peer_name="the native libraries alone"),
        Bar("indextables search as a table from the shell, index cached", wall["rich"], None, "ms"),
        Bar("process start to first 10 rows, index extracted first", cold, wall["api"], "ms", peer_name="cached"),
    ]


# What a user would write without us: Arrow reads the lines, Parquet takes the rows, Tantivy the lines as they are.
_BARE_INGEST = """
import io, os, sys
import pyarrow as pa, pyarrow.json as pj, pyarrow.parquet as pq, tantivy
source, folder = sys.argv[1:]
builder = tantivy.SchemaBuilder()
builder.add_date_field("ts", stored=False, indexed=False, fast=True)
for name in ("host", "level"):
    builder.add_text_field(name, stored=False, tokenizer_name="raw", index_option="basic")
for name in ("status", "latency"):
    builder.add_integer_field(name, stored=False, indexed=False, fast=True)
builder.add_text_field("message", stored=False)
os.makedirs(folder + "/index")
index = tantivy.Index(builder.build(), path=folder + "/index", reuse=False)
writer = index.writer(4_000_000_000, 1)
texts = {name: pa.string() for name in ("host", "level", "message")}
schema = pa.schema({"ts": pa.timestamp("us", "UTC"), **texts, "status": pa.int64(), "latency": pa.int64()})
rows = pq.ParquetWriter(folder + "/rows.parquet", schema, compression="zstd")
rest = b""
with open(source, "rb") as file:
    while data := file.read(4 << 20):
        end = data.rfind(b"\\n") + 1
        block, rest = rest + data[:end], data[end:]
        options = pj.ReadOptions(block_size=len(block) + 1, use_threads=False)
        found = pj.read_json(io.BytesIO(block), options, pj.ParseOptions(explicit_schema=schema))
        rows.write_table(found.select(schema.names))
        for line in block.decode().splitlines():
            writer.add_json(line)
rows.close()
writer.commit()
writer.wait_merging_threads()
"""


def ingest_bars(folder: Path, data: pa.Table, size: int) -> list[Bar]:
    """JSON lines by the shell, against the bare libraries in a loop and against DuckDB, which makes no index.

    The least CPU of two turns counts, since both cores are in use; the first one writes the bytecode.
    """
    source = folder / "logs.jsonl"
    write_json_lines(source, data, size)
    shell = "import sys; from indextables.cli import main; sys.exit(main())"
    statement = (
        f"COPY (SELECT * FROM read_json('{source}', format='newline_delimited')) "  # noqa: S608 - our own file
        f"TO '{folder / 'duck.parquet'}' (FORMAT parquet, COMPRESSION zstd)"
    )
    commands = {
        "ours": [shell, "ingest", "{}", str(source), "--text", "message", "-q"],
        "bare": [_BARE_INGEST, str(source), "{}"],
        "duck": [f"import duckdb; duckdb.sql({statement!r})"],
    }
    (wall, cpu, memory), bare, duck = (_least(folder / name, command, 2) for name, command in commands.items())
    megabytes = source.stat().st_size / 1e6
    name = f"ingest of {megabytes:,.0f} MB of JSON lines"
    libraries, peer = "Arrow, Parquet and Tantivy in a loop", "DuckDB to Parquet, no index"
    bars = [
        Bar(f"{name}: CPU", cpu, bare[1], "s", 1.2, peer_name=libraries),
        Bar(f"{name}: time", wall, bare[0], "s", peer_name=libraries),
        Bar(f"{name}: speed", megabytes / wall, megabytes / duck[0], "MB/s", peer_name=peer),
        Bar(f"{name}: CPU", cpu, duck[1], "s", peer_name=peer),
        Bar(f"{name}: peak memory", memory, bare[2], "MiB", peer_name=libraries),
        Bar(f"{name}: peak memory", memory, duck[2], "MiB", peer_name=peer),
    ]
    write_json_lines(source, data.slice(0, len(data) // 100), size // 100)
    few, bare_few = (_least(folder / name, commands[name], 2) for name in ("ours", "bare"))
    claim = f"CPU of an ingest, {source.stat().st_size / 1e6:,.1f} to {megabytes:,.0f} MB"
    return [*bars, growth(claim, (few[1], cpu), (bare_few[1], bare[1]), libraries)]


def _least(target: Path, command: list[str], times: int) -> tuple[float, ...]:
    """Wall and CPU seconds and peak MiB: the least of some runs of a command, in which `{}` stands for its target."""
    found = []
    for _ in range(times):
        code, *arguments = command
        command_of = [sys.executable, "-c", code, *(argument.format(target) for argument in arguments)]
        found.append(measured(command_of, as_installed(target.parent)))
        shutil.rmtree(target, ignore_errors=True)
    return tuple(map(min, zip(*found, strict=True)))


def our_query(kind: str, words: list[str]) -> str:
    if kind == "needle":
        return f"message:{words[0]}"
    if kind == "word":
        return f"message:{words[0]}"
    if kind == "and":
        return f"message:{words[0]} AND message:{words[1]}"
    if kind == "or":
        return f"message:{words[0]} OR message:{words[1]}"
    if kind == "phrase":
        return f'message:"{words[0]} {words[1]}"'
    if kind == "prefix":
        return f"message:{words[0][:4]}*"
    return f"message:{words[0]} AND level:ERROR"


def raw_tantivy(folder: Path, data: pa.Table) -> Callable[[str, list[str]], object]:
    """The same corpus in an index of its own, queried through Tantivy's own constructors."""
    import tantivy
    from tantivy import Occur, Query

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("message", stored=False)
    builder.add_text_field("level", stored=False, tokenizer_name="raw", index_option="basic")
    schema = builder.build()
    place = folder / "tantivy"
    place.mkdir()
    index = tantivy.Index(schema, path=str(place))
    writer = index.writer(2_000_000_000, 1)
    for message, level in zip(data["message"].to_pylist(), data["level"].to_pylist(), strict=True):
        writer.add_document(tantivy.Document(message=message, level=level))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def term(word: str) -> Query:
        return Query.term_query(schema, "message", word)

    def search(kind: str, words: list[str]) -> object:
        if kind in {"needle", "word"}:
            query = term(words[0])
        elif kind in {"and", "or"}:
            occur = Occur.Must if kind == "and" else Occur.Should
            query = Query.boolean_query([(occur, term(word)) for word in words])
        elif kind == "phrase":
            query = Query.phrase_query(schema, "message", words)
        elif kind == "prefix":
            query = Query.regex_query(schema, "message", words[0][:4] + ".*")
        else:
            level = Query.term_query(schema, "level", "ERROR", index_option="basic")
            query = Query.boolean_query([(Occur.Must, term(words[0])), (Occur.Must, level)])
        return searcher.search(query, limit=10, count=False).hits

    return search


def lancedb_search(folder: Path, data: pa.Table) -> Callable[[str, list[str]], object]:
    import lancedb
    from lancedb.query import FullTextOperator, MatchQuery, PhraseQuery

    table = lancedb.connect(folder / "lance").create_table("logs", data)
    table.create_fts_index("message", with_position=True, stem=False, remove_stop_words=False, ascii_folding=False)

    def search(kind: str, words: list[str]) -> object:
        if kind == "phrase":
            query = PhraseQuery(" ".join(words), "message")
        else:
            operator = FullTextOperator.AND if kind == "and" else FullTextOperator.OR
            asked = words if kind in {"and", "or"} else words[:1]
            query = MatchQuery(" ".join(asked), "message", operator=operator)
        return table.search(query, query_type="fts").limit(10).to_arrow()

    return search


def duckdb_like(folder: Path, data: pa.Table) -> Callable[[str, list[str]], object]:
    import duckdb

    path = folder / "plain.parquet"
    pq.write_table(data, path, compression="zstd")
    connection = duckdb.connect()

    def search(kind: str, words: list[str]) -> object:
        joined = " OR " if kind == "or" else " AND "
        asked = [" ".join(words)] if kind == "phrase" else words if kind in {"and", "or"} else words[:1]
        condition = joined.join("message LIKE ?" for _ in asked)
        statement = f"SELECT * FROM '{path}' WHERE {condition} LIMIT 10"  # noqa: S608 - our own file
        return connection.execute(statement, [f"%{word}%" for word in asked]).fetchall()

    return search


def timings(
    search: Callable[[str, list[str]], object], queries: list[tuple[str, list[str]]]
) -> dict[int, tuple[str, float]]:
    """Milliseconds by the number of the query, after a warm-up with every kind."""
    for kind, words in queries[: 2 * len(KINDS)]:
        search(kind, words)
    found, spent = {}, {}
    for number, (kind, words) in enumerate(queries):
        used, began = time.process_time(), time.perf_counter()
        search(kind, words)
        found[number] = (kind, (time.perf_counter() - began) * 1e3)
        spent[number] = (kind, (time.process_time() - used) * 1e3)
    _CPU[id(found)] = spent
    return found


def p50(times: dict[int, tuple[str, float]], kinds_of: dict[int, tuple[str, float]] | None = None) -> float:
    return statistics.median(_values(times, kinds_of))


def p99(times: dict[int, tuple[str, float]], kinds_of: dict[int, tuple[str, float]] | None = None) -> float:
    return sorted(_values(times, kinds_of))[int(len(_values(times, kinds_of)) * 0.99)]


def cpu(times: dict[int, tuple[str, float]], kinds_of: dict[int, tuple[str, float]] | None = None) -> float:
    """The mean CPU milliseconds of a query, threads included."""
    return statistics.fmean(_values(_CPU[id(times)], kinds_of))


_CPU: dict[int, dict[int, tuple[str, float]]] = {}


def by_kind(times: dict[int, tuple[str, float]], kind: str) -> float:
    return statistics.median(t for k, t in times.values() if k == kind)


def _values(times: dict[int, tuple[str, float]], kinds_of: dict[int, tuple[str, float]] | None) -> list[float]:
    kinds = None if kinds_of is None else {kind for kind, _ in kinds_of.values()}
    return [t for kind, t in times.values() if kinds is None or kind in kinds]


# A process that starts another hands it the size it had itself: start it from a small one.
_LAUNCHER = """
import json, os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - began
print(json.dumps([status, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def measured(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak resident MiB of a process of its own."""
    launched = [sys.executable, "-c", _LAUNCHER, *command]
    ran = subprocess.run(launched, stdout=subprocess.PIPE, check=True, env=environment)
    status, seconds, cpu, memory = json.loads(ran.stdout.splitlines()[-1])
    if status:
        message = f"{command} failed"
        raise RuntimeError(message)
    return seconds, cpu, memory


def write_json_lines(path: Path, data: pa.Table, size: int) -> None:
    """The corpus as JSON lines, again and again until the file has `size` bytes."""
    block = b"".join(
        json.dumps({**row, "ts": row["ts"].isoformat().replace("+00:00", "Z")}).encode() + b"\n"
        for row in data.slice(0, 100_000).to_pylist()
    )
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(block)
