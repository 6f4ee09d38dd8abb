"""`Table.sql` on real tables agrees with a look at every row."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import indextables
from indextables.errors import InvalidArgument, NotSupported, QueryInvalid

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("Day", pa.date32()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("note", pa.string()),
        ("x", pa.float64()),
    ]
)
WORDS = ["timeout", "disk", "login", "slow"]


def made_rows(count):
    rows = []
    for i in range(count):
        words = [word for place, word in enumerate(WORDS) if i % (place + 2) == 0]
        rows.append(
            {
                "id": i,
                "Day": pa.scalar(19_000 + i // 20, pa.date32()).as_py(),
                "level": ["INFO", "WARN", "ERROR", None][i % 4],
                "message": None if i % 11 == 0 else " ".join([*words, f"req{i}"]),
                "note": "timeout" if i % 13 == 0 else "fine",
                "x": None if i % 7 == 0 else i / 4,
            }
        )
    return rows


ROWS = made_rows(120)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    options = {"cache.directory": str(folder / "cache")}
    made = indextables.create(
        folder / "t",
        SCHEMA,
        partition_by=["Day"],
        indexing={"message": "text", "note": "text"},
        options=options,
    )
    for start in (0, 40, 80):
        made.append(pa.Table.from_pylist(ROWS[start : start + 40], schema=SCHEMA))
    return made


def has(row, word, *columns):
    return any(word in (row[column] or "").split() for column in columns)


def ids(table, text, **more):
    return table.sql(text, **more).column(0).to_pylist()


def test_a_search_is_exact_in_where_beside_other_conditions(table):
    found = ids(table, "SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout') AND level = 'INFO' ORDER BY id")
    assert found == [r["id"] for r in ROWS if has(r, "timeout", "message") and r["level"] == "INFO"]
    assert found


def test_a_search_is_exact_under_or_and_not(table):
    found = ids(table, "SELECT id FROM t WHERE NOT TEXTSEARCH(message, 'timeout') OR x > 20 ORDER BY id")
    assert found == [r["id"] for r in ROWS if not has(r, "timeout", "message") or (r["x"] or 0) > 20]


def test_a_star_searches_all_text_columns(table):
    found = ids(table, "SELECT id FROM t WHERE TEXTSEARCH(*, 'timeout') ORDER BY id")
    assert found == [r["id"] for r in ROWS if has(r, "timeout", "message", "note")]


def test_a_search_in_the_select_list_marks_rows(table):
    found = table.sql("SELECT id, TEXTSEARCH(note, 'timeout') FROM t ORDER BY id")
    assert found.column_names == ["id", "textsearch"]
    assert found.column(1).to_pylist() == [has(r, "timeout", "note") for r in ROWS]


def test_rows_are_grouped_by_a_search(table):
    hit = "TEXTSEARCH(message, 'timeout')"
    found = table.sql(f"SELECT {hit} AS hit, count(*) AS n FROM t GROUP BY {hit}")
    hits = sum(has(row, "timeout", "message") for row in ROWS)
    assert {row["hit"]: row["n"] for row in found.to_pylist()} == {True: hits, False: len(ROWS) - hits}


def test_the_query_language_works_inside(table):
    found = ids(table, "SELECT id FROM t WHERE TEXTSEARCH(message, 'timeout AND NOT disk level:INFO') ORDER BY id")
    by_hand = table.search("message:timeout AND NOT message:disk level:INFO", columns=["id"], limit=None)
    assert found == sorted(by_hand["id"].to_pylist())


def test_a_bare_count_opens_no_file(table, monkeypatch):
    monkeypatch.setattr(type(table._log.env.store), "get_range", None)
    monkeypatch.setattr(type(table._log.env.store), "get_ranges", None)
    assert ids(table, "SELECT count(*) FROM t") == [120]


def test_groups_and_joins_over_other_versions(table):
    older = table.at(version=1)
    text = (
        "SELECT t.level, count(*) AS n FROM t JOIN old USING (id) WHERE t.level IS NOT NULL GROUP BY t.level ORDER BY 1"
    )
    assert table.sql(text, tables={"OLD": older}).to_pylist() == [
        {"level": level, "n": sum(r["level"] == level for r in ROWS[:40])} for level in ("ERROR", "INFO", "WARN")
    ]


def test_time_travel_pins_what_is_seen(table):
    assert ids(table.at(version=2), "SELECT count(*) FROM t") == [80]


def test_many_threads_ask_one_table(table):
    def ask(number):
        text = "SELECT id FROM t WHERE TEXTSEARCH(message, $q) AND id % 2 = $r ORDER BY id"
        return ids(table, text, params={"q": WORDS[number % 4], "r": number % 2})

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(24)))
    for number, result in enumerate(found):
        word = WORDS[number % 4]
        assert result == [r["id"] for r in ROWS if has(r, word, "message") and r["id"] % 2 == number % 2]


def test_an_empty_table_answers(tmp_path):
    empty = indextables.create(tmp_path / "e", SCHEMA, indexing={"message": "text"})
    assert ids(empty, "SELECT count(*) FROM t") == [0]
    assert ids(empty, "SELECT id FROM t WHERE TEXTSEARCH(message, 'a') OR id = 1") == []
    assert ids(empty, "SELECT id FROM t WHERE TEXTSEARCH(message, 'a')") == []


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("SELECT id FROM t WHERE TEXTSEARCH(message, 'nope:x')", QueryInvalid, "nope"),
        ("SELECT id FROM t WHERE TEXTSEARCH(message, '\"open')", QueryInvalid, "quote"),
        ("SELECT id FROM t WHERE TEXTSEARCH(missing, 'x')", QueryInvalid, "missing"),
        ("DELETE FROM t", NotSupported, "SELECT"),
    ],
)
def test_a_wrong_statement_says_what_is_wrong(table, text, kind, words):
    with pytest.raises(kind, match=words):
        table.sql(text)


@pytest.mark.parametrize("text", ["MERGE SPLITS t", "REINDEX INDEXTABLE t FORCE", "PURGE INDEXTABLE t OLDER"])
def test_a_command_is_told_where_commands_are_run(table, text):
    with pytest.raises(NotSupported, match="LocalSession"):
        table.sql(text)


def test_two_tables_of_one_name_are_refused(table):
    with pytest.raises(InvalidArgument, match="two tables"):
        table.sql("SELECT 1", tables={"T": table})


def condition(draw):
    word = st.sampled_from(WORDS)
    kind = draw(st.integers(0, 4))
    if kind == 0:
        found = draw(word)
        return f"TEXTSEARCH(message, '{found}')", lambda r: has(r, found, "message")
    if kind == 1:
        found = draw(word)
        return f"TEXTSEARCH(*, '{found}')", lambda r: has(r, found, "message", "note")
    if kind == 2:
        day = draw(st.integers(18_999, 19_007))
        date = pa.scalar(day, pa.date32()).as_py()
        return f"Day <= DATE '{date}'", lambda r: r["Day"] <= date
    if kind == 3:
        level = draw(st.sampled_from(["INFO", "WARN"]))
        return f"level IN ('{level}', 'ERROR')", lambda r: r["level"] is not None and r["level"] in {level, "ERROR"}
    low = draw(st.integers(0, 30))
    return f"x >= {low}", lambda r: r["x"] is not None and r["x"] >= low


@st.composite
def conditions(draw):
    text, holds = condition(draw)
    for _ in range(draw(st.integers(0, 3))):
        other, also = condition(draw)
        joined = draw(st.sampled_from(["AND", "OR"]))
        text = f"({text} {joined} {other})"
        before = holds
        holds = (
            (lambda r, a=before, b=also: a(r) and b(r))
            if joined == "AND"
            else (lambda r, a=before, b=also: a(r) or b(r))
        )
    return text, holds


@pytest.mark.slow
@given(conditions())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_condition_gives_the_rows_it_holds_for(table, made):
    text, holds = made
    assert ids(table, f"SELECT id FROM t WHERE {text} ORDER BY id") == [r["id"] for r in ROWS if holds(r)]


def test_scores_are_those_of_a_search(table):
    best = table.search("message:disk", columns=["id"], where="level = 'INFO'", limit=5)
    text = (
        "SELECT id, _score FROM t WHERE TEXTSEARCH(message, 'disk') AND level = 'INFO' ORDER BY _score DESC, id LIMIT 5"
    )
    found = table.sql(text)
    assert found["_score"].to_pylist() == best["_score"].to_pylist()
    assert set(found["_score"].to_pylist()) - {0.0}
    every = table.sql("SELECT max(_score) AS most FROM t x WHERE TEXTSEARCH(x.message, 'disk OR slow')")
    assert every["most"].to_pylist() == table.search("message:(disk OR slow)", limit=1)["_score"].to_pylist()


def test_a_star_does_not_show_the_score(table):
    found = table.sql("SELECT * FROM t WHERE TEXTSEARCH(message, 'disk') AND _score > 0")
    assert found.column_names == SCHEMA.names
    assert found.num_rows == table.count("message:disk")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT _score FROM t WHERE TEXTSEARCH(message, 'disk') OR id = 1",
        "SELECT _score, TEXTSEARCH(message, 'disk') FROM t",
        "SELECT _score FROM t WHERE TEXTSEARCH(message, 'disk') AND TEXTSEARCH(note, 'fine')",
    ],
)
def test_a_score_that_no_row_has_is_refused(table, text):
    with pytest.raises(NotSupported, match="_score needs exactly one TEXTSEARCH"):
        table.sql(text)


@pytest.mark.parametrize("text", ["'_score'", "$$_score$$", "E'_score'"])
def test_a_text_that_reads_as_the_score_asks_for_none(tmp_path, text):
    schema = pa.schema([("id", pa.int64()), ("m", pa.string())])
    table = indextables.create(tmp_path / "scores", schema, indexing={"m": "text"})
    table.append([{"id": 1, "m": "no"}, {"id": 2, "m": "the score"}])
    found = table.sql(
        f"SELECT id, {text} AS what FROM t WHERE TEXTSEARCH(m, 'no') OR TEXTSEARCH(m, 'score') ORDER BY id"
    )
    assert found.to_pylist() == [{"id": 1, "what": "_score"}, {"id": 2, "what": "_score"}]


def test_a_column_of_that_name_is_itself(tmp_path):
    made = indextables.create(
        tmp_path / "t", pa.schema([("_score", pa.int64()), ("m", pa.string())]), indexing={"m": "text"}
    )
    made.append([{"_score": 7, "m": "a"}])
    assert ids(made, "SELECT _score FROM t WHERE TEXTSEARCH(m, 'a')") == [7]
