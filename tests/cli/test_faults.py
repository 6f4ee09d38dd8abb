"""A user's mistake or a machine's fault is one clear line and an exit code, never a traceback."""

import contextlib
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from indextables.cli.outcome import code_of, line_of
from indextables.errors import (
    CheckpointWriteFailed,
    CommitConflict,
    CommitStateUnknown,
    InvalidArgument,
    StoreFull,
    StorePermissionDenied,
    TableReplaced,
)

LINE = [sys.executable, "-c", "import sys; from indextables.cli import main; sys.exit(main())"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["search", "{missing}", "x"], 3, "No transaction log"),
        (["count", "{file}"], 3, ""),
        (["search", "{logs}", "nope:x"], 2, "nope"),
        (["search", "{logs}", 'message:"open'], 2, "quote"),
        (["search", "{logs}", "(a"], 2, ""),
        (["search", "{logs}", "status:[a TO b]"], 2, ""),
        (["search", "{logs}", "x", "--where", "nope = 1"], 2, "nope"),
        (["search", "{logs}", "x", "--where", "level = 'open"], 2, "quote"),
        (["search", "{logs}", "x", "--columns", "nope"], 2, "nope"),
        (["search", "{logs}", "x", "--order-by", "nope"], 2, "nope"),
        (["sql", "{logs}", "SELEC 1"], 2, "SELEC"),
        (["sql", "{logs}", "SELECT nope FROM t"], 2, "nope"),
        (["sql", "{logs}", "DROP TABLE t"], 2, "SELECT"),
        (["sql", "{logs}", ""], 2, "empty"),
        (["sql", "{logs}", ";"], 2, "empty"),
        (["sql", "{logs}", "SELECT 'open"], 2, "a quote is not closed (line 1, column 8)"),
        (["sql", "{logs}", "SELECT * FROM t WHERE TEXTSEARCH(message, '\"open')"], 2, "quote"),
        (["sql", "{logs}", "SELECT $x"], 2, "$x"),
        (["sql", "{logs}", "SELECT 1", "--with", "x"], 2, "--with"),
        (["count", "{logs}", "--version", "99"], 3, "99"),
        (["count", "{logs}", "--timestamp", "yesterday"], 2, "yesterday"),
        (["log", "{logs}", "99"], 3, "99"),
        (["ingest", "{logs}", "{missing}"], 2, "format"),
        (["ingest", "{logs}", "{missing}.jsonl"], 2, "missing.jsonl: No such file or directory\n"),
        (["ingest", "{logs}", "{file}.jsonl", "{missing}.jsonl"], 2, "missing.jsonl: No such file or directory\n"),
        (["ingest", "{logs}", "{folder}"], 2, "folder: the folder has no files\n"),
        (
            ["ingest", "{logs}", "{null}.jsonl"],
            2,
            "null.jsonl: a line is null where one JSON object belongs, in row 1\n",
        ),
        (
            ["ingest", "{missing}", "{null}.jsonl"],
            2,
            "null.jsonl: a line is null where one JSON object belongs, in row 1\n",
        ),
        (["ingest", "{logs}", "{latin}.jsonl"], 2, "is not UTF-8; convert the file first (from Latin-1: `iconv"),
        (["ingest", "{logs}", "{latin}.jsonl"], 2, "in row 2\n"),
        (["ingest", "{missing}", "{latin}.csv"], 2, "latin.csv: row 2: column a holds b'caf\\xe9', which is not UTF-8"),
        (["ingest", "{logs}", "{latin head}.csv"], 2, "column 2 of the header is b'caf\\xe9', which is not UTF-8"),
        (["ingest", "{missing}", "{empty}.csv"], 2, "empty.csv: column 2 has an empty name in the header\n"),
        (["ingest", "{missing}", "{blank}.csv"], 2, "blank.csv: column 2 of the header is ' level': take the blanks"),
        (["ingest", "{logs}", "{blank}.csv"], 2, "blank.csv: the table has no column ' level'; it has "),
        (["ingest", "{missing}", "{file}.jsonl", "--text", "message,nope"], 2, "names column 'nope'"),
        (["search", "{logs}", "x", "--order-by", "ts descending"], 2, "write desc for descending: 'ts desc'"),
        (
            ["sql", "{logs}", "SELECT * FROM logs"],
            2,
            "there is no table 'logs' here: the table is called t (at character 15",
        ),
        (["create", "{missing}", "--schema", "x strng"], 2, "'strng' is not understood"),
        (["drop-partitions", "{logs}", "--where", "level = 'INFO'"], 2, "level is not a partition column"),
        (["ingest", "{logs}", "{missing}.csv"], 2, "No such file"),
        (["ingest", "{logs}", "{missing}.parquet"], 2, "No such file"),
        (["ingest", "{logs}", "{folder}.jsonl"], 2, "folder.jsonl: the folder has no files"),
        (["ingest", "{logs}", "{text}.parquet"], 2, "text.parquet"),
        (["ingest", "{logs}", "{missing}.jsonl", "--once"], 2, "No such file"),
        (["ingest", "{logs}", "{text}.parquet", "--format", "nope"], 2, "nope"),
        (["create", "{missing}"], 2, "--schema"),
        (["search", "{logs}", "x", "--columns", ""], 2, "--columns"),
        (["search", "", "x"], 2, "empty"),
        (["search", "/", "x"], 2, "folder"),
        (["search", "hdfs://host/table", "x"], 2, "hdfs"),
        (["search", "nope://host/table", "x"], 2, "nope"),
        (["count", "{logs}", "--option", "checkpoint.interval=none"], 2, "checkpoint.interval"),
        (["count", "{logs}", "--option", "odd"], 2, "KEY=VALUE"),
    ],
)
def test_a_wrong_argument_is_one_line(command, logs, tmp_path, arguments, code, words):
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "text.parquet").write_text("no parquet at all")
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.jsonl").write_text('{"message": "good"}\n')
    (tmp_path / "null.jsonl").write_text('null\n{"message": "good"}\n')
    (tmp_path / "latin.jsonl").write_bytes(b'{"message": "good"}\n{"message": "caf\xe9"}\n')
    (tmp_path / "latin.csv").write_bytes(b"a,b\nx,y\ncaf\xe9,y\n")
    (tmp_path / "latin head.csv").write_bytes(b"message,caf\xe9\nx,y\n")
    (tmp_path / "empty.csv").write_text("message,\nx,y\n")
    (tmp_path / "blank.csv").write_text("message, level\nx,y\n")
    files = ("missing", "folder", "text", "file", "null", "latin", "latin head", "empty", "blank")
    places = {name: tmp_path / name for name in files}
    places["logs"] = logs
    ran = command(*(argument.format(**places) for argument in arguments))
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err
    assert ran.err.startswith("indextables: ")
    assert ran.err.count("\n") == 1
    assert len(list((logs / "_transaction_log").glob("*.json"))) == 2
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("arguments", [[], ["search"], ["search", "t"], ["nope"], ["search", "t", "x", "--limit", "a"]])
def test_an_incomplete_command_line_shows_the_usage(command, arguments):
    ran = command(*arguments)
    assert ran.code == 2
    assert "Usage: indextables" in ran.out + ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("merge", "'merge-splits'"), ("drop", "'drop-partitions'"), ("pruge", "'purge'"), ("serach", "'search'")],
)
def test_a_mistyped_command_is_answered_with_the_one_that_is_meant(command, typed, meant):
    assert f"No such command '{typed}'. Did you mean {meant}?\n" in command(typed, "t").err


@pytest.mark.parametrize("typed", ["remove", "large", "reset", "delete", "trunk"])
def test_a_command_that_takes_something_away_is_not_suggested_for_another(command, typed):
    assert not {"purge", "restore", "truncate", "drop-partitions"} & set(command(typed, "t").err.split("'"))


@pytest.mark.slow
def test_the_package_runs_as_the_command(logs):
    ran = subprocess.run([sys.executable, "-m", "indextables", "count", logs], capture_output=True, check=True)
    assert ran.stdout == subprocess.run([*LINE, "count", logs], capture_output=True, check=True).stdout


def test_a_file_whose_reads_fail_is_one_line(command, logs):
    ran = command("ingest", logs, "/proc/self/mem", "--format", "jsonl")
    assert ran.code == 2
    assert "/proc/self/mem" in ran.err
    assert ran.err.count("\n") == 1
    assert command("count", logs).out == "50\n"


def test_a_data_file_that_is_gone_is_one_line(command, logs):
    (split,) = logs.rglob("*.split")
    split.unlink()
    shutil.rmtree(logs.parent / "cache", ignore_errors=True)
    ran = command("sql", logs, "SELECT message FROM t")
    assert ran.code == 3
    assert split.name in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["count"], ["search", "timeout"], ["search", "timeout", "--json"], ["--help"]])
def test_output_that_cannot_be_written_is_one_line(logs, tmp_path, arguments):
    name, *rest = arguments
    line = [*LINE, name, *([] if name == "--help" else [str(logs)]), *rest]
    environment = {**os.environ, "INDEXTABLES_CACHE_DIRECTORY": str(tmp_path / "cache")}
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (ran.returncode, ran.stderr) == (5, "indextables: the output cannot be written: No space left on device\n")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_process_without_output_does_its_work(logs, closed):
    for words, code in (("count", 0), ("count nope:x", 2)):
        command, *rest = words.split()
        text = shlex.join([*LINE, command, str(logs), *rest])
        ran = subprocess.run(["bash", "-c", f"{text} {closed}"], capture_output=True, text=True, check=False)
        assert ran.returncode == code
        assert "Traceback" not in ran.stdout + ran.stderr


def test_what_an_error_quotes_does_not_command_the_terminal():
    error = InvalidArgument("bad \x1b[31m\x07value\n\tin \u202eline" + "x" * 5000)
    assert line_of(error).startswith("bad \\x1b[31m\\x07value in \\u202eline")
    assert len(line_of(error)) < 1100


@pytest.mark.slow
def test_ctrl_c_ends_a_command_that_waits_with_one_line(logs, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = [*LINE, "ingest", str(logs), str(pipe), "--format", "jsonl"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process, pipe.open("wb") as held:
        # Opening the pipe waits for its reader: the command is in the middle of its work.
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
        held.close()
    assert (process.returncode, err) == (130, "indextables: interrupted\n")


@pytest.mark.slow
def test_ctrl_c_is_one_line_however_long_the_process_takes_to_end(logs, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    never_ends = "import atexit, threading; atexit.register(threading.Event().wait); " + LINE[2]
    line = [sys.executable, "-c", never_ends, "ingest", str(logs), str(pipe), "--format", "jsonl"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process, pipe.open("wb"):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, "indextables: interrupted\n")


def test_ctrl_c_that_is_lost_in_a_callback_is_heard_all_the_same():
    code = """
import os, signal, threading
from indextables.cli.interrupt import WATCH

class Callback:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

WATCH.start()
WATCH._at_prompt = True
try:
    Callback()
    print("goes on", flush=True)
    threading.Event().wait()
except KeyboardInterrupt:
    WATCH.answered()
    print("heard")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "goes on\nheard\n", "")


@pytest.mark.slow
def test_ctrl_c_ends_a_command_inside_native_code_with_one_line(logs):
    text = "SELECT count(*) FROM t a, t b, t c, t d, t e WHERE a.ts < b.ts AND c.ts < d.ts OR e.ts < a.ts"
    with subprocess.Popen([*LINE, "sql", str(logs), text], stderr=subprocess.PIPE, text=True) as process:
        while cpu_seconds(process) < 2:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, "indextables: interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize(("callback", "call"), [("schema", 1), ("schema", 12), ("get_fragments", 1), ("scanner", 1)])
def test_ctrl_c_while_native_code_calls_python_is_one_line(logs, callback, call):
    code = f"""
import sys
from indextables.cli import main
from indextables.sql.local import provider

exec('''
import itertools, os, signal

def interrupted(*args, **kwargs):
    if next(calls) == {call}:
        os.kill(os.getpid(), signal.SIGINT)
    return real(*args, **kwargs)

calls = itertools.count(1)
real = Provider.{callback}
if isinstance(real, property):
    real, interrupted = real.fget, property(interrupted)
Provider.{callback} = interrupted
''', vars(provider))
sys.exit(main())
"""
    text = "SELECT count(*) FROM t a, t b, t c, t d, t e WHERE a.ts < b.ts AND c.ts < d.ts OR e.ts < a.ts"
    line = [sys.executable, "-c", code, "sql", str(logs), text]
    ran = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stderr) == (130, "indextables: interrupted\n")


@pytest.mark.parametrize(
    ("step", "flags"),
    [
        ("indextables.cli.plain.read", []),
        ("typer.Typer.__call__", ["--where=-1 < status"]),
        ("typer.main.get_command", ["--where=-1 < status"]),
    ],
)
def test_ctrl_c_before_a_command_begins_its_work_is_one_line(logs, step, flags):
    module, _, name = step.rpartition(".")
    code = f"""
import os, pkgutil, signal, sys
from indextables.cli import main

def interrupted(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGINT)
    return real(*args, **kwargs)

place = pkgutil.resolve_name({module!r})
real = getattr(place, {name!r})
setattr(place, {name!r}, interrupted)
sys.exit(main())
"""
    line = [sys.executable, "-c", code, "count", str(logs), "nope:x", *flags]
    ran = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stderr) == (130, "indextables: interrupted\n")


@pytest.mark.slow
def test_a_bad_line_of_a_pipe_that_goes_on_is_one_line(command, logs):
    line = b'{"message": "as good as any other"}\n'
    with subprocess.Popen(
        [*LINE, "ingest", str(logs), "-", "--format", "jsonl"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        # More than is read ahead, and no end: a thread of Arrow's waits for the rest when the process ends.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"no json\n" + line * (24 * 2**20 // len(line)))
            process.stdin.flush()
        assert process.wait(timeout=300) == 2
        err = process.stderr.read().decode()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    assert err == "indextables: -: JSON parse error: Invalid value, in row 1\n"
    assert command("count", logs).out == "50\n"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["search", "{}", "grüße"], ["search", "{}", "ключ:x"]])
def test_a_terminal_without_these_letters_gets_them_spelled_out(command, logs, tmp_path, arguments):
    (tmp_path / "more.jsonl").write_text('{"message": "Grüße"}\n')
    command("ingest", logs, tmp_path / "more.jsonl")
    ran = subprocess.run(
        [*LINE, *(argument.format(logs) for argument in arguments)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ran.stderr
    assert r"Gr\xfc\xdfe" in ran.stdout or r"\u043a\u043b" in ran.stderr


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_adds_nothing(command, logs, tmp_path):
    big = tmp_path / "big.jsonl"
    with big.open("w") as file:
        file.writelines(f'{{"message": "{os.urandom(16).hex()}"}}\n' for _ in range(20_000))

    def no_space():
        # The kernel refuses to let a file grow, as a full disk would.
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    ran = subprocess.run(
        [*LINE, "ingest", str(logs), str(big)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=no_space,
    )
    assert ran.returncode == 5, ran.stderr
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert command("count", logs).out == "50\n"
    assert command("verify", logs).code == 0


@pytest.mark.slow
def test_output_that_nobody_reads_is_no_error(logs):
    ran = subprocess.run(
        [
            "bash",
            "-c",
            f"set -o pipefail; {sys.executable} -c '{LINE[2]}' sql {logs} 'SELECT * FROM t, t u' --json | head -1",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.count("\n") == 1
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommitConflict("somebody else won", winner=3), 6),
        (TableReplaced("another table"), 6),
        (CommitStateUnknown("no answer", token="a" * 32), 7),
        (StoreFull("no space", key="k"), 5),
        (OSError(28, "No space left on device"), 5),
    ],
)
def test_every_kind_of_failure_has_its_code(error, code):
    assert code_of(error) == code
    assert "\n" not in line_of(error)


def test_a_checkpoint_that_the_store_refuses_is_the_stores_failure():
    error = CheckpointWriteFailed("not written")
    assert code_of(error) == 4
    error.__cause__ = StorePermissionDenied("read-only")
    assert code_of(error) == 5
