"""Commands against real tables, in one process: what each does, and that its columns never change."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import (
    CommandSyntaxError,
    InvalidArgument,
    NotSupported,
    QueryInvalid,
    SchemaInvalid,
    SchemaMismatch,
    TableNotFound,
    VersionNotFound,
)
from indextables.sql.command.context import LocalContext
from indextables.sql.command.run import run_command

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("message", pa.string())])

COLUMNS = {
    "MERGE SPLITS logs DRY RUN": "group path size numRecords",
    "OPTIMIZE logs": (
        "path versions groups merged_groups given_up failed source_splits new_splits source_bytes new_bytes rows "
        "deleted_rows carried_vectors skipped cooling memory_bytes"
    ),
    "PURGE INDEXTABLE logs DRY RUN": "path kind size modified",
    "VACUUM logs": "path version deleted bytes kept failed foreign cut reason",
    "DROP INDEXTABLES PARTITIONS FROM logs WHERE day = 'x' DRY RUN": "path partitionValues size numRecords",
    "DROP INDEXTABLES PARTITIONS FROM logs WHERE day = 'x'": "path version files bytes rows",
    "TRUNCATE INDEXTABLES TIME TRAVEL logs DRY RUN": "path kind",
    "TRUNCATE INDEXTABLES TIME TRAVEL logs": "path version oldest states versions manifests failed reason",
    "CHECKPOINT INDEXTABLES logs": "path version format size_bytes",
    "COMPACT INDEXTABLES logs": "path version format size_bytes",
    "DROP INDEXTABLE IF EXISTS 'nothing'": "path deleted",
    "DESCRIBE INDEXTABLES STATE logs": (
        "path format version num_files total_bytes num_manifests num_entries num_tombstones tombstone_ratio "
        "needs_compaction skips created_ms size_bytes protocol_version tokens_from pointer_version checkpoints unusable"
    ),
    "DESCRIBE INDEXTABLES TRANSACTION LOG logs": "version line action value",
    "DESCRIBE INDEXTABLES HISTORY logs": (
        "version timestamp operation operationParameters operationMetrics readVersion isolationLevel isBlindAppend "
        "engineInfo userMetadata user token"
    ),
    "DESCRIBE DETAIL logs": (
        "id name description url version createdAt partitionColumns numFiles sizeInBytes numRows properties "
        "minReaderVersion minWriterVersion features"
    ),
    "DESCRIBE INDEXTABLES SKIPS logs": (
        "path reason operation skipCount skippedAt retryAfter inCooldown size partitionValues"
    ),
    "CLEAR INDEXTABLES SKIPS FROM logs": "path cleared",
    "VERIFY INDEXTABLES logs": "path kind severity message version key",
    "INVALIDATE TRANSACTION LOG CACHE FOR TABLE logs": "path processes bytes",
    "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE": "path processes bytes",
    "FLUSH INDEXTABLES CACHE FOR logs": "path processes bytes",
    "FLUSH INDEXTABLES SEARCHER CACHE": "path processes bytes",
    "PREWARM INDEXTABLES CACHE logs": "path version splits bytes components failed",
    "RESTORE INDEXTABLE logs TO VERSION AS OF 1": (
        "path version restored added_files removed_files added_bytes removed_bytes changed_metadata"
    ),
    "REINDEX INDEXTABLE logs": "path versions splits fresh reindexed given_up rows bytes reasons failed",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Four appends over two days."""
    path = tmp_path_factory.mktemp("template") / "t"
    table = indextables.create(path, SCHEMA, partition_by=["day"], indexing={"message": "text"})
    for number in range(4):
        table.append([{"id": number, "day": f"d{number % 2}", "message": f"row {number}"}])
    return path


@pytest.fixture
def place(template, tmp_path):
    return Path(shutil.copytree(template, tmp_path / "t"))


@pytest.fixture
def context(place, tmp_path):
    return LocalContext({"logs": str(place)}, options={"cache.directory": str(tmp_path / "cache")})


def run(context, text, args=None):
    answer = run_command(text, context, args)
    assert answer is not None, text
    return answer


def only_row(context, text, args=None):
    (row,) = run(context, text, args).to_pylist()
    return row


@pytest.mark.parametrize("text", COLUMNS)
def test_the_columns_of_an_answer_are_those_of_the_documentation(context, text):
    assert run(context, text).column_names == COLUMNS[text].split()


def test_verify_of_the_log_alone_looks_at_no_data_file(context, place):
    next(place.rglob("*.split")).unlink()
    assert run(context, "VERIFY INDEXTABLES logs")["kind"].to_pylist() == ["data-file-missing"]
    assert run(context, "VERIFY INDEXTABLES logs LOG ONLY").num_rows == 0


def test_the_columns_of_an_answer_do_not_depend_on_what_it_holds(context, place, tmp_path):
    indextables.create(tmp_path / "empty", SCHEMA, partition_by=["day"])
    empty = LocalContext({"logs": str(tmp_path / "empty")}, options={"cache.directory": str(tmp_path / "cache")})
    for text in COLUMNS:
        if not text.startswith("RESTORE"):
            assert run(context, text).schema == run(empty, text).schema, text


def test_merge_splits(context, place):
    plan = run(context, "MERGE SPLITS logs DRY RUN")
    assert plan.num_rows == 4
    row = only_row(context, "MERGE SPLITS logs WHERE day = :day TARGET SIZE 1G", {"day": "d0"})
    assert (row["source_splits"], row["new_splits"], row["rows"]) == (2, 1, 2)
    table = indextables.open(place)
    assert table.files().num_rows == 3
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


def test_optimize_and_vacuum_are_aliases(context, place):
    assert only_row(context, "OPTIMIZE logs ZORDER BY (id)")["merged_groups"] == 2
    assert run(context, f"VACUUM '{place}' DRY RUN").num_rows == 0


def test_purge_lists_what_would_go_and_then_deletes_it(context, place):
    run(context, "MERGE SPLITS logs")
    run(context, "TRUNCATE INDEXTABLES TIME TRAVEL logs")
    text = "PURGE INDEXTABLE logs OLDER THAN 0 HOURS TRANSACTION LOG RETENTION 0 HOURS FORCE"
    listed = run(context, f"{text} DRY RUN")
    splits = [row["path"] for row in listed.to_pylist() if row["kind"] == "split"]
    assert len(splits) == 4
    assert all((place / path).exists() for path in splits)
    row = only_row(context, text)
    assert row["deleted"] >= 4
    assert not any((place / path).exists() for path in splits)
    with pytest.raises(InvalidArgument, match="force"):
        run(context, "PURGE INDEXTABLE logs OLDER THAN 0 HOURS")


def test_drop_partitions(context, place):
    text = "DROP INDEXTABLES PARTITIONS FROM logs WHERE day = 'd1'"
    assert run(context, f"{text} DRY RUN")["numRecords"].to_pylist() == [1, 1]
    assert only_row(context, text)["rows"] == 2
    assert indextables.open(place).to_arrow()["id"].to_pylist() == [0, 2]
    with pytest.raises(NotSupported, match="partition"):
        run(context, "DROP INDEXTABLES PARTITIONS FROM logs WHERE id = 1")
    with pytest.raises(QueryInvalid):
        run(context, "DROP INDEXTABLES PARTITIONS FROM logs WHERE nope = 1")


def test_truncate_leaves_one_version(context, place):
    assert run(context, "TRUNCATE INDEXTABLES TIME TRAVEL logs DRY RUN").num_rows > 0
    row = only_row(context, "TRUNCATE INDEXTABLES TIME TRAVEL logs")
    assert row["oldest"] == row["version"]
    with pytest.raises(indextables.errors.VersionExpired):
        indextables.open(place).at(version=1)


def test_restore_to_a_version_and_to_a_time(context, place):
    history = run(context, "DESCRIBE INDEXTABLES HISTORY logs LIMIT 4")
    times = dict(zip(history["version"].to_pylist(), history["timestamp"].to_pylist(), strict=True))
    row = only_row(context, "RESTORE TABLE logs TO VERSION AS OF ?", [2])
    assert (row["restored"], row["removed_files"]) == (2, 2)
    assert indextables.open(place).count() == 2
    stamp = times[3].astimezone(dt.UTC).isoformat()
    assert only_row(context, f"RESTORE INDEXTABLE logs TO TIMESTAMP AS OF '{stamp}'")["restored"] == 3
    with pytest.raises(VersionNotFound):
        run(context, "RESTORE INDEXTABLE logs TO VERSION AS OF 99")
    with pytest.raises(InvalidArgument, match="not a time"):
        run(context, "RESTORE INDEXTABLE logs TO TIMESTAMP AS OF 'yesterday'")


def test_times_without_a_zone_are_those_of_the_session(place):
    vienna = LocalContext({"logs": str(place)}, options={"timeZone": "Europe/Vienna"})
    now = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)
    shifted = now.astimezone(dt.timezone(dt.timedelta(hours=2))).replace(tzinfo=None).isoformat()
    assert only_row(vienna, f"RESTORE INDEXTABLE logs TO TIMESTAMP AS OF '{shifted}'")["restored"] == 4


def test_reindex_prewarm_and_caches(context):
    assert only_row(context, "REINDEX logs")["fresh"] == 4
    assert only_row(context, "REINDEX INDEXTABLE logs WHERE day = 'd0' FORCE")["reindexed"] == 2
    assert only_row(context, "PREWARM INDEXTABLES CACHE logs ON FIELDS (message) WHERE day = 'd0'")["splits"] == 2
    assert len(only_row(context, "FLUSH INDEXTABLES CACHE FOR TABLE logs")["processes"]) == 1
    with pytest.raises(InvalidArgument, match="nope"):
        run(context, "PREWARM INDEXTABLES logs ON FIELDS (nope)")


def test_checkpoint_and_state(context):
    assert only_row(context, "DESCRIBE INDEXTABLES STATE logs")["format"] == "none"
    row = only_row(context, "CHECKPOINT INDEXTABLES logs")
    assert (row["version"], row["format"]) == (4, "avro-state")
    state = only_row(context, "DESCRIBE INDEXTABLES STATE logs")
    assert (state["version"], state["num_files"], state["needs_compaction"]) == (4, 4, False)
    assert only_row(context, "COMPACT INDEXTABLES logs")["version"] == 4


def test_the_transaction_log_begins_at_the_newest_checkpoint_unless_all_is_asked_for(context, place):
    every = run(context, "DESCRIBE INDEXTABLES TRANSACTION LOG logs INCLUDE ALL")
    assert sorted(set(every["version"].to_pylist())) == [0, 1, 2, 3, 4]
    assert "metaData" in every["action"].to_pylist()
    run(context, "CHECKPOINT INDEXTABLES logs")
    indextables.open(place).append([{"id": 9, "day": "d0", "message": "new"}])
    assert sorted(set(run(context, "DESCRIBE INDEXTABLES TRANSACTION LOG logs")["version"].to_pylist())) == [4, 5]


def test_health_has_advice_with_commands(context):
    row = only_row(context, "DESCRIBE INDEXTABLES HEALTH logs")
    assert (row["files"], row["rows"]) == (4, 4)
    assert all(set(line) == {"code", "problem", "command"} for line in row["advice"])


def test_repair_writes_a_log_elsewhere_or_anew_where_none_is_left(context, place, tmp_path):
    row = only_row(context, "REPAIR INDEXFILES TRANSACTION LOG logs AT LOCATION :at", {"at": str(tmp_path / "new")})
    assert row["num_files"] == 4
    assert indextables.open(tmp_path / "new").files().num_rows == 4
    for file in sorted((place / "_transaction_log").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    assert only_row(context, f"REPAIR INDEXFILES TRANSACTION LOG '{place}'")["num_files"] == 4
    assert sorted(indextables.open(place).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    with pytest.raises(InvalidArgument):
        run(context, f"REPAIR INDEXFILES TRANSACTION LOG '{place}'")


def test_create_makes_a_table_and_its_name(tmp_path):
    context = LocalContext()
    text = (
        "CREATE INDEXTABLE events (id bigint NOT NULL, day date, note string, tags array<string>) "
        f"LOCATION '{tmp_path / 'e'}' INDEXING (note text) PARTITIONED BY (day) COMMENT 'what happened' "
        "TBLPROPERTIES ('checkpoint.interval' = '5')"
    )
    row = only_row(context, text)
    assert (row["name"], row["version"], row["created"]) == ("events", 0, True)
    table = indextables.open(tmp_path / "e")
    assert table.partition_columns == ["day"]
    assert table.schema.field("tags").type == pa.list_(pa.string())
    assert not table.schema.field("id").nullable
    assert table.metadata.configuration["checkpoint.interval"] == "5"
    assert only_row(context, "DESCRIBE INDEXTABLES DETAIL events")["description"] == "what happened"
    with pytest.raises(InvalidArgument, match="IF NOT EXISTS"):
        run(context, text)
    assert only_row(context, text.replace("INDEXTABLE ", "INDEXTABLE IF NOT EXISTS "))["created"] is False
    other = (
        text.replace("INDEXTABLE ", "INDEXTABLE IF NOT EXISTS ")
        .replace("note string", "note int")
        .replace("INDEXING (note text)", "")
    )
    assert only_row(context, other)["created"] is False
    with pytest.raises((SchemaMismatch, InvalidArgument)):
        run(context, other.replace("IF NOT EXISTS ", ""))
    with pytest.raises(SchemaInvalid):
        run(context, f"CREATE INDEXTABLE '{tmp_path / 'f'}' (id nonsense)")
    assert not (tmp_path / "f").exists()


def test_statements_that_delta_knows_are_ours_only_for_our_tables(context, place, tmp_path):
    for target in ("other", f"'{tmp_path}'", "delta.`/x`", f"delta.`{place}`"):
        for text in (
            "OPTIMIZE {}",
            "VACUUM {}",
            "RESTORE {} TO VERSION AS OF 0",
            "DESCRIBE HISTORY {}",
            "VACUUM {} LITE",
        ):
            assert run_command(text.format(target), context) is None
    for target in ("logs", "LOGS", f"'{place}'", f"indextables.`{place}`"):
        assert run_command(f"DESCRIBE HISTORY {target}", context) is not None
        with pytest.raises(CommandSyntaxError):
            run_command(f"VACUUM {target} LITE", context)


def test_a_name_that_means_nothing_and_a_place_without_a_table(context, tmp_path):
    with pytest.raises(TableNotFound, match="the names are logs"):
        run(context, "CHECKPOINT INDEXTABLES other")
    for text in COLUMNS:
        if "logs" in text and not text.startswith(("OPTIMIZE", "VACUUM", "DESCRIBE DETAIL", "INVALIDATE", "FLUSH")):
            with pytest.raises(TableNotFound):
                run(context, text.replace("logs", f"'{tmp_path / 'none'}'"))
    assert not (tmp_path / "none").exists()


def test_a_fault_is_told_before_anything_is_done(context, place):
    before = sorted(place.rglob("*"))
    for text in ("MERGE SPLITS logs NOW", "TRUNCATE INDEXTABLES TIME TRAVEL logs DRY", "PURGE INDEXTABLE logs OLDER"):
        with pytest.raises(CommandSyntaxError):
            run_command(text, context)
    assert sorted(place.rglob("*")) == before


def test_what_is_no_command_is_left_alone(context):
    for text in ("SELECT 1", "INSERT INTO logs VALUES (1)", ""):
        assert run_command(text, context) is None


def test_a_table_is_dropped_by_name_or_path_with_all_that_is_its_own(context, place):
    (place / "notes.txt").write_text("another's")
    with pytest.raises(CommandSyntaxError, match=r"syntax: DROP INDEXTABLE \[IF EXISTS\]"):
        run(context, "DROP INDEXTABLE logs NOW")
    assert indextables.open(place).count() == 4
    row = only_row(context, "DROP INDEXTABLE logs")
    assert (row["path"], row["deleted"] > 8) == (f"file://{place}", True)
    assert [file.name for file in place.rglob("*")] == ["notes.txt"]
    with pytest.raises(TableNotFound):
        run(context, f"DROP INDEXTABLE '{place}'")
    assert only_row(context, "DROP INDEXTABLE IF EXISTS logs")["deleted"] == 0
    with pytest.raises(TableNotFound, match="the names are logs"):
        run(context, "DROP INDEXTABLE other")
