"""`indextables sql`: statements and commands from the command line, a file, a pipe and a prompt."""

import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from indextables.cli.shell import _marked
from indextables.errors import CommandSyntaxError, QueryInvalid
from indextables.sql.local import LocalSession

LINE = [sys.executable, "-c", "import sys; from indextables.cli import main; sys.exit(main())"]


def test_commands_work_like_statements(command, logs, log_file):
    command("ingest", logs, log_file)
    (report,) = command("sql", logs, "MERGE SPLITS t", "--json").lines
    assert (report["source_splits"], report["new_splits"]) == (2, 1)
    (newest, *_) = command("sql", logs, f"DESCRIBE INDEXTABLES HISTORY '{logs}'", "--json").lines
    assert newest["operation"] == "MERGE SPLITS"
    assert "source_splits" in command("sql", logs, "merge splits t").out


def test_versions_paths_and_other_spellings_of_a_search(command, logs, log_file):
    command("ingest", logs, log_file)
    for text, count in [
        ("SELECT count(*) AS n FROM t VERSION AS OF 1", 50),
        (f"SELECT count(*) AS n FROM indextables.`{logs}` VERSION AS OF '1' AS x WHERE x.status = 500", 10),
        (f"SELECT count(*) AS n FROM indextables.`{logs}`", 100),
        ("SELECT count(*) AS n FROM t@v1 JOIN t u USING (message)", 100),
        ("SELECT count(*) AS n FROM t WHERE message INDEXQUERY 'timeout'", 20),
        ("SELECT count(*) AS n FROM t WHERE `message` NOT INDEXQUERY 'timeout'", 80),
        ("SELECT count(*) AS n FROM t WHERE t.message INDEXQUERY 'timeout' AND _indexall INDEXQUERY 'connection'", 20),
        ("SELECT count(*) AS n FROM t WHERE INDEXQUERYALL('timeout')", 20),
    ]:
        assert command("sql", logs, text, "--json").lines == [{"n": count}], text
    assert command("sql", logs, "SELECT count(*) AS n FROM t VERSION AS OF 99").code == 3


def test_a_pinned_version_is_what_every_statement_reads(command, logs, log_file):
    command("ingest", logs, log_file)
    text = "SELECT count(*) AS n FROM t; SELECT count(*) AS n FROM t WHERE TEXTSEARCH(*, 'timeout')"
    assert command("sql", logs, text, "--version", "1", "--json").lines == [{"n": 50}, {"n": 10}]


def test_a_file_is_run_until_the_first_fault(command, logs, tmp_path):
    script = tmp_path / "nightly.sql"
    script.write_text("-- one; two\nSELECT 'a;b' AS a;\n\nSELECT\n  nope FROM t;\nSELECT 2 AS b")
    ran = command("sql", logs, "--file", script, "--json")
    assert (ran.code, ran.lines) == (2, [{"a": "a;b"}])
    assert ran.err.startswith(f"indextables: {script}:4: there is no column nope")
    assert ran.err.count("\n") == 1
    script.write_text("SELECT 1 AS a;\nSELECT 2 AS b")
    assert command("sql", logs, "-f", script, "--json").lines == [{"a": 1}, {"b": 2}]
    assert command("sql", logs, "-f", tmp_path / "missing.sql").code == 2
    assert command("sql", logs, "SELECT 1", "-f", script).code == 2


@pytest.mark.slow
def test_a_pipe_is_read(logs):
    ran = subprocess.run(
        [*LINE, "sql", str(logs), "--json"], input=b"SELECT 1 AS a;\nSELECT\n2 AS b", capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b'{"a":1}\n{"b":2}\n', b"")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MERGE SPLITS", "expected a path"),
        ("PURGE INDEXTABLE t OLDER THAN x", "expected a number"),
        ("MERGE SPLITS nope", "nope"),
        ("PURGE INDEXTABLE '/nowhere/at/all' DRY RUN", "nowhere"),
        ("SELECT 1 FROM indextables.`/nowhere/at/all`", "nowhere"),
        ("DELETE FROM t WHERE statu = 200", "statu"),
        ("INSERT INTO t VALUES (1)", ""),
    ],
)
def test_a_wrong_command_is_one_line(command, logs, text, words):
    ran = command("sql", logs, text)
    assert ran.code in (2, 3)
    assert words in ran.err
    assert ran.err.count("\n") == 1
    assert "^" not in ran.err


class Terminal:
    """A shell in a terminal of its own; `says` waits for what it shows."""

    def __init__(self, logs, folder, *arguments):
        self.main, side = pty.openpty()
        environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder / "state"),
            "INDEXTABLES_CACHE_DIRECTORY": str(folder / "cache"),
            "TERM": "dumb",
            "COLUMNS": "120",
        }
        line = [*LINE, "sql", str(logs), *arguments]
        self.process = subprocess.Popen(
            line, stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True
        )
        os.close(side)
        self.shown = ""

    def says(self, words):
        while words not in self.shown:
            self.shown += os.read(self.main, 4096).decode(errors="replace")
        before, self.shown = self.shown.split(words, 1)
        return before

    def types(self, text):
        os.write(self.main, text.encode())

    def leaves(self):
        code = self.process.wait(timeout=300)
        os.close(self.main)
        return code


@pytest.mark.slow
def test_a_prompt_takes_statements_of_several_lines_and_survives_faults(logs, tmp_path):
    shell = Terminal(logs, tmp_path)
    shell.says("indextables> ")
    shell.types("SELECT level,\n")
    shell.says("...> ")
    shell.types("count(*) AS n FROM t GROUP BY level ORDER BY level;\n")
    table = shell.says("indextables> ")
    assert re.search(r"ERROR\s+\W?\s*10", table)
    shell.types("SELECT 1 AS a FROM t WHERE TEXTSEARCH(nope, 'x');\n")
    told = shell.says("indextables> ")
    assert "error: " in told
    caret = [line for line in told.replace("\r", "").split("\n") if line.strip() == "^"]
    assert caret == [" " * (2 + len("SELECT 1 AS a FROM t WHERE ")) + "^"]
    shell.types("\\d\n")
    shell.says("t")
    shell.types("\\d t\n")
    assert "timestamp" in shell.says("message")
    shell.says("string")
    shell.types("\\timing\n")
    shell.says("timing is on")
    shell.types("SELECT 5 AS five;\n")
    assert "(1 row)" in shell.says(" ms")
    shell.says("indextables> ")
    shell.types("help\n")
    assert "\\timing" in shell.says("indextables> ")
    shell.types("SELECT * FROM t WHERE TEXTSEARCH(message, 'req1'); \n")
    assert "(1 row)" in shell.says("indextables> ")
    shell.types("\\x\n")
    shell.says("rows are shown as lines")
    shell.types("SELECT level, status FROM t WHERE TEXTSEARCH(message, 'req1 OR req2');\n")
    tall = shell.says("(2 rows)").replace("\r", "")
    assert "-[ row 1 ]\nlevel  | INFO\nstatus | 200\n-[ row 2 ]\n" in tall
    shell.types("quit;\n")
    assert shell.leaves() == 0
    assert "SELECT 5 AS five;" in (tmp_path / "state" / "indextables" / "history").read_text()


@pytest.mark.slow
def test_rows_that_are_too_wide_for_the_terminal_are_shown_as_lines_and_words_are_completed(logs, tmp_path):
    shell = Terminal(logs, tmp_path)
    shell.says("indextables> ")
    wide = ", ".join(f"message AS a_column_with_number_{number}" for number in range(12))
    shell.types(f"SELECT {wide} FROM t LIMIT 2;\n")
    assert re.search(r"a_column_with_number_11 \| \S", shell.says("(2 rows)"))
    shell.types("SELECT t.mess\t FROM t LIMIT 1;\n")
    assert "t.message" in shell.says("(1 row)")
    shell.types("EXIT\n")
    assert shell.leaves() == 0


FAULTS = [
    ("selec * from t", "selec"),
    ("select nope from t", "nope"),
    ("select level,\n nope\nfrom t where textsearch(message, 'nope')", "nope"),
    ("select * from nowhere", "nowhere"),
    ("select foo(level) from t where 'foo' = level", "foo("),
    ("select * from t where status = 'x'", "'x'"),
    ("select * from t where ts > '2026-99-01'", "'2026-99-01'"),
    ("select level, count(*) from t", "level"),
    ("select * from t order by nope", "nope"),
    ("select * from t where textsearch(message, 'a AND (')", "(')"),
    ("merge splitz t", "splitz"),
]


@pytest.mark.parametrize(("text", "place"), FAULTS)
def test_a_fault_of_a_statement_has_its_place_as_a_number(logs, text, place):
    session = LocalSession({"t": str(logs)}, {})
    with pytest.raises((QueryInvalid, CommandSyntaxError)) as caught:
        session.run(text)
    assert isinstance(caught.value.position, int)
    marked = _marked(caught.value, text)
    line, caret = marked.rstrip("\n").split("\n")
    assert line[len(caret) - 1 :].startswith(place)


@pytest.mark.slow
def test_ctrl_c_drops_what_was_typed_and_ctrl_d_leaves(logs, tmp_path):
    shell = Terminal(logs, tmp_path)
    shell.says("indextables> ")
    shell.types("SELECT nonsense\n")
    shell.says("...> ")
    shell.process.send_signal(signal.SIGINT)
    shell.says("indextables> ")
    shell.types("SELECT 41 + 1 AS answer;\n")
    shell.says("42")
    shell.says("indextables> ")
    shell.types("\x04")
    assert shell.leaves() == 0


def test_ctrl_c_is_heard_where_a_nudge_comes_with_it():
    code = """
import os, readline, signal, sys, threading
from indextables.cli.interrupt import WATCH

def press():
    # Both are there before the main thread, which waits for what this one holds, looks for either.
    os.read(int(sys.argv[1]), 1)
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGUSR1)

sys.setswitchinterval(100)
WATCH.start()
threading.Thread(target=press).start()
try:
    WATCH.ask("say> ")
except KeyboardInterrupt:
    WATCH.answered()
    print("heard")
"""
    main, side = pty.openpty()
    hears, tells = os.pipe()
    line = [sys.executable, "-c", code, str(hears)]
    with subprocess.Popen(
        line,
        stdin=side,
        stdout=side,
        stderr=side,
        pass_fds=[hears],
        start_new_session=True,
        env={**os.environ, "TERM": "dumb"},
    ) as process:
        os.close(side)
        shown = b""
        while b"say> " not in shown:
            shown += os.read(main, 4096)
        os.write(tells, b"!")
        while b"heard" not in shown:
            shown += os.read(main, 4096)
    for end in (main, hears, tells):
        os.close(end)
    assert process.returncode == 0


@pytest.mark.slow
def test_a_prompt_asks_before_what_takes_something_away(logs, tmp_path):
    (logs / "splits" / f"split-{0:032x}.split").write_bytes(b"nobody")
    at_once = "PURGE INDEXTABLE t OLDER THAN 0 HOURS FORCE"
    shell = Terminal(logs, tmp_path)
    shell.says("indextables> ")
    shell.types(f"{at_once} DRY RUN;\n")
    assert "[y/N]" not in shell.says("indextables> ")
    for answer in ("n", "", "nope"):
        shell.types(f"{at_once};\n")
        shell.says("Delete 1 file (6 B) of t for good? [y/N]: ")
        shell.types(f"{answer}\n")
        shell.says("nothing was done")
        shell.says("indextables> ")
    assert len(list((logs / "splits").iterdir())) == 2
    shell.types("TRUNCATE INDEXTABLES TIME TRAVEL t;\n")
    shell.says("Forget all versions of t before the newest for good (")
    shell.says("[y/N]: ")
    shell.process.send_signal(signal.SIGINT)
    shell.says("interrupted")
    shell.says("indextables> ")
    shell.types(f"{at_once};\n")
    shell.says("[y/N]: ")
    shell.types("y\n")
    shell.says("indextables> ")
    assert len(list((logs / "splits").iterdir())) == 1
    # Nothing is left to delete, so that there is nothing to ask.
    shell.types(f"{at_once};\n")
    assert "[y/N]" not in shell.says("indextables> ")
    shell.types("\\q\n")
    assert shell.leaves() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 2), ("y", 0, 1)])
def test_a_statement_asks_at_a_terminal_before_it_takes_something_away(command, log_file, tmp_path, answer, code, left):
    place = tmp_path / "days"
    command("ingest", place, log_file, "--partition-by", "day")
    shell = Terminal(place, tmp_path, "DROP INDEXTABLES PARTITIONS FROM t WHERE day = '2024-01-01'; SELECT 1")
    shell.says("Drop 1 file (")
    shell.says("[y/N]: ")
    shell.types(f"{answer}\n")
    shell.says("nothing was done" if code else "1")
    assert shell.leaves() == code
    assert command("sql", place, "SELECT count(DISTINCT day) AS n FROM t", "--json").lines == [{"n": left}]


@pytest.mark.slow
def test_nobody_is_asked_who_said_yes_or_sits_at_no_terminal(command, log_file, tmp_path):
    place = tmp_path / "days"
    command("ingest", place, log_file, "--partition-by", "day")
    text = "DROP INDEXTABLES PARTITIONS FROM t WHERE day = '{}'"
    shell = Terminal(place, tmp_path, "--yes", text.format("2024-01-01") + "; SELECT 7 AS seven")
    assert "[y/N]" not in shell.says("seven")
    assert shell.leaves() == 0
    ran = command("sql", place, text.format("2024-01-02"), "--json")
    assert (ran.code, ran.lines[0]["files"]) == (0, 1)
