"""What `ingest` takes out of files: whole numbers and dates as they are, each file once, and no half-made table."""

import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables
from indextables.cli.input import inputs
from indextables.errors import InvalidArgument

BIG = [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63, 2**64 + 1, 10**37 + 1]


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def comma_separated(path, rows):
    names = list(rows[0])
    cells = [",".join("" if row[name] is None else str(row[name]) for name in names) for row in rows]
    path.write_text("\n".join([",".join(names), *cells]) + "\n")
    return path


WRITERS = {"jsonl": lines, "csv": comma_separated}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("number", BIG)
def test_a_whole_number_of_any_size_is_kept_exactly(command, tmp_path, kind, number):
    file = WRITERS[kind](tmp_path / f"a.{kind}", [{"n": 1}, {"n": number}, {"n": None}])
    assert command("ingest", tmp_path / "t", file).code == 0
    assert [int(n) for n in indextables.open(tmp_path / "t").to_arrow()["n"].to_pylist() if n is not None] == [
        1,
        number,
    ]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("rows", [[2**53 + 1, 1.5], [1.5, 2**63 + 1], [10**38, 1]])
def test_a_whole_number_that_has_no_exact_place_is_refused_and_nothing_is_made(command, tmp_path, kind, rows):
    file = WRITERS[kind](tmp_path / f"a.{kind}", [{"n": n} for n in rows])
    ran = command("ingest", tmp_path / "t", file)
    assert ran.code != 0
    assert "n" in ran.err
    assert str(max(rows)) in ran.err
    assert "--schema" in ran.err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("number", [2**53 + 1, -(2**60) - 1, 2**70 + 1])
def test_a_double_column_takes_only_whole_numbers_that_it_can_hold(command, tmp_path, kind, number):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("f", pa.float64())]))
    table.append([{"id": 0, "f": 0.5}])
    exact = WRITERS[kind](tmp_path / f"exact.{kind}", [{"id": 2**60 + 1, "f": 2**60}, {"id": 2, "f": 0.1}])
    assert command("ingest", tmp_path / "t", exact).code == 0
    lossy = WRITERS[kind](tmp_path / f"lossy.{kind}", [{"id": 3, "f": 1.5}, {"id": 4, "f": number}])
    ran = command("ingest", tmp_path / "t", lossy)
    assert ran.code != 0
    assert str(number) in ran.err
    assert indextables.open(tmp_path / "t").to_arrow().sort_by("id")["f"].to_pylist() == [0.5, 0.1, 2.0**60]


def test_whole_numbers_inside_of_objects_and_lists_are_watched_too(command, tmp_path):
    schema = pa.schema([("a", pa.struct([("x", pa.float64()), ("l", pa.list_(pa.float32()))]))])
    indextables.create(tmp_path / "t", schema)
    for value in ({"x": 2**53 + 1, "l": []}, {"x": 1, "l": [1, 2**24 + 1 + 2**60]}):
        ran = command("ingest", tmp_path / "t", lines(tmp_path / "a.jsonl", [{"a": value}]))
        assert ran.code != 0
        assert "double" in ran.err or "float" in ran.err
    text = {"a": {"x": 0.1, "l": [1.5]}}
    assert command("ingest", tmp_path / "t", lines(tmp_path / "b.jsonl", [text])).code == 0


def test_a_decimal_column_takes_numbers_and_texts_of_json(command, tmp_path):
    indextables.create(tmp_path / "t", pa.schema([("d", pa.decimal128(38, 2))]))
    (tmp_path / "a.jsonl").write_text('{"d": 12345678901234567890.25}\n{"d": "1.5"}\n{"d": null}\n{"d": 3}\n')
    ran = command("ingest", tmp_path / "t", tmp_path / "a.jsonl")
    assert ran.code == 0, ran.err
    found = indextables.open(tmp_path / "t").to_arrow()["d"].to_pylist()
    assert [None if d is None else str(d) for d in found] == ["12345678901234567890.25", "1.50", None, "3.00"]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("text", ["0000-00-00", "2024-02-30", "2024-13-01", "0000-00-00 00:00:00"])
def test_what_only_looks_like_a_date_is_text(command, tmp_path, kind, text):
    file = WRITERS[kind](tmp_path / f"a.{kind}", [{"d": "2024-01-01"}, {"d": text}])
    ran = command("ingest", tmp_path / "t", file)
    assert ran.code == 0, ran.err
    assert indextables.open(tmp_path / "t").to_arrow()["d"].to_pylist() == ["2024-01-01", text]


def test_a_file_is_taken_again_after_the_commit_that_took_it_was_restored_away(command, logs, log_file):
    assert command("ingest", logs, log_file, "--once").code == 0
    assert command("count", logs).out == "100\n"
    assert command("restore", logs, "--version", "1").code == 0
    assert command("count", logs).out == "50\n"
    assert "50 rows" in command("ingest", logs, log_file, "--once").err
    assert "taken before" in command("ingest", logs, log_file, "--once").err
    assert command("count", logs).out == "100\n"
    # Back to where it was not there, then forward to where it was.
    assert command("restore", logs, "--version", "1").code == 0
    assert command("restore", logs, "--version", "2").code == 0
    assert "taken before" in command("ingest", logs, log_file, "--once").err
    assert command("count", logs).out == "100\n"


@pytest.mark.parametrize("then", ["nothing", "overwrite", "merge"])
def test_a_restore_gives_a_file_free_whatever_became_of_its_rows_meanwhile(command, tmp_path, then):
    """Also where no data file has to come or go."""
    table = indextables.create(tmp_path / "t", pa.schema([("x", pa.int64())]))
    file = lines(tmp_path / "a.jsonl", [{"x": 1}, {"x": 2}])
    assert command("ingest", tmp_path / "t", file, "--once").code == 0
    if then == "overwrite":
        table.refresh().overwrite([])
    elif then == "merge":
        table.refresh().append([{"x": 3}])
        table.refresh().merge_splits()
    restored = table.refresh().restore(version=0)
    assert restored.version == table.refresh().version
    assert "2 rows" in command("ingest", tmp_path / "t", file, "--once").err
    assert sorted(table.refresh().to_arrow()["x"].to_pylist()) == [1, 2]
    # The same state once more changes nothing, and makes no version.
    assert table.restore(version=table.version).version == table.version


@pytest.mark.parametrize("moment", ["before its turn", "before it is opened", "while it is read"])
@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_changes_during_an_ingest_is_in_the_table_once(command, tmp_path, monkeypatch, kind, moment):
    table = indextables.create(tmp_path / "t", pa.schema([("x", pa.int64())]))
    other = lines(tmp_path / "other.jsonl", [{"x": 10}])
    file = WRITERS[kind](tmp_path / f"app.{kind}", [{"x": 1}])
    more = '{"x": 2}\n' if kind == "jsonl" else "2\n"
    opens, grown = inputs.open_input, []

    def grow():
        if not grown:
            grown.append(1)
            with file.open("a") as out:
                out.write(more)

    def opening(name, *rest):
        if moment == "before its turn" or (moment == "before it is opened" and name == str(file)):
            grow()
        found = opens(name, *rest)
        if moment == "while it is read" and name == str(file):
            grow()
        return found

    monkeypatch.setattr(inputs, "open_input", opening)
    first = command("ingest", tmp_path / "t", other, file, "--once")
    if moment == "before its turn":
        assert first.code == 0, first.err
    else:
        assert first.code != 0
        assert f"{file}: it changed while it was read" in first.err
        assert "run this again" in first.err
        assert table.refresh().to_arrow()["x"].to_pylist() == [10]
    for _ in range(2):
        assert command("ingest", tmp_path / "t", other, file, "--once").code == 0
    assert sorted(table.refresh().to_arrow()["x"].to_pylist()) == [1, 2, 10]


@pytest.mark.slow
@pytest.mark.parametrize("is_there", [True, False], ids=["a table", "no table yet"])
def test_who_loses_the_race_for_a_file_does_not_say_that_it_added_rows(command, tmp_path, monkeypatch, is_there):
    if is_there:
        indextables.create(tmp_path / "t", pa.schema([("x", pa.int64())]))
    file = lines(tmp_path / "a.jsonl", [{"x": 1}, {"x": 2}])
    opens = inputs.open_input

    def overtaken(name, *rest):
        monkeypatch.setattr(inputs, "open_input", opens)
        line = [sys.executable, "-c", "from indextables.cli import main; raise SystemExit(main())"]
        won = subprocess.run(
            [*line, "ingest", tmp_path / "t", file, "--once"], capture_output=True, text=True, check=True
        )
        assert "2 rows" in won.stderr
        return opens(name, *rest)

    monkeypatch.setattr(inputs, "open_input", overtaken)
    lost = command("ingest", tmp_path / "t", file, "--once")
    assert lost.code == 0
    assert f"{file}: taken before, nothing added" in lost.err
    assert "rows" not in lost.err
    assert indextables.open(tmp_path / "t").to_arrow()["x"].to_pylist() == [1, 2]


def test_a_restore_that_keeps_the_rows_of_a_file_keeps_it_known(command, logs, log_file):
    assert command("ingest", logs, log_file, "--once").code == 0
    assert command("ingest", logs, log_file).code == 0
    assert command("restore", logs, "--version", "2").code == 0
    assert "taken before" in command("ingest", logs, log_file, "--once").err


def test_watermarks_of_applications_never_go_back(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("x", pa.int64())]))
    table.append([{"x": 1}], txn=("stream", 7))
    table.append([{"x": 2}], txn=("stream", 8))
    table.restore(version=0)
    assert indextables.open(tmp_path / "t").txn_version("stream") == 8
    table.append([{"x": 3}], txn=("stream", 8))
    assert indextables.open(tmp_path / "t").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("broken", ['{"a": 1}\n{"a": "x"}\n', '{"a": 1}\nnot json\n'])
def test_a_failed_first_ingest_leaves_no_table(command, tmp_path, broken):
    rows = "".join(f'{{"a": {i}, "pad": "{"p" * 200}"}}\n' for i in range(100_000))
    (tmp_path / "a.jsonl").write_text(rows + broken)
    ran = command("ingest", tmp_path / "t", tmp_path / "a.jsonl")
    assert ran.code != 0
    assert not (tmp_path / "t").exists() or list((tmp_path / "t").iterdir()) == []
    assert command("count", tmp_path / "t").code != 0
    lines(tmp_path / "good.jsonl", [{"other": "columns"}])
    assert command("ingest", tmp_path / "t", tmp_path / "good.jsonl").code == 0
    assert indextables.open(tmp_path / "t").version == 1


def test_an_empty_first_file_makes_the_table_that_its_header_says(command, tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    assert command("ingest", tmp_path / "t", tmp_path / "a.parquet").code == 0
    assert indextables.open(tmp_path / "t").schema.names == ["a"]


@pytest.mark.parametrize("verb", ["ingest", "create"])
def test_memory_is_no_place_for_a_command_to_write(command, tmp_path, verb):
    file = lines(tmp_path / "a.jsonl", [{"a": 1}])
    more = [file] if verb == "ingest" else ["--schema", "a int"]
    ran = command(verb, "memory://lost/t", *more)
    assert ran.code != 0
    assert "memory://" in ran.err
    assert "folder" in ran.err


FOREIGN = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/00000-0a1b.metadata.json",
}


@pytest.mark.parametrize("system", FOREIGN)
def test_a_folder_of_another_system_is_not_written_into(command, tmp_path, system):
    marker = tmp_path / "t" / FOREIGN[system]
    marker.parent.mkdir(parents=True)
    marker.write_text("{}")
    before = sorted(tmp_path.joinpath("t").rglob("*"))
    file = lines(tmp_path / "a.jsonl", [{"a": 1}])
    for words in (["ingest", tmp_path / "t", file], ["create", tmp_path / "t", "--schema", "a int"]):
        ran = command(*words)
        assert ran.code != 0
        assert system in ran.err
        assert "another path" in ran.err
    with pytest.raises(InvalidArgument, match=system):
        indextables.create(tmp_path / "t", pa.schema([("a", pa.int64())]))
    assert sorted(tmp_path.joinpath("t").rglob("*")) == before


@pytest.mark.parametrize("system", FOREIGN)
def test_where_our_own_log_stands_beside_another_it_is_the_table(command, tmp_path, system):
    table = indextables.create(tmp_path / "t", pa.schema([("a", pa.int64())]))
    table.append([{"a": 1}])
    marker = tmp_path / "t" / FOREIGN[system]
    marker.parent.mkdir(parents=True)
    marker.write_text("{}")
    assert indextables.open(tmp_path / "t").count() == 1
    assert command("ingest", tmp_path / "t", lines(tmp_path / "a.jsonl", [{"a": 2}])).code == 0
    assert indextables.create(tmp_path / "t", table.schema).count() == 2
    shutil.rmtree(tmp_path / "t" / "_transaction_log")
    indextables.invalidate_caches()
    assert command("count", tmp_path / "t").code != 0


def twice_in(path, names, *, nested, empty):
    """A file with two columns of these names, or with two such fields in an object called o."""
    if path.suffix == ".jsonl":
        line = "{" + ", ".join(f'"{name}": {place}' for place, name in enumerate(names)) + "}"
        path.write_text((f'{{"o": {line}}}' if nested else line) + "\n")
    elif path.suffix == ".csv":
        path.write_text(",".join(names) + "\n" + ("" if empty else "1,2\n"))
    else:
        columns = [pa.array([] if empty else [place], pa.int64()) for place in range(2)]
        rows = pa.Table.from_arrays(columns, names=names)
        if nested:
            rows = pa.table({"o": pa.StructArray.from_arrays(columns, names=names)})
        pq.write_table(rows, path)
    return path


FILES_WITH_A_NAME_TWICE = [
    *(("csv", "columns", rows) for rows in ("rows", "no rows")),
    ("jsonl", "columns", "rows"),
    ("jsonl", "fields", "rows"),
    *(("parquet", where, rows) for where in ("columns", "fields") for rows in ("rows", "no rows")),
]


@pytest.mark.parametrize("names", [["a", "a"], ["amount", "amount"], ["a", "A"]], ids=lambda names: names[1])
@pytest.mark.parametrize(("kind", "where", "rows"), FILES_WITH_A_NAME_TWICE)
def test_a_name_that_stands_twice_is_refused_by_every_door_and_none_of_its_values_is_dropped(
    command, tmp_path, kind, where, rows, names
):
    file = twice_in(tmp_path / f"twice.{kind}", names, nested=where == "fields", empty=rows == "no rows")
    there = indextables.create(
        str(tmp_path / "there"),
        pa.schema([("o", pa.struct([(names[0], pa.int64())])) if where == "fields" else (names[0], pa.int64())]),
    )
    for arguments in (
        ["ingest", tmp_path / "there", file],
        ["ingest", tmp_path / "new", file],
        ["create", tmp_path / "new", "--like", file],
    ):
        ran = command(*arguments)
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert f"{file}: " in ran.err
        # Of an object that a table is to take, a field in another case is one that it does not have.
        assert f"{names[1]}'" in ran.err or "a field that the table" in ran.err
    assert not (tmp_path / "new").exists()
    assert there.refresh().version == 0


@pytest.mark.parametrize("names", [["a", "a"], ["a", "A"]], ids=lambda names: names[1])
def test_a_name_that_stands_twice_in_standard_input_is_one_line(tmp_path, names):
    run = [sys.executable, "-m", "indextables", "ingest", str(tmp_path / "new"), "-", "--format", "csv"]
    ran = subprocess.run(run, input=",".join(names) + "\n1,2\n", capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran.stderr
    assert repr(names[1]) in ran.stderr


STRUCT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
SMALLER = pa.struct([("x", pa.int64())])
AROUND = {
    "struct": (STRUCT, SMALLER, {"x": 1, "y": 2}),
    "list": (pa.list_(STRUCT), pa.list_(SMALLER), [{"x": 1, "y": 2}]),
    "large list": (pa.large_list(STRUCT), pa.list_(SMALLER), [{"x": 1, "y": 2}]),
    "fixed list": (pa.list_(STRUCT, 1), pa.list_(SMALLER), [{"x": 1, "y": 2}]),
    "map": (pa.map_(pa.string(), STRUCT), pa.map_(pa.string(), SMALLER), [("k", {"x": 1, "y": 2})]),
}


@pytest.mark.parametrize("around", AROUND)
def test_a_field_inside_of_a_column_that_the_table_does_not_have_is_refused(command, tmp_path, around):
    given, wanted, value = AROUND[around]
    pq.write_table(pa.table({"o": pa.array([value], given)}), tmp_path / "more.parquet")
    there = indextables.create(str(tmp_path / "there"), pa.schema([("o", wanted)]))
    ran = command("ingest", tmp_path / "there", tmp_path / "more.parquet")
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert "y" in ran.err.rpartition("the table has no column ")[2].partition(";")[0]
    assert there.refresh().version == 0


@pytest.mark.parametrize("around", AROUND)
def test_a_field_inside_of_a_column_that_the_file_does_not_have_is_null(command, tmp_path, around):
    wanted, given, value = AROUND[around]
    file = tmp_path / "less.parquet"
    pq.write_table(pa.table({"o": pa.array([value], wanted)}).cast(pa.schema([("o", given)])), file)
    there = indextables.create(str(tmp_path / "there"), pa.schema([("o", AROUND[around.split()[-1]][0])]))
    ran = command("ingest", tmp_path / "there", file)
    assert ran.code == 0, ran.err
    text = json.dumps(there.refresh().to_arrow().to_pylist())
    assert '"x": 1' in text
    assert '"y": null' in text
