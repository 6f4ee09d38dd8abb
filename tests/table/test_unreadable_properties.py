"""A property that this version cannot read stops no reader and no append; what could do harm by its default refuses."""

from __future__ import annotations

import json
import logging
import shutil

import pyarrow as pa
import pytest
from tests.world.commits import change_metadata

import indextables as it
from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.log.care.opening import open_log
from indextables.sql.local.session import LocalSession
from indextables.table.environment import open_env

UNREADABLE = "no such value"
SCHEMA = pa.schema([("day", pa.string()), ("x", pa.int64()), ("message", pa.string())])

DECLARED = [option for option in opt.known_options() if option.kind != "text"]
FAMILIES = [
    family + "message"
    for family in (
        opt.INDEXING_TYPEMAP,
        opt.INDEXING_TOKENIZER,
        opt.INDEXING_RECORD_OPTION,
        opt.INDEXING_TOKEN_LENGTH,
    )
]
KEYS = [option.key for option in DECLARED] + FAMILIES
NEEDED = [(option, verb) for option in DECLARED for verb in option.needed_by]

VERBS = {
    "cleanup of the log": lambda table: table.clean_up(),
    "purge": lambda table: table.purge(),
    "truncate": lambda table: table.truncate_time_travel(),
    "overwrite": lambda table: table.overwrite(rows(9)),
    "drop partitions": lambda table: table.drop_partitions("day = 'd0'"),
}


def rows(*xs):
    return pa.table(
        {"day": [f"d{x}" for x in xs], "x": pa.array(xs, pa.int64()), "message": [f"row {x}" for x in xs]},
        schema=SCHEMA,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("unreadable") / "made"
    table = it.create(path, SCHEMA, partition_by=["day"], indexing={"message": "text"})
    table.append(rows(0))
    table.append(rows(1))
    return path


@pytest.fixture
def planted(made, tmp_path):
    """Copies of one table whose newest version says something in its configuration, whoever wrote it."""

    def plant(properties, name="t"):
        path = tmp_path / name
        shutil.copytree(made, path)
        log = path / "_transaction_log"
        newest = max(int(file.stem) for file in log.glob("0*.json"))
        raw = next(r["value"] for r in it.open(path).log(0).to_pylist() if r["action"] == "metaData")
        metadata = json.loads(raw)
        metadata = metadata.get("metaData", metadata)
        metadata["configuration"] = {**metadata["configuration"], **properties}
        (log / f"{newest + 1:020d}.json").write_text(json.dumps({"metaData": metadata}) + "\n")
        it.invalidate_caches()
        return path

    return plant


def files_of(path):
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def test_every_option_but_texts_has_values_that_cannot_be_read():
    assert [option.key for option in DECLARED if option.can_be(UNREADABLE)] == []


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_reads_appends_and_checkpoints_go_on_and_a_warning_names_the_property(key, planted, caplog):
    path = planted({key: UNREADABLE})
    with caplog.at_level(logging.WARNING, "indextables"):
        table = it.open(path)
        assert table.count(where="x = 1") == 1
        assert table.to_arrow(where="day = 'd0'").num_rows == 1
        assert table.search("row").num_rows == 2
        assert table.append(rows(2)) == 4
        table.checkpoint()
    told = [record.getMessage() for record in caplog.records if key.lower() in record.getMessage().lower()]
    assert any("cannot be read" in text and UNREADABLE in text for text in told)
    # Once for each handle and value, not with each commit.
    assert len([text for text in told if "counts as not given" in text]) == 1
    it.invalidate_caches()
    assert it.open(path).count() == 3


@pytest.mark.parametrize(("option", "verb"), NEEDED, ids=lambda v: v.key if isinstance(v, opt.Option) else v)
def test_a_verb_that_would_have_to_go_by_the_default_refuses_and_names_the_property(option, verb, planted, caplog):
    if verb == "purge on write":
        asks = {"purgeOnWrite.enabled": "true", "purgeOnWrite.async.enabled": "false"}
        often = {"mergeOnWrite.enabled": "true", "mergeOnWrite.async.enabled": "false", "mergeOnWrite.minSplits": "2"}
        every = "1000" if option is opt.PURGE_ON_WRITE_AFTER_MERGE else "1"
        path = planted({**asks, **often, opt.PURGE_ON_WRITE_AFTER_WRITES.key: every, option.key: UNREADABLE})
        with caplog.at_level(logging.WARNING, "indextables"):
            assert it.open(path).append(rows(0)) == 4
        assert any("was not purged after a write" in record.getMessage() for record in caplog.records)
        assert option.key in caplog.text
        return
    path = planted({option.key: UNREADABLE})
    before = files_of(path)
    with pytest.raises(InvalidArgument, match=option.key) as caught:
        VERBS[verb](it.open(path))
    assert caught.value.option == option.key
    assert UNREADABLE in str(caught.value)
    assert before <= files_of(path)
    assert not [name for name in files_of(path) - before if name.endswith(".parquet") or "/0000" in name]
    # Who gives a value is served.
    VERBS[verb](it.open(path, options={option.key: str(option.default)}))


def test_a_property_in_two_spellings_that_differ_counts_as_unreadable(planted):
    spelled = {"purge.minRetentionHours": "48", "spark.indextables.purge.minRetentionHours": "72"}
    path = planted({**spelled, "checkpoint.interval": "3", "Checkpoint.Interval": "4"})
    table = it.open(path)
    table.append(rows(2))
    assert table.health().advice
    with pytest.raises(InvalidArgument, match=r"purge\.minRetentionHours"):
        table.purge()


def test_health_names_what_cannot_be_read(planted):
    unreadable = {option.key: UNREADABLE for option in DECLARED}
    advice = it.open(planted(unreadable)).health().advice
    assert {option.key for option in DECLARED if any(option.key in a.problem for a in advice)} == set(unreadable)


GOES_ON = {
    "health": lambda table: table.health(),
    "health by SQL": lambda table: LocalSession({"t": table.url}).run("DESCRIBE INDEXTABLES HEALTH t"),
    "verify": lambda table: table.verify(),
    "state": lambda table: table.state(),
    "detail": lambda table: table.detail(),
    "sizes": lambda table: table.sizes(),
    "skips": lambda table: table.skips(),
    "history": lambda table: table.history(),
    "sql": lambda table: table.sql("SELECT count(*) FROM t"),
    "aggregate": lambda table: table.aggregate(None, {"n": {"stats": {"field": "x"}}}),
    "at": lambda table: table.at(1).to_arrow(),
    "scan": lambda table: list(table.scan()),
    "prewarm": lambda table: table.prewarm(),
    "protect": lambda table: table.protect(1.0).release(),
    "compact": lambda table: table.compact(),
    "reindex": lambda table: table.reindex(),
    "merge splits": lambda table: table.merge_splits(),
    "a batch": lambda table: table.append(rows(3), txn=("stream", 1)),
    "restore": lambda table: table.restore(version=1),
}


@pytest.mark.slow
def test_all_that_needs_no_such_property_goes_on_where_none_can_be_read(planted):
    path = planted({option.key: UNREADABLE for option in DECLARED})
    for verb, run in GOES_ON.items():
        table = it.open(path)
        assert table.metadata.configuration["commit.maxClockSkewMs"] == UNREADABLE, verb
        run(table)
    assert it.open(path).count() == 1


@pytest.mark.parametrize("option", [o for o, verb in NEEDED if verb == "purge"], ids=lambda option: option.key)
def test_a_dry_purge_goes_by_no_default_either(option, planted):
    with pytest.raises(InvalidArgument, match=option.key):
        it.open(planted({option.key: UNREADABLE})).purge(dry_run=True)


def test_the_schema_of_a_table_with_an_unreadable_property_can_still_evolve(planted):
    path = planted({"checkpoint.interval": UNREADABLE})
    more = rows(2).append_column("extra", pa.array([1], pa.int64()))
    it.open(path).append(more, merge_schema=True)
    table = it.open(path)
    assert "extra" in table.schema.names
    assert table.metadata.configuration["checkpoint.interval"] == UNREADABLE


@pytest.mark.parametrize("key", KEYS)
def test_nobody_can_set_such_a_value(key, made, tmp_path, monkeypatch):
    place = tmp_path / "new"
    with pytest.raises(InvalidArgument):
        it.create(place, SCHEMA, properties={key: UNREADABLE})
    with pytest.raises(InvalidArgument):
        it.create(place, SCHEMA, options={key: UNREADABLE})
    with pytest.raises(InvalidArgument):
        LocalSession({}).run(
            f"CREATE INDEXTABLE t (day string, x bigint, message string) LOCATION '{place}' "
            f"TBLPROPERTIES ('{key}' = '{UNREADABLE}')"
        )
    assert not place.exists()
    if key in FAMILIES:
        with pytest.raises(InvalidArgument):
            it.open(made, options={key: UNREADABLE}).append(rows(2))
        return
    log = open_log(open_env(made))
    metadata = log.snapshot().metadata
    changed = {**metadata.configuration, key: UNREADABLE}
    with pytest.raises(InvalidArgument, match=key):
        change_metadata(log, type(metadata)(**{**_fields(metadata), "configuration": changed}))
    with pytest.raises(InvalidArgument, match=key):
        it.open(made, options={key: UNREADABLE})
    with pytest.raises(InvalidArgument, match=key):
        opt.Options(session={opt.PREFIX + key: UNREADABLE}, environ={})
    monkeypatch.setenv("INDEXTABLES_" + key.replace(".", "_").upper(), UNREADABLE)
    with pytest.raises(InvalidArgument, match=key):
        it.open(made)
    assert log.latest_version() == 2


def _fields(metadata):
    return {name: getattr(metadata, name) for name in type(metadata).__struct_fields__}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state.compressionLevel", "100"),
        ("state.compressionLevel", "0"),
        ("checkpoint.maxFileSize", "10 apples"),
        ("timeZone", "Europe/Atlantis"),
        ("purgeOnWrite.splitRetentionHours", "23"),
        ("purgeOnWrite.txLogRetentionHours", "1"),
    ],
)
def test_a_value_out_of_range_is_refused_when_it_is_set(key, value, tmp_path):
    with pytest.raises(InvalidArgument, match=key):
        it.create(tmp_path / "t", SCHEMA, properties={key: value})
    with pytest.raises(InvalidArgument, match=key):
        it.create(tmp_path / "t", SCHEMA, options={key: value})
    assert not (tmp_path / "t").exists()


def test_a_retention_of_purge_on_write_may_be_as_low_as_the_table_allows(tmp_path):
    low = {"purgeOnWrite.splitRetentionHours": "2"}
    it.create(tmp_path / "a", SCHEMA, properties={**low, "purge.minRetentionHours": "2"})
    it.create(tmp_path / "b", SCHEMA, properties={**low, "purge.retentionCheckEnabled": "false"})
    with pytest.raises(InvalidArgument, match=r"purgeOnWrite\.splitRetentionHours"):
        it.create(tmp_path / "c", SCHEMA, properties=low)
    raised = {"purgeOnWrite.splitRetentionHours": "48", "purge.minRetentionHours": "72"}
    with pytest.raises(InvalidArgument, match=r"purgeOnWrite\.splitRetentionHours"):
        it.create(tmp_path / "c", SCHEMA, properties=raised)


def test_the_size_of_a_checkpoint_takes_units(tmp_path):
    table = it.create(tmp_path / "t", SCHEMA, properties={"checkpoint.maxFileSize": "1k", "state.format": "json"})
    for x in range(12):
        table.append(rows(x))
    table.checkpoint()
    parts = [f.name for f in (tmp_path / "t" / "_transaction_log").iterdir() if f.name.count(".") > 2]
    assert len(parts) > 1
    it.invalidate_caches()
    assert it.open(tmp_path / "t").count() == 12


@pytest.mark.parametrize("name", [option.key for option in (*opt.LOADING, *opt.SAVING)])
@pytest.mark.parametrize(
    "spelled", [str, str.lower, lambda name: opt.PREFIX + name], ids=["as is", "lower", "prefixed"]
)
def test_options_of_one_load_or_save_are_refused_by_doors_that_do_not_heed_them(name, spelled, made, tmp_path):
    options = {spelled(name): "0"}
    doors = [
        lambda: it.open(made, options=options),
        lambda: it.create(tmp_path / "new", SCHEMA, options=options),
        lambda: it.verify(made, options=options),
        lambda: LocalSession({"t": str(made)}, options).run("SELECT count(*) FROM t"),
    ]
    for door in doors:
        with pytest.raises(InvalidArgument, match=name) as caught:
            door()
        assert caught.value.option == name
    assert not (tmp_path / "new").exists()
