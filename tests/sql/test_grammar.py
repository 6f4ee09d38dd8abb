"""Commands as text: every spelling, every fault at its place, and nothing taken that is not ours."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from indextables.errors import CommandSyntaxError, InvalidArgument, LimitExceeded
from indextables.query.parse import parse
from indextables.sql.command import statements as st
from indextables.sql.command.cursor import literal
from indextables.sql.command.grammar import MAX_COMMAND_CHARS, SYNTAX, parse_command
from indextables.sql.command.lexer import tokens, unquoted
from indextables.table.requests import (
    ClearSkips,
    DropPartitions,
    MergeSplits,
    Prewarm,
    Purge,
    Reindex,
    Restore,
    TruncateTimeTravel,
    Verify,
)

PATH = st.TableName("s3://bucket/path", is_path=True)
NAME = st.TableName("logs", is_path=False)


def plain(command):
    """The command without positions, which the spelling changes."""
    found = parse_command(command) if isinstance(command, str) else command
    if isinstance(found, st.OnlyIfOurs):
        assert found.fault is None, found.fault
        found = found.command
    assert found is not None, command
    replaced = {
        name: _unplaced(getattr(found, name))
        for name in found.__struct_fields__
        if isinstance(getattr(found, name), st.TableName)
    }
    return type(found)(**{**{n: getattr(found, n) for n in found.__struct_fields__}, **replaced})


def _unplaced(target):
    return st.TableName(target.text, is_path=target.is_path)


SPELLINGS = [
    (
        """CONVERT TO INDEXTABLES DELTA 's3://lake/t' VERSION AS OF 3 INDEXING (m text) PARTITIONED BY (d) COMMENT 'c'
        TBLPROPERTIES ('a' = '1') AT LOCATION 's3://bucket/path';""",
        st.ConvertTable(
            source=st.TableName("s3://lake/t", is_path=True),
            target=PATH,
            system="DELTA",
            version=3,
            partition_by=("d",),
            comment="c",
            properties={"a": "1"},
            indexing={"m": "text"},
        ),
    ),
    (
        "convert to indextable '/x' at location 's3://bucket/path'",
        st.ConvertTable(source=st.TableName("/x", is_path=True), target=PATH),
    ),
    # Those of the documents that the format comes from, as they stand there.
    ("CHECKPOINT INDEXTABLES 's3://bucket/path';", st.Checkpoint(target=PATH)),
    ("COMPACT INDEXTABLES 's3://bucket/path';", st.Checkpoint(target=PATH, compact=True)),
    ("DESCRIBE INDEXTABLES STATE 's3://bucket/path';", st.DescribeState(target=PATH)),
    ("TRUNCATE INDEXTABLES TIME TRAVEL 's3://bucket/path'", st.Ask(target=PATH, request=TruncateTimeTravel())),
    (
        "TRUNCATE INDEXTABLES TIME TRAVEL 's3://bucket/path' DRY RUN",
        st.Ask(target=PATH, request=TruncateTimeTravel(dry_run=True)),
    ),
    ("PURGE INDEXTABLE 's3://bucket/path' OLDER THAN 7 DAYS", st.Ask(target=PATH, request=Purge(older_than_hours=168))),
    ("REPAIR INDEXFILES TRANSACTION LOG 's3://bucket/path'", st.Repair(target=PATH)),
    ("INVALIDATE TRANSACTION LOG CACHE FOR TABLE 's3://bucket/path'", st.InvalidateCache(target=PATH)),
    ("MERGE SPLITS 's3://bucket/path'", st.Ask(target=PATH, request=MergeSplits())),
    ("OPTIMIZE logs", st.Ask(target=NAME, request=MergeSplits())),
    ("VACUUM logs", st.Ask(target=NAME, request=Purge())),
    # Those of IndexTables4Spark.
    (
        "REPAIR INDEXFILES TRANSACTION LOG 's3://bucket/path' AT LOCATION '/new'",
        st.Repair(target=PATH, at=st.TableName("/new", is_path=True)),
    ),
    ("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE", st.InvalidateCache()),
    ("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR 's3://bucket/path'", st.InvalidateCache(target=PATH)),
    ("FLUSH INDEXTABLES SEARCHER CACHE", st.FlushCache()),
    ("FLUSH INDEXTABLES DISK CACHE", st.FlushCache()),
    (
        "DESCRIBE INDEXTABLES TRANSACTION LOG 's3://bucket/path' INCLUDE ALL",
        st.DescribeLog(target=PATH, include_all=True),
    ),
    (
        "DROP INDEXTABLES PARTITIONS FROM 's3://bucket/path' WHERE year = '2023' AND month < 4",
        st.Ask(target=PATH, request=DropPartitions(where="year = '2023' AND month < 4")),
    ),
    (
        "MERGE SPLITS logs WHERE d = '2024' TARGET SIZE 100M MAX DEST SPLITS 5 MAX SOURCE SPLITS PER MERGE 9",
        st.Ask(
            target=NAME,
            request=MergeSplits(
                where="d = '2024'", target_size=100 << 20, max_dest_splits=5, max_source_splits_per_merge=9
            ),
        ),
    ),
    (
        "PURGE INDEXTABLE logs OLDER THAN 14 DAYS TRANSACTION LOG RETENTION 30 DAYS DRY RUN",
        st.Ask(target=NAME, request=Purge(older_than_hours=336, tx_log_retention_hours=720, dry_run=True)),
    ),
    (
        "PREWARM INDEXTABLES CACHE 's3://bucket/path' ON FIELDS (a, `b c`) WHERE d >= '2024'",
        st.Ask(target=PATH, request=Prewarm(columns=("a", "b c"), where="d >= '2024'")),
    ),
    # Delta's.
    (
        "OPTIMIZE logs WHERE d = 1 ZORDER BY (a, b)",
        st.Ask(target=NAME, request=MergeSplits(where="d = 1", cluster_by=("a", "b"))),
    ),
    ("VACUUM logs RETAIN 168 HOURS DRY RUN", st.Ask(target=NAME, request=Purge(older_than_hours=168, dry_run=True))),
    ("RESTORE TABLE logs TO VERSION AS OF 3", st.Ask(target=NAME, request=Restore(version=3))),
    ("RESTORE logs TO TIMESTAMP AS OF '2026-01-01'", st.Ask(target=NAME, request=Restore(timestamp="2026-01-01"))),
    ("DESCRIBE HISTORY logs LIMIT 5", st.DescribeHistory(target=NAME, limit=5)),
    ("DESCRIBE DETAIL 's3://bucket/path'", st.DescribeDetail(target=PATH)),
    # Our own.
    (
        "merge splits logs cluster by (a) using hilbert",
        st.Ask(target=NAME, request=MergeSplits(cluster_by=("a",), curve="hilbert")),
    ),
    (
        "MERGE SPLITS logs DRY RUN TARGET SIZE '1 GiB'",
        st.Ask(target=NAME, request=MergeSplits(target_size=1 << 30, dry_run=True)),
    ),
    (
        "PURGE INDEXTABLES logs OLDER THAN 36 HOURS FORCE",
        st.Ask(target=NAME, request=Purge(older_than_hours=36, force=True)),
    ),
    (
        "DROP INDEXTABLE PARTITIONS FROM logs WHERE d = 1 DRY RUN",
        st.Ask(target=NAME, request=DropPartitions(where="d = 1", dry_run=True)),
    ),
    ("DESC INDEXTABLES DETAIL logs", st.DescribeDetail(target=NAME)),
    ("DESCRIBE INDEXTABLES HISTORY logs", st.DescribeHistory(target=NAME)),
    ("DESCRIBE INDEXTABLES HEALTH logs", st.DescribeHealth(target=NAME)),
    ("DESCRIBE INDEXTABLES SKIPS logs", st.DescribeSkips(target=NAME)),
    ("CLEAR INDEXTABLES SKIPS FROM logs", st.Ask(target=NAME, request=ClearSkips())),
    (
        "CLEAR INDEXTABLES SKIPS FROM logs PATHS ('a.split', 'b')",
        st.Ask(target=NAME, request=ClearSkips(paths=("a.split", "b"))),
    ),
    ("VERIFY INDEXTABLES logs", st.Ask(target=NAME, request=Verify())),
    ("VERIFY INDEXTABLES logs LOG ONLY", st.Ask(target=NAME, request=Verify(data_files=False))),
    ("VERIFY INDEXTABLES logs WITH RULES", st.Ask(target=NAME, request=Verify(rules=True))),
    ("FLUSH INDEXTABLES CACHE FOR TABLE logs", st.FlushCache(target=NAME)),
    (
        "RESTORE INDEXTABLE logs TO TIMESTAMP AS OF 1700000000000",
        st.Ask(target=NAME, request=Restore(timestamp=1700000000000)),
    ),
    ("REINDEX INDEXTABLE logs WHERE d = 1 FORCE", st.Ask(target=NAME, request=Reindex(where="d = 1", force=True))),
    ("REINDEX logs", st.Ask(target=NAME, request=Reindex())),
    (
        """CREATE INDEXTABLE IF NOT EXISTS logs (d date, m map<string, array<int>>, t string NOT NULL) LOCATION '/x'
        INDEXING (t text) PARTITIONED BY (d) COMMENT 'all' TBLPROPERTIES ('a.b' = 'c', x.y = 5)""",
        st.CreateTable(
            target=NAME,
            columns="d date, m map<string, array<int>>, t string NOT NULL",
            if_not_exists=True,
            partition_by=("d",),
            location="/x",
            comment="all",
            properties={"a.b": "c", "x.y": "5"},
            indexing={"t": "text"},
        ),
    ),
    ("CREATE INDEXTABLE 's3://bucket/path' (id bigint)", st.CreateTable(target=PATH, columns="id bigint")),
]


@pytest.mark.parametrize(("text", "command"), SPELLINGS, ids=[text[:60] for text, _ in SPELLINGS])
def test_every_spelling_is_understood(text, command):
    assert plain(text) == command


@pytest.mark.parametrize(("text", "command"), SPELLINGS, ids=[text[:60] for text, _ in SPELLINGS])
def test_case_comments_lines_and_semicolons_do_not_matter(text, command):
    pieces = [token.text for token in tokens(text)]
    words = [piece.swapcase() if piece.isalpha() and piece.isupper() else piece for piece in pieces if piece != ";"]
    spread = "/* MERGE */ -- DROP 'x\n" + text.rstrip(";") + " -- 'never closed\n ;; /* the end */"
    assert plain(spread) == command
    asked = getattr(command, "request", command)
    if not any(getattr(asked, name, None) for name in ("where", "columns")):
        assert plain("\n".join(words).replace("\n.\n", ".")) == command


@pytest.mark.parametrize("keyword", ["INDEXTABLE", "indextables", "IndexFiles"])
@pytest.mark.parametrize("text", [text for text, _ in SPELLINGS if " INDEXTABLES " in text])
def test_the_three_keywords_stand_for_each_other(text, keyword):
    assert plain(text.replace("INDEXTABLES", keyword, 1)) == plain(text)


@pytest.mark.parametrize(
    ("spelled", "target"),
    [
        ("'/a b/c'", st.TableName("/a b/c", is_path=True)),
        ('"/a/c"', st.TableName("/a/c", is_path=True)),
        ("'it''s'", st.TableName("it's", is_path=True)),
        (r"'it\'s \\ here'", st.TableName("it's \\ here", is_path=True)),
        ("indextables.`/a/c`", st.TableName("/a/c", is_path=True)),
        ("IndexTables . `/a/c`".replace(" ", ""), st.TableName("/a/c", is_path=True)),
        ("`a b`", st.TableName("a b", is_path=False)),
        ("`a``b`.c", st.TableName("a`b.c", is_path=False)),
        ("spark_catalog.default.logs", st.TableName("spark_catalog.default.logs", is_path=False)),
        ("splits", st.TableName("splits", is_path=False)),
    ],
)
def test_a_table_is_named_by_path_or_name(spelled, target):
    for text in (f"MERGE SPLITS {spelled}", f"CHECKPOINT INDEXTABLES {spelled};", f"OPTIMIZE {spelled}"):
        assert plain(text).target == target


@pytest.mark.parametrize(
    ("size", "expected"),
    [("1", 1), ("104857600", 104857600), ("100M", 100 << 20), ("1.5 GB", 3 << 29), ("'2 TiB'", 2 << 40), ("7kb", 7168)],
)
def test_sizes(size, expected):
    assert plain(f"MERGE SPLITS t TARGET SIZE {size}").request.target_size == expected


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("MERGE SPLITS", "", "a path in quotes or the name"),
        ("MERGE SPLITS WHERE a = 1", "WHERE", "a path in quotes or the name"),
        ("MERGE SPLITS s3://bucket/path", "://", "written in quotes"),
        ("MERGE SPLITS /bucket/path", "/bucket", "a path in quotes or the name"),
        ("MERGE SPLITS t WHERE", "", "a predicate"),
        ("MERGE SPLITS t TARGET SIZE big", "big", "such as 100M"),
        ("MERGE SPLITS t TARGET SIZE 0", "0", "at least 1 byte"),
        ("MERGE SPLITS t MAX DEST SPLITS 0", "0", "at least 1"),
        ("MERGE SPLITS t MAX DEST SPLITS 1 MAX DEST SPLITS 2", "", "once"),
        ("MERGE SPLITS t CLUSTER BY (a) USING HILBRT", "HILBRT", "ZORDER"),
        ("PURGE INDEXTABLE t OLDER THAN 7 WEEKS", "WEEKS", "DAYS or HOURS"),
        ("PURGE INDEXTABLE t OLDER THAN -1 DAYS", "-", "number of days or hours"),
        ("PURGE INDEXTABLE t OLDER THEN 1 DAYS", "OLDER", "OLDER THAN"),
        ("PURGE INDEXTABLE 'never closed", "'never", "not closed"),
        ("DROP INDEXTABLES PARTITIONS FROM t", "", "WHERE"),
        ("DROP INDEXTABLES t", "t", "PARTITIONS"),
        ("TRUNCATE INDEXTABLES TIME t", "t", "TRAVEL"),
        ("CHECKPOINT INDEXTABLES t extra", "extra", "the end"),
        ("CHECKPOINT INDEXTABLES t; SELECT 1", "SELECT", "the end"),
        ("DESCRIBE INDEXTABLES TRANSACTION LOG", "", "a path in quotes or the name"),
        ("REPAIR INDEXFILES TRANSACTION LOG t AT '/x'", "'/x'", "LOCATION"),
        ("RESTORE INDEXTABLE t TO VERSION 3", "3", "AS"),
        ("RESTORE INDEXTABLE t TO VERSION AS OF 1.5", "1.5", "a version"),
        ("RESTORE INDEXTABLE t TO SNAPSHOT 3", "SNAPSHOT", "VERSION AS OF or TIMESTAMP AS OF"),
        ("CREATE INDEXTABLE t (id int)", "", "LOCATION"),
        ("CREATE INDEXTABLE '/x' ()", ")", "columns"),
        ("CREATE INDEXTABLE '/x' (id int", "", "closed by ')'"),
        ("CREATE INDEXTABLE '/x' (id int) SORTED", "SORTED", "PARTITIONED BY"),
        ("INVALIDATE INDEXTABLES CACHE", "CACHE", "TRANSACTION"),
        ("FLUSH INDEXTABLES", "", "CACHE"),
        ("PREWARM INDEXTABLES t ON (a)", "(", "FIELDS"),
        ("MERGE SPLITS :where", ":where", "no value is bound"),
        ("MERGE SPLITS ?", "?", "no value is bound"),
    ],
)
def test_a_fault_points_at_the_place_and_shows_the_grammar(text, found, expected):
    text = "-- a comment\n" + text
    with pytest.raises(CommandSyntaxError, match=r"(?s).*") as caught:
        parse_command(text)
    error = caught.value
    assert expected in str(error)
    assert error.command == text
    rest = text[error.position :]
    assert rest.startswith(found) if found else not rest.strip()
    assert "line 2, column" in str(error)
    assert error.syntax in SYNTAX.values()
    assert str(error).endswith(f"syntax: {error.syntax}")
    shown = str(error).splitlines()
    pointer = next(number for number, line in enumerate(shown) if line.strip() == "^")
    assert shown[pointer - 1][2:] == text.splitlines()[1]
    assert shown[pointer].index("^") - 2 == error.position - len("-- a comment\n")


FOREIGN = [
    "",
    ";",
    "SELECT 1",
    "SELECT 'MERGE SPLITS t'",
    "-- MERGE SPLITS t\nSELECT 1",
    "MERGE t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "DELETE t WHERE a = 1",
    "EXPLAIN SELECT 1",
    "DESCRIBE indextables",
    "DESCRIBE TABLE EXTENDED indextables",
    "DESCRIBE indextables state",
    "DESCRIBE indextables.t",
    "DESC HISTORY",
    "DROP TABLE indextables",
    "DROP INDEX i ON TABLE t",
    "TRUNCATE TABLE indextables",
    "CREATE TABLE indextable (id int)",
    "CREATE VIEW v AS SELECT 1",
    "REPAIR TABLE t",
    "MSCK REPAIR TABLE t",
    "REFRESH TABLE t",
    "CACHE TABLE t",
    "OPTIMIZE",
    "VACUUM 3",
    "RESTORE 'never closed",
    "ANALYZE TABLE t COMPUTE STATISTICS",
    "INSERT INTO t VALUES (1)",
    "SET spark.indextables.x = 1",
    "'MERGE' SPLITS t",
    "`MERGE` SPLITS t",
    "EXPLAIN SELECT 1",
    "DESCRIBE INDEXTABLES",
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE t ADD PARTITION (d = 1)",
    "ALTER VIEW v SET TBLPROPERTIES ('a' = 'b')",
]


@pytest.mark.parametrize("text", FOREIGN)
def test_what_is_not_ours_is_left_alone(text):
    assert parse_command(text) is None


@pytest.mark.parametrize(
    "text",
    ["OPTIMIZE delta.`/x` WHERE", "VACUUM t LITE", "RESTORE t TO YESTERDAY", "DESCRIBE HISTORY t 5", "REINDEX t now"],
)
def test_faults_of_statements_that_delta_knows_wait_until_the_table_is_known_to_be_ours(text):
    found = parse_command(text)
    assert isinstance(found, st.OnlyIfOurs)
    assert found.command is None
    assert isinstance(found.fault, CommandSyntaxError)


def test_values_are_bound_by_name_and_by_place():
    text = "RESTORE INDEXTABLE :path TO TIMESTAMP AS OF :at"
    when = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    assert parse_command(text, {"path": "/t';--", "at": when}) == st.Ask(
        target=st.TableName("/t';--", is_path=True, position=19), request=Restore(timestamp=when)
    )
    found = parse_command("MERGE SPLITS ? WHERE d = ? AND e IN (?, ?) TARGET SIZE ?", ["/t", "x'y", 2, None, 1 << 20])
    assert isinstance(found, st.Ask)
    assert found.target.text == "/t"
    assert found.request == MergeSplits(where=r"d = 'x\'y' AND e IN ((2), NULL)", target_size=1 << 20)


@pytest.mark.parametrize(
    "args",
    [{"p": 5}, {"p": None}, {"p": b"x"}, ["/t"], {}, {"P": "/t"}],
    ids=["int", "none", "bytes", "list", "no", "case"],
)
def test_a_path_is_bound_to_text_only(args):
    with pytest.raises(CommandSyntaxError):
        parse_command("MERGE SPLITS :p", args)


def test_a_value_without_a_literal_is_refused_at_its_place():
    with pytest.raises(CommandSyntaxError, match="no literal") as caught:
        parse_command("MERGE SPLITS t WHERE d = :d", {"d": object()})
    assert caught.value.position == 25


SCHEMA = pa.schema([("s", pa.string()), ("n", pa.int64())])


def test_a_value_that_no_verb_takes_is_told_only_where_the_table_is_ours():
    with pytest.raises(InvalidArgument, match="older_than_hours is a number of hours"):
        parse_command("PURGE INDEXTABLE logs OLDER THAN 99999999 DAYS")
    found = parse_command("VACUUM logs RETAIN 99999999 HOURS")
    assert (found.target.text, found.command) == ("logs", None)
    assert "older_than_hours" in str(found.fault)


@given(some.text())
@example("'; DROP TABLE t; --")
@example("\\")
@example("\\' OR 1=1 --")
@settings(deadline=None)
def test_a_bound_text_is_that_text_in_the_predicate(value):
    if any(0xD800 <= ord(char) < 0xE000 for char in value):
        return
    command = parse_command("DROP INDEXTABLES PARTITIONS FROM '/t' WHERE s = :v", {"v": value})
    assert isinstance(command.request, DropPartitions)
    bound = parse(command.request.where, SCHEMA)
    assert value in _literals(bound)


def _literals(node):
    found = []
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, str | int):
            found.append(part)
        elif isinstance(part, tuple | list):
            stack.extend(part)
        elif hasattr(part, "__struct_fields__"):
            stack.extend(getattr(part, name) for name in part.__struct_fields__)
        elif isinstance(part, pa.Scalar):
            found.append(part.as_py())
    return found


@given(
    some.one_of(
        some.none(),
        some.booleans(),
        some.integers(-(2**63), 2**63 - 1),
        some.floats(allow_nan=False, allow_infinity=False),
        some.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3),
        some.dates(),
        some.datetimes(min_value=dt.datetime(1, 1, 2)),  # noqa: DTZ001 - naive on purpose
        some.text(),
    )
)
def test_a_literal_is_one_token_or_one_in_parentheses(value):
    found = [token for token in tokens(literal(value)) if token.text not in ("(", ")", "-", ".")]
    assert len(found) <= (2 if isinstance(value, dt.date) else 4 if isinstance(value, float | decimal.Decimal) else 1)
    assert all(token.kind in ("text", "number", "word") or token.text in "+-" for token in found)


WORDS = sorted({word for syntax in SYNTAX.values() for word in syntax.replace("[", " ").replace("]", " ").split()})
PIECES = some.one_of(
    some.sampled_from(WORDS),
    some.sampled_from([text for text, _ in SPELLINGS]),
    some.sampled_from(
        ["'", '"', "`", "--", "/*", "*/", "\n", ";", "(", ")", ",", "=", ".", ":x", "?", "\\", "7", "1e9"]
    ),
    some.text(max_size=8),
)


@given(some.lists(PIECES, max_size=14).map(" ".join), some.sampled_from([None, {"x": 1}, ["a", 2]]))
def test_any_text_is_a_command_a_typed_fault_or_left_alone(text, args):
    found = outcome(text, args)
    if isinstance(found, CommandSyntaxError):
        assert 0 <= found.position <= len(text)
        assert "syntax: " in str(found)
    else:
        assert found is None or type(found).__module__ == st.__name__


@given(some.sampled_from([text for text, _ in SPELLINGS]), some.integers(0, 120), some.text(max_size=4))
def test_a_damaged_command_is_understood_refused_or_left_alone(text, at, piece):
    damaged = text[: min(at, len(text))] + piece + text[min(at + len(piece), len(text)) :]
    found = outcome(damaged, None)
    assert found is None or type(found).__module__ == st.__name__ or "syntax: " in str(found)


def outcome(text, args):
    """The command, or the one kind of fault that is allowed."""
    try:
        return parse_command(text, args)
    except CommandSyntaxError as error:
        return error


@given(some.text())
def test_tokens_cover_the_text_in_order(text):
    end = 0
    for token in tokens(text):
        assert token.start >= end
        assert text[token.start : token.end] == token.text
        assert isinstance(unquoted(token), str)
        end = token.end


@pytest.mark.slow
def test_a_command_that_is_too_long_is_refused_and_a_foreign_text_of_any_length_is_not_read():
    with pytest.raises(LimitExceeded):
        parse_command("MERGE SPLITS '" + "x" * MAX_COMMAND_CHARS + "'")
    assert parse_command("SELECT '" + "x" * MAX_COMMAND_CHARS * 3) is None
    assert parse_command("OPTIMIZE '" + "x" * MAX_COMMAND_CHARS) is None


ROWS = {
    "DELETE FROM db.logs": st.DeleteRows(target=st.TableName("db.logs", is_path=False, position=12), alias="logs"),
    "DELETE FROM 'a/b' WHERE x = CASE WHEN y THEN 'WHERE' END;": st.DeleteRows(
        target=st.TableName("a/b", is_path=True, position=12), alias="t", where="x = CASE WHEN y THEN 'WHERE' END"
    ),
    "UPDATE logs AS l SET l.a = CASE WHEN b THEN 1 END, `b c` = concat(a, ',') WHERE d": st.UpdateRows(
        target=st.TableName("logs", is_path=False, position=7),
        alias="l",
        set={"a": "CASE WHEN b THEN 1 END", "b c": "concat(a, ',')"},
        where="d",
    ),
}


@pytest.mark.parametrize("text", ROWS)
def test_statements_that_change_rows_are_values(text):
    found = parse_command(text)
    assert isinstance(found, st.OnlyIfOurs)
    assert (found.command, found.changes_rows) == (ROWS[text], True)
    explained = parse_command(f"EXPLAIN {text}")
    assert isinstance(explained.command, st.Explain)
    assert explained.command.statement.alias == ROWS[text].alias


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("u", ("SELECT * FROM u", "u", "u")),
        ("db.u AS x", ("SELECT * FROM db.u", "x", "db.u")),
        ("'a/b'", ("SELECT * FROM indextables.`a/b`", "s", "a/b")),
        ("'a/b' VERSION AS OF 3 x", ("SELECT * FROM indextables.`a/b` VERSION AS OF 3", "x", None)),
        ("u@v3", ("SELECT * FROM u@v3", "u", None)),
        ("(SELECT (1) AS a WHERE ')' <> $v)", ("SELECT * FROM (SELECT (1) AS a WHERE ')' <> $v)", "s", None)),
        ("(VALUES (1, 2)) x (a, b)", ("SELECT * FROM (VALUES (1, 2)) AS s(a, b)", "x", None)),
    ],
)
def test_the_source_of_a_merge_is_a_query(source, expected):
    found = parse_command(f"MERGE INTO t USING {source} ON a = b WHEN MATCHED THEN DELETE", {"v": 1, "w": 2}).command
    table = found.source.table
    assert (found.source.query, found.source.alias, table and table.text) == expected
    assert found.source.args in ({"v": 1}, {})
    assert ("$v" in source) == bool(found.source.args)


def test_clauses_of_a_merge_keep_their_order():
    found = parse_command(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING u ON t.a = u.a "
        "WHEN NOT MATCHED BY SOURCE AND t.a > :least THEN DELETE "
        "WHEN MATCHED AND CASE WHEN t.a THEN u.b END THEN UPDATE SET a = u.a, t.b = CASE WHEN u.c THEN 1 END "
        "WHEN NOT MATCHED BY TARGET THEN INSERT (a, b) VALUES (u.a, f(u.b, 1)) "
        "WHEN MATCHED THEN UPDATE SET * EXCEPT (c)",
        {"least": "it's"},
    ).command
    assert found.merge_schema
    told = [(clause.when, clause.action, clause.condition, clause.values, clause.but) for clause in found.clauses]
    assert told == [
        ("not matched by source", "delete", "t.a > 'it\\'s'", None, ()),
        ("matched", "update", "CASE WHEN t.a THEN u.b END", {"a": "u.a", "b": "CASE WHEN u.c THEN 1 END"}, ()),
        ("not matched", "insert", None, {"a": "u.a", "b": "f(u.b, 1)"}, ()),
        ("matched", "update", None, None, ("c",)),
    ]
