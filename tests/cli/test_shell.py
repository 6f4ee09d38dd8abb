"""`indextables sql`: statements and commands from the command line, a file, a pipe and a prompt."""

import os
import pty
import re
import signal
import subprocess
import sys

import pytest

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
    assert ran.err.startswith(f"indextables: {script}:4: No field named nope")
    assert ran.err.count("\n") == 1
    script.write_text("SELECT 1 AS a;\nSELECT 2 AS b")
    assert command("sql", logs, "-f", script, "--json").lines == [{"a": 1}, {"b": 2}]
    assert command("sql", logs, "-f", tmp_path / "missing.sql").code == 2
    assert command("sql", logs, "SELECT 1", "-f", script).code == 2


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
        ("DELETE FROM t WHERE status = 200", ""),
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

    def __init__(self, logs, folder):
        self.main, side = pty.openpty()
        environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder / "state"),
            "INDEXTABLES_CACHE_DIRECTORY": str(folder / "cache"),
            "TERM": "dumb",
            "COLUMNS": "120",
        }
        line = [*LINE, "sql", str(logs)]
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
        code = self.process.wait(timeout=60)
        os.close(self.main)
        return code


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
    shell.says("message")
    shell.types("\\timing\n")
    shell.says("timing is on")
    shell.types("SELECT 5 AS five;\n")
    shell.says(" ms")
    shell.types("\\q\n")
    assert shell.leaves() == 0
    assert "SELECT 5 AS five;" in (tmp_path / "state" / "indextables" / "history").read_text()


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
