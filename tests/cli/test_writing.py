"""create and ingest."""

import gzip
import json
import os
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables


def test_ingest_makes_the_table_and_finds_the_types(command, logs):
    ran = command("schema", logs, "--json")
    assert {line["column"]: line["type"] for line in ran.lines} == {
        "ts": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
        "level": "string",
        "status": "int64",
        "message": "string",
    }


def test_ingest_reports_rows_and_version(command, logs, log_file):
    ran = command("ingest", logs, log_file)
    assert "50 rows" in ran.err
    assert "version 2" in ran.err
    assert command("ingest", logs, log_file, "--quiet").err == ""


def test_the_same_bytes_are_taken_once_when_asked(command, logs, log_file, tmp_path):
    twin = tmp_path / "renamed.jsonl"
    twin.write_bytes(log_file.read_bytes())
    assert command("ingest", logs, log_file, twin, "--once").code == 0
    again = command("ingest", logs, twin, "--once")
    assert "taken before" in again.err
    assert command("count", logs).out == "100\n"
    assert command("ingest", logs, log_file).code == 0
    assert command("count", logs).out == "150\n"


@pytest.mark.slow
def test_two_processes_taking_one_file_at_a_time_add_it_once(command, logs, log_file, tmp_path):
    environment = {**os.environ, "INDEXTABLES_CACHE_DIRECTORY": str(tmp_path / "cache")}
    line = [sys.executable, "-c", "import sys; from indextables.cli import main; sys.exit(main())"]
    both = [
        subprocess.Popen([*line, "ingest", str(logs), str(log_file), "--once"], env=environment, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in both:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    assert command("count", logs).out == "100\n"


def test_csv_parquet_and_compressed_files_give_the_same_rows(command, tmp_path):
    rows = [{"id": i, "name": f"n{i}", "when": f"2024-01-{i + 1:02d}"} for i in range(5)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "a.csv").write_text("id,name,when\n" + "".join(f"{r['id']},{r['name']},{r['when']}\n" for r in rows))
    (tmp_path / "a.tsv").write_text(
        "id\tname\twhen\n" + "".join(f"{r['id']}\t{r['name']}\t{r['when']}\n" for r in rows)
    )
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    made = command("ingest", tmp_path / "t", *(tmp_path / f"a.{end}" for end in ("jsonl.gz", "csv", "tsv", "parquet")))
    assert made.code == 0, made.err
    table = indextables.open(tmp_path / "t")
    assert table.version == 4
    by_version = [table.at(version=v).to_arrow().slice(5 * (v - 1), 5).to_pylist() for v in (1, 2, 3, 4)]
    assert all(part == by_version[0] for part in by_version)
    assert table.schema.field("when").type == pa.date32()


@pytest.mark.slow
def test_standard_input_is_read_with_a_format(logs, tmp_path):
    line = [sys.executable, "-c", "import sys; from indextables.cli import main; sys.exit(main())"]
    data = b'{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n'
    ran = subprocess.run(
        [*line, "ingest", str(tmp_path / "t"), "-", "--format", "jsonl"], input=data, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert indextables.open(tmp_path / "t").to_arrow().to_pylist() == [
        {"id": 1, "text": "one"},
        {"id": 2, "text": "two"},
    ]


def test_a_pipe_is_read_once_and_has_no_identity(command, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f'printf \'{{"id": 1}}\n{{"id": 2}}\n\' > {pipe}']):
        assert command("ingest", tmp_path / "t", pipe, "--format", "jsonl").code == 0
    assert command("count", tmp_path / "t").out == "2\n"
    assert "only once" in command("ingest", tmp_path / "t", pipe, "--format", "jsonl", "--once").err


def test_an_empty_file_adds_nothing(command, logs, tmp_path):
    (tmp_path / "empty.jsonl").touch()
    assert command("ingest", logs, tmp_path / "empty.jsonl").code == 0
    assert command("count", logs).out == "50\n"


def test_missing_fields_become_null_and_case_does_not_matter(command, logs, tmp_path):
    (tmp_path / "more.csv").write_text("MESSAGE,Status\nhello,7\n")
    assert command("ingest", logs, tmp_path / "more.csv").code == 0
    found = command("search", logs, "hello", "--json").lines
    assert [(line["status"], line["level"]) for line in found] == [(7, None)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"message": "a", "extra": 1}', "field that the table"),
        ('{"status": "many"}', "status"),
        ('{"ts": "yesterday"}', "yesterday"),
        ('{"message": "open', "JSON"),
        ("not json", "in row 4"),
        ('{"message": "a"} x', "in row 4"),
        ('{"message": "a"}]', "in row 4"),
        ('{"message": "a"} {"message": 7}', "in row 4"),
        ('[{"message": "a"}]', "one JSON object is an array"),
        ('{"message": "a", "message": "b"}', "'message' twice"),
        ('{"message": 7}', "message is string in the table (or further up in the file), here it is number"),
        ('{"status": 1.5}', "1.5"),
        ("\x1b[31m\x00", "JSON"),
    ],
)
def test_a_bad_line_stops_its_file_with_its_name_and_nothing_is_added(command, logs, tmp_path, line, words):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"message": "good"}\n' * 3 + line + "\n")
    ran = command("ingest", logs, bad)
    assert ran.code == 2
    assert "bad.jsonl" in ran.err
    assert words in ran.err
    assert ran.err.count("\n") == 1
    assert command("count", logs).out == "50\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("status\n1\n2,3\n", "row 2 has 2 columns, the header 1: '2,3'"),
        ("status\nmany\n", "row 1: column status is int64, 'many' is not"),
        ("status,STATUS\n1,2\n", "two columns are called 'status' and 'STATUS'"),
        ("nope\n1\n", "no column nope"),
        ("status;level\n1;x\n", "separated by ';'"),
        ('"status\n1\n', "CSV"),
        ("\x1b\x07,\x00\n\xff,1,2\n", "columns"),
    ],
)
def test_a_bad_csv_file_is_refused_with_its_name_and_nothing_is_added(command, logs, tmp_path, text, words):
    (tmp_path / "bad.csv").write_bytes(text.encode("latin-1"))
    ran = command("ingest", logs, tmp_path / "bad.csv")
    assert ran.code == 2
    assert "bad.csv" in ran.err
    assert words in ran.err
    assert ran.err[:-1].isprintable()
    assert command("count", logs).out == "50\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bad.csv", "a,A\n1,2\n", "two columns are called 'a' and 'A'"),
        ("bad.csv", "a;b\n1;2\n", "separated by ';'"),
        ("bad.jsonl", '[{"a": 1}]\n', "jq"),
        ("bad.csv", "", "Empty"),
        ("bad.jsonl", "", "Empty"),
    ],
)
def test_no_table_is_made_of_a_file_that_cannot_be_read(command, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    ran = command("ingest", tmp_path / "t", tmp_path / name)
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "t").exists()


def test_the_row_of_a_fault_is_counted_from_the_start_of_the_file(command, tmp_path):
    lines = [json.dumps({"id": i, "text": "word " * 100}) for i in range(20_000)]
    lines[15_000] = "broken"
    (tmp_path / "big.jsonl").write_text("\n".join(lines))
    command("create", tmp_path / "t", "--schema", "id bigint, text string")
    assert "in row 15,001" in command("ingest", tmp_path / "t", tmp_path / "big.jsonl").err


def test_a_file_larger_than_the_read_block_streams(command, tmp_path):
    big = tmp_path / "big.jsonl"
    line = json.dumps({"id": 1, "text": "word " * 200}) + "\n"
    big.write_text(line * 12_000)
    assert command("ingest", tmp_path / "t", big).code == 0
    assert command("count", tmp_path / "t").out == "12000\n"


def test_flags_that_an_existing_table_cannot_follow_are_refused(command, logs, log_file):
    assert "partition" in command("ingest", logs, log_file, "--partition-by", "day").err
    ran = command("ingest", logs, log_file, "--text", "nowhere")
    assert ran.code == 2
    assert "no column nowhere" in ran.err
    assert command("ingest", logs, log_file, "--text", "message").code == 0


def test_new_columns_of_an_existing_table_are_indexed_with_the_file_that_brings_them(command, logs, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"level": "new", "host": "web one", "code": 7}\n')
    before = indextables.open(logs)
    ran = command("ingest", logs, tmp_path / "new.jsonl", "--text", "level,host")
    assert (ran.code, "no column host" in ran.err, "--merge-schema" in ran.err) == (2, True, True)
    assert before.refresh().version == before.version, "what is refused changes nothing"
    version = before.version
    ran = command("ingest", logs, tmp_path / "new.jsonl", "--merge-schema", "--text", "host", "--text", "nowhere")
    assert (ran.code, "nowhere" in ran.err) == (0, True)
    table = indextables.open(logs)
    assert (table.version, table.count("host:web")) == (version + 1, 1)
    assert command("ingest", logs, tmp_path / "new.jsonl", "--index", "code=none", "--fast", "level").code == 0
    told = table.refresh().metadata.configuration
    assert (told["indexing.typemap.code"], "level" in told["indexing.fastfields"]) == ("none", True)
    assert (told["indexing.typemap.host"], table.version) == ("text", version + 3)


def test_a_column_of_an_existing_table_becomes_text_with_an_ingest(command, logs, log_file):
    before = indextables.open(logs).count()
    assert command("ingest", logs, log_file, "--text", "level").code == 0
    table = indextables.open(logs)
    assert table.metadata.configuration["indexing.typemap.level"] == "text"
    levels = [level.lower() for level in table.to_arrow()["level"].to_pylist() if level is not None]
    assert len(levels) > before
    assert table.count(f"level:{levels[0]}") == levels.count(levels[0])


def test_create_makes_an_empty_table_of_a_schema(command, tmp_path):
    schema = "ts timestamp, tags array<string>, price decimal(10,2), message string not null"
    ran = command("create", tmp_path / "t", "--schema", schema, "--text", "message", "--property", "owner=me")
    assert ran.code == 0, ran.err
    table = indextables.open(tmp_path / "t")
    assert table.schema.field("price").type == pa.decimal128(10, 2)
    assert not table.schema.field("message").nullable
    assert table.metadata.configuration["owner"] == "me"


def test_create_takes_the_schema_of_a_file(command, log_file, tmp_path):
    assert command("create", tmp_path / "t", "--like", log_file, "--partition-by", "day").code == 0
    assert indextables.open(tmp_path / "t").partition_columns == ["day"]


@pytest.mark.parametrize("schema", ["a", "a nope", "", "a int) --", "a decimal(99,1)", "a decimal(b)", "a int, a int"])
def test_a_schema_that_is_none_is_refused(command, tmp_path, schema):
    ran = command("create", tmp_path / "t", "--schema", schema)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "t").exists()


MAPS = (
    "id bigint, m map<string, bigint>, k map<int, double>, s struct<m: map<string, date>, d: date>, "
    "l array<map<string, string>>"
)


def test_an_object_of_a_json_line_goes_into_a_map(command, tmp_path):
    lines = [
        {"id": 1, "m": {"a": 1, 'q"\u00e9': 2**62}, "k": {"7": 0.5, "-1": None}, "s": {"m": {"x": "2024-02-29"}}},
        {"id": 2, "m": {}, "k": None, "s": {"m": None, "d": "2024-01-01"}, "l": [{"a": "{}"}, None, {}, {"b": "]"}]},
        {"id": 3},
    ]
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    command("create", tmp_path / "t", "--schema", MAPS)
    ran = command("ingest", tmp_path / "t", tmp_path / "a.jsonl")
    assert ran.code == 0, ran.err
    back = command("sql", tmp_path / "t", "SELECT * FROM t ORDER BY id", "--json").lines
    empty = {"id": None, "m": None, "k": None, "s": None, "l": None}
    want = [empty | line for line in lines]
    want[0]["s"] = {"m": {"x": "2024-02-29"}, "d": None}
    assert back == want


@pytest.mark.slow
def test_maps_come_through_a_file_of_many_blocks(command, tmp_path):
    rows = 40_000
    text = "".join(f'{{"id": {i}, "m": {{"k{i}": {i}}}, "pad": "{"z" * 200}"}}\n' for i in range(rows))
    (tmp_path / "big.jsonl").write_text(text)
    command("create", tmp_path / "t", "--schema", "id bigint, m map<string, bigint>, pad string")
    assert command("ingest", tmp_path / "t", tmp_path / "big.jsonl").code == 0
    found = indextables.open(tmp_path / "t").to_arrow(columns=["id", "m"]).to_pylist()
    assert sorted((row["id"], row["m"]) for row in found) == [(i, [(f"k{i}", i)]) for i in range(rows)]


@pytest.mark.parametrize(
    ("schema", "line", "words"),
    [
        ("n tinyint", '{"n": 200}', "column n"),
        ("n bigint", '{"n": 1.5}', "column n"),
        ("n bigint", '{"n": 99999999999999999999}', "column n"),
        ("n decimal(5, 2)", '{"n": 1.255}', "column n"),
        ("n decimal(5, 2)", '{"n": "foo"}', "column n"),
        ("n double", '{"n": 9007199254740993}', "column n"),
        ("n bigint", '{"x": 1}', "column x"),
        ("n bigint", "null", "null"),
        ("n bigint", '{"n": "many"}', "n is number"),
        ("n struct<d: date>", '{"n": {"d": "2024-13-01"}}', "column n.d"),
        ("n struct<d: date>", '{"n": {"e": 1}}', "column n"),
        ("n struct<d: timestamp_ntz>", '{"n": {"d": "2024-01-01T00:00:00Z"}}', "column n.d"),
        ("n array<timestamp>", '{"n": ["2024-01-01T00:00:00Z", "soon"]}', "column n[]"),
        ("n map<string, bigint>", '{"n": 7}', "column n"),
        ("n map<string, bigint>", '{"n": [{"key": "a", "value": 1}]}', "column n"),
        ("n map<string, bigint>", '{"n": {"a": "x"}}', "n[].value is number"),
        ("n map<string, bigint>", '{"n": {"a": 1, "a": 2}}', "'a' twice"),
        ("n map<int, bigint>", '{"n": {"one": 2}}', "column n"),
        ("n map<string, double>", '{"n": {"a": 9007199254740993}}', "column n"),
        ("n map<string, date>", '{"n": {"a": "2024-13-01"}}', "column n{}"),
    ],
)
def test_what_does_not_fit_is_named_with_its_row_and_its_column(command, tmp_path, schema, line, words):
    (tmp_path / "bad.jsonl").write_text('{"pad": "x"}\n' * 3 + f'\n{line}\n{{"pad": "end"}}\n')
    command("create", tmp_path / "t", "--schema", f"{schema}, pad string")
    ran = command("ingest", tmp_path / "t", tmp_path / "bad.jsonl")
    assert ran.code == 2
    assert words in ran.err
    assert "row 4" in ran.err
    assert ran.err.count("\n") == 1
    assert command("count", tmp_path / "t").out == "0\n"


@pytest.mark.slow
def test_the_row_and_the_column_are_told_of_what_comes_by_a_pipe(command, tmp_path):
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    text = f'{{"pad": "{"z" * 1000}"}}\n\n' * 30_000 + '{"n": 1.5}\n{"n": 2}\n'
    writer = threading.Thread(target=lambda: pipe.write_text(text))
    command("create", tmp_path / "t", "--schema", "n bigint, pad string")
    writer.start()
    ran = command("ingest", tmp_path / "t", pipe)
    writer.join()
    assert "column n: '1.5' is not of type int64, in row 30,001" in ran.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}\n\nnull\n', "in row 2"),
        (
            '{"a": 0.5}\n{"b": 1, "a": 9007199254740993}\n{"a": 2}\n',
            "column a: 9007199254740993 is not exact as double",
        ),
        ('{"a": {"b": 0.5}}\n{"a": {"b": 9007199254740993}}\n', "in row 2"),
    ],
)
def test_a_file_that_no_table_can_be_made_of_is_refused_with_the_row(command, tmp_path, text, words):
    (tmp_path / "bad.jsonl").write_text(text)
    ran = command("ingest", tmp_path / "t", tmp_path / "bad.jsonl")
    assert ran.code == 2
    assert words in ran.err
    assert "in row 2" in ran.err
