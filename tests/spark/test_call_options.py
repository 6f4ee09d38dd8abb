"""Options of one load or save: each that is declared is read, once, into what was asked for."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.spark.session.settings import SESSION, ReadOptions, Settings, WriteOptions

EXAMPLES = {
    "readChangeFeed": ("true", "change_feed", True),
    "netChanges": ("true", "net", True),
    "skipUnchanged": ("true", "skip_unchanged", True),
    "endingVersion": ("5", "ending_version", 5),
    "endingTimestamp": ("2026-01-01", "ending_timestamp", "2026-01-01"),
    "where": ("id = 1", "where", "id = 1"),
    "search": ("error", "search", "error"),
    "columns": ("id, message", "columns", ["id", "message"]),
    "limit": ("7", "limit", 7),
    "versionAsOf": ("3", "version", 3),
    "timestampAsOf": ("2026-01-01", "timestamp", "2026-01-01"),
    "partitionBy": ('["a,b", "c"]', "partition_by", ["a,b", "c"]),
    "replaceWhere": ("day = 1", "replace_where", "day = 1"),
    "partitionOverwriteMode": ("Dynamic", "partitions", "dynamic"),
    "mergeSchema": (" TRUE ", "merge_schema", True),
    "overwriteSchema": ("true", "overwrite_schema", True),
    "userMetadata": ("why", "user_metadata", "why"),
    "txnAppId": ("app", "txn", ("app", 5)),
    "txnVersion": ("5", "txn", ("app", 5)),
    "saveMode": ("ignore", "save_mode", "ignore"),
}
BESIDE = {"txnAppId": {"txnVersion": "5"}, "txnVersion": {"txnAppId": "app"}}
KINDS = [(ReadOptions, option) for option in opt.LOADING] + [(WriteOptions, option) for option in opt.SAVING]


@pytest.mark.parametrize(("kind", "option"), KINDS, ids=lambda given: getattr(given, "key", ""))
@pytest.mark.parametrize(
    "spelled", [str, str.lower, lambda name: opt.PREFIX + name], ids=["as is", "lower", "prefixed"]
)
def test_every_declared_option_is_read_into_its_field(kind, option, spelled):
    text, field, value = EXAMPLES[option.key]
    asked = kind.of({spelled(option.key): text, **BESIDE.get(option.key, {}), "checkpoint.interval": "5"})
    assert getattr(asked, field) == value
    assert option.key in asked.names
    assert asked.table_options == {"checkpoint.interval": "5"}
    assert pickle.loads(pickle.dumps(asked)) == asked  # noqa: S301 - our own bytes
    untouched = msgspec.structs.asdict(kind.of({}))
    changed = {name for name, now in msgspec.structs.asdict(asked).items() if now != untouched[name]}
    assert changed == {field, "names", "table_options"}


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        (ReadOptions, {"limit": "-1"}, "limit = '-1' is not a whole number"),
        (ReadOptions, {"versionAsOf": "newest"}, "versionAsOf = 'newest' is not a version"),
        (ReadOptions, {"versionAsOf": "1", "timestampAsOf": "2026-01-01"}, "not both"),
        (ReadOptions, {"where": "Column<'(id = 1)'>"}, r"DataFrame\.where\(\)"),
        (ReadOptions, {"columns": '["id", 5]'}, "not a JSON array of names"),
        (WriteOptions, {"partitionBy": '["id"'}, "not a JSON array of names"),
        (WriteOptions, {"mergeSchema": "yes"}, "not true or false"),
        (WriteOptions, {"txnAppId": "app"}, "go together"),
        (WriteOptions, {"txnVersion": "5"}, "go together"),
        (WriteOptions, {"txnAppId": "", "txnVersion": "5"}, "go together"),
        (WriteOptions, {"saveMode": "Ignore"}, "neither error nor ignore"),
        (WriteOptions, {"partitionOverwriteMode": "some"}, "static or dynamic"),
        (WriteOptions, {"replaceWhere": "a", "spark.indextables.replaceWhere": "b"}, "given twice"),
        (WriteOptions, {"replaceWher": "a"}, "is replaceWhere meant"),
        (WriteOptions, {SESSION: "[]"}, "not a JSON object"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(kind, given, reason):
    with pytest.raises(InvalidArgument, match=reason):
        kind.of(given)


def test_what_is_not_given_is_not_false_for_an_option_that_spark_has_too():
    assert WriteOptions.of({}).partitions is None
    assert WriteOptions.of({"partitionOverwriteMode": ""}).partitions == "static"
    assert Settings({})[opt.MERGE_SCHEMA] is None
