"""search, sql and count."""

import pytest


def test_search_shows_the_best_rows(command, logs):
    ran = command("search", logs, "message:timeout", "--limit", "3", "--columns", "level,message")
    assert ran.code == 0
    assert ran.out.count("connection timeout req") == 3
    assert "_score" in ran.out
    assert "status" not in ran.out


@pytest.mark.parametrize("query", ["nothingofthekind", "", "timeout"])
def test_a_search_that_finds_nothing_shows_the_columns(command, logs, query):
    ran = command("search", logs, query, "--offset", 2**63 if query == "timeout" else 0)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0].split()[0] == "ts"
    assert command("search", logs, query, "--offset", 2**63, "--json").out == ""


def test_search_as_json_is_one_object_per_line(command, logs):
    ran = command("search", logs, "timeout", "--json", "--limit", "100")
    assert len(ran.lines) == 10
    assert {line["level"] for line in ran.lines} == {"ERROR"}
    assert all(line["ts"].startswith("2024-01-01T00:00:") for line in ran.lines)


def test_search_marks_what_matched(command, logs, monkeypatch):
    ran = command("search", logs, "message:timeout", "--json", "--highlight", "--limit", "1")
    assert "<em>timeout</em>" in ran.lines[0]["_highlight_message"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = command("search", logs, "message:timeout", "--limit", "1")
    assert "\x1b[1;33mtimeout\x1b[0m" in shown.out
    assert "_highlight" not in shown.out
    plain = command("search", logs, "message:timeout", "--limit", "1", "--no-highlight")
    assert "\x1b[1;33m" not in plain.out


def test_marked_text_is_shown_as_it_is_stored(command, tmp_path):
    (tmp_path / "odd.jsonl").write_text('{"message": "a <b> & [bold]timeout[/bold] \\u0041"}\n')
    assert command("ingest", tmp_path / "t", tmp_path / "odd.jsonl", "--text", "message").code == 0
    assert "a <b> & [bold]timeout[/bold] A" in command("search", tmp_path / "t", "timeout").out


def test_search_takes_a_predicate_an_order_and_an_offset(command, logs):
    ran = command("search", logs, "well", "--where", "ts >= '2024-01-01T00:00:40Z'", "--order-by", "ts desc", "--json")
    seconds = [int(line["ts"][17:19]) for line in ran.lines]
    assert seconds == [49, 48, 47, 46, 44, 43, 42, 41]
    moved = command(
        "search",
        logs,
        "well",
        "--where",
        "ts >= '2024-01-01T00:00:40Z'",
        "--order-by",
        "ts desc",
        "--offset",
        "6",
        "--json",
    )
    assert [int(line["ts"][17:19]) for line in moved.lines] == [42, 41]


def test_sql_groups_and_searches(command, logs):
    text = (
        "SELECT level, count(*) AS n FROM t WHERE TEXTSEARCH(message, 'timeout') OR status = 200 GROUP BY 1 ORDER BY 1"
    )
    assert command("sql", logs, text, "--json").lines == [{"level": "ERROR", "n": 10}, {"level": "INFO", "n": 40}]


def test_sql_joins_other_tables_and_binds_parameters(command, logs):
    text = "SELECT count(*) AS n FROM t JOIN other USING (message) WHERE TEXTSEARCH(t.message, $q)"
    ran = command("sql", logs, text, "--with", f"other={logs}", "--param", "q=timeout", "--json")
    assert ran.lines == [{"n": 10}]


def test_count_counts_all_or_what_matches(command, logs):
    assert command("count", logs).out == "50\n"
    assert command("count", logs, "timeout").out == "10\n"
    assert command("count", logs, "well", "--where", "status = 500").out == "0\n"


def test_older_versions_can_be_asked(command, logs, log_file):
    assert command("ingest", logs, log_file).code == 0
    assert command("count", logs).out == "100\n"
    assert command("count", logs, "--version", "1").out == "50\n"
    assert command("search", logs, "timeout", "--version", "1", "--json", "-n", "100").out.count("\n") == 10
    assert command("sql", logs, "SELECT count(*) AS n FROM t", "--version", "1", "--json").lines == [{"n": 50}]


def test_a_statement_without_a_table_is_told_where_the_table_stands(command, logs):
    ran = command("sql", "SELECT 'a' AS a")
    assert ran.code == 2
    assert "the table comes before the statement: indextables sql <table> " in ran.err
