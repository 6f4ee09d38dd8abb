"""What a CSV file says is what the table holds: no text means null, none becomes another value, none is lost."""

import csv
import io
import math

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import indextables
from indextables.cli.input.infer import infer_schema
from indextables.cli.input.inputs import open_input
from indextables.errors import InvalidArgument

LOOKS_LIKE_NULL = ["NA", "N/A", "NULL", "null", "Null", "nan", "NaN", "-nan", "#N/A", "n/a", "None", "-", "NaT", "<NA>"]
FIELDS = st.one_of(
    st.sampled_from([*LOOKS_LIKE_NULL, "", " ", '"', '""', ",", "\n", "\r\n", "a\nb", 'a"b', "0x10", "007", "1e400"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
)


def put(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(file, schema):
    return pa.Table.from_batches(list(open_input(str(file), "csv", schema).batches()), schema).to_pylist()


@pytest.mark.slow
@given(rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=5), every=st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_texts_are_those_that_plain_python_reads(tmp_path, rows, every):
    written = io.StringIO(newline="")
    writer = csv.writer(written, quoting=csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL)
    writer.writerows([("id", "a", "b"), *((n, *row) for n, row in enumerate(rows))])
    file = put(tmp_path / "a.csv", written.getvalue())
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    empty = "" if every else None
    assert rows_of(file, schema) == [{"id": n, "a": a or empty, "b": b or empty} for n, (a, b) in enumerate(rows)]


@pytest.mark.slow
@given(
    texts=st.lists(
        st.one_of(
            st.integers(-(10**20), 10**20).map(str),
            st.floats(allow_nan=False).map(repr),
            st.sampled_from(["007", "0x10", "+1", "1e5", "nan", "true", "NA", "x", ".5", "5.", "1_000", "0.10"]),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_guessed_column_holds_the_same_values_or_the_file_is_refused(tmp_path, texts):
    file = put(tmp_path / "a.csv", "id,v\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    try:
        schema = infer_schema(str(file), "csv")
        held = [row["v"] for row in rows_of(file, schema)]
    except InvalidArgument:
        return
    for text, value in zip(texts, held, strict=True):
        if isinstance(value, str):
            assert value == text
        elif isinstance(value, bool):
            assert text == str(value).lower()
        elif isinstance(value, float):
            assert float(text) == value or (math.isnan(value) and text == "nan")
            assert math.isfinite(value) or not any(digit in text for digit in "0123456789")
        else:
            assert int(text) == value
            assert str(int(text)) == text or text == "-0"


@pytest.mark.slow
@pytest.mark.parametrize("text", LOOKS_LIKE_NULL)
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_text_that_others_take_for_null_is_a_text(command, tmp_path, text, quote):
    file = put(tmp_path / "a.csv", f"id,a\n1,{quote}{text}{quote}\n2,\n")
    assert command("ingest", tmp_path / "guessed", file).code == 0
    command("create", tmp_path / "said", "--schema", "id bigint, a string")
    assert command("ingest", tmp_path / "said", file).code == 0
    for name in ("guessed", "said"):
        assert indextables.open(tmp_path / name).to_arrow()["a"].to_pylist() == [text, None]


@pytest.mark.slow
def test_a_text_in_a_column_of_numbers_makes_it_text_and_is_refused_where_the_table_says_number(command, tmp_path):
    file = put(tmp_path / "a.csv", "id,n\n1,5\n2,NA\n3,\n")
    assert command("ingest", tmp_path / "guessed", file).code == 0
    assert indextables.open(tmp_path / "guessed").to_arrow()["n"].to_pylist() == ["5", "NA", None]
    for kind in ("bigint", "int", "double", "decimal(9,2)", "boolean", "date", "timestamp", "timestamp_ntz"):
        schema = f"id bigint, n {kind}"
        command("create", tmp_path / kind, "--schema", schema)
        cell = {"boolean": "true", "date": "2024-01-01"}.get(kind, "2024-01-01T00:00:00" if "time" in kind else "5")
        file = put(tmp_path / "b.csv", f"id,n\n1,{cell}\n2,NA\n3,\n")
        ran = command("ingest", tmp_path / kind, file)
        assert ran.code == 2
        assert "b.csv: row 2: column n" in ran.err
        assert "'NA'" in ran.err
        assert command("ingest", tmp_path / kind, put(tmp_path / "c.csv", f'id,n\n1,{cell}\n2,\n3,""\n')).code == 0
        assert indextables.open(tmp_path / kind).to_arrow()["n"].null_count == 2


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("double", "1e400"),
        ("float", "1e39"),
        ("double", "0x10"),
        ("bigint", "0x10"),
        ("int", "99999999999"),
        ("bigint", "1.5"),
        ("decimal(5,2)", "1.255"),
        ("boolean", "yes"),
        ("array<int>", "[1]"),
    ],
)
def test_a_cell_that_its_column_cannot_hold_is_refused_with_file_row_and_column(command, tmp_path, kind, cell):
    command("create", tmp_path / "t", "--schema", f"id bigint, v {kind}")
    ran = command("ingest", tmp_path / "t", put(tmp_path / "a.csv", f"id,v\n1,\n2,{cell}\n"))
    assert ran.code == 2
    assert "a.csv: row 2: column v is" in ran.err
    assert repr(cell) in ran.err
    assert command("count", tmp_path / "t").out == "0\n"


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("zone", ["Z", "+05:00", "-0330", "+05"])
def test_a_time_with_a_zone_is_refused_where_the_column_keeps_none(command, tmp_path, kind, zone):
    command("create", tmp_path / "t", "--schema", "id bigint, n timestamp_ntz")
    text = f"2024-01-01T10:00:00{zone}"
    said = {"csv": f"id,n\n1,2024-01-01T10:00:00\n2,{text}\n", "jsonl": f'{{"id":1}}\n{{"id":2,"n":"{text}"}}\n'}[kind]
    ran = command("ingest", tmp_path / "t", put(tmp_path / f"a.{kind}", said))
    assert ran.code == 2
    assert f"a.{kind}: row 2: column n" in ran.err
    assert "zone" in ran.err
    assert command("count", tmp_path / "t").out == "0\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a,b\n1,"open\n2,x\n3,y\n', "row 1: a quote is opened"),
        ('a,b\n1,"x\n\n,y"\n\n2,"open ""more""\n3,y\n', "row 2: a quote is opened"),
        ('a,b\n1,x\n2,"', "row 2: a quote is opened"),
        ('a,"b\n1,x\n', "the header: a quote is opened"),
        ('a,b\n"1\n' + "2,x\n" * 3_000_000, "row 1: a quote is opened"),
    ],
    ids=["middle", "after others", "end", "header", "large"],
)
def test_a_quote_that_is_never_closed_is_refused_with_the_row_that_opens_it(command, tmp_path, text, words):
    ran = command("ingest", tmp_path / "t", put(tmp_path / "a.csv", text))
    assert ran.code == 2
    assert f"a.csv: {words}" in ran.err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b\n1,2\n3\n", "row 2 has 1 columns"), (b"a\nok\ncaf\xe9\n", "row 2: column a")],
)
def test_a_row_that_cannot_be_read_is_named(command, tmp_path, text, words):
    assert f"a.csv: {words}" in command("ingest", tmp_path / "t", put(tmp_path / "a.csv", text)).err


def test_quotes_inside_of_a_field_and_values_over_many_lines_are_kept(command, tmp_path):
    file = put(tmp_path / "a.csv", 'id,t\r\n1,5" disk\r\n2,"a\r\nb ""c"""\r\n3,x"y"z')
    assert command("ingest", tmp_path / "t", file).code == 0
    assert indextables.open(tmp_path / "t").to_arrow()["t"].to_pylist() == ['5" disk', 'a\r\nb "c"', 'x"y"z']


def test_json_lines_without_a_map_are_taken_by_a_table_that_has_one(command, tmp_path):
    command("create", tmp_path / "t", "--schema", "id bigint, m map<string,int>")
    assert command("ingest", tmp_path / "t", put(tmp_path / "a.jsonl", '{"id":1}\n{"id":2,"m":null}\n')).code == 0
    assert indextables.open(tmp_path / "t").to_arrow()["m"].to_pylist() == [None, None]
