"""Every door to a verb takes what the verb takes: Python, Spark, SQL and the shell have its fields and its defaults."""

from __future__ import annotations

import inspect
import re
from typing import get_args

import msgspec
import pyarrow as pa
import pytest

import indextables
from indextables.cli.app import commands_named
from indextables.cli.declared import arguments_of, parameters_of
from indextables.embedded.merging import MergeBuilder
from indextables.embedded.table import Table
from indextables.errors import InvalidArgument
from indextables.spark.table.altering import Altering
from indextables.spark.table.changing import Changing
from indextables.spark.table.indextable import IndexTable
from indextables.spark.table.maintenance import Maintenance
from indextables.spark.table.merging import MergeBuilder as SparkMergeBuilder
from indextables.sql.command import statements as st
from indextables.sql.command.grammar import SYNTAX, parse_command
from indextables.table import alter
from indextables.table import requests as rq
from indextables.table.change import DeleteAsked, UpdateAsked, UpsertAsked
from indextables.table.convert import ConvertRequest
from indextables.table.running import Threads

NOT_ASKED = {"self", "progress"}
"""What a method takes that is no part of the request."""

METHODS = {rq.Restore: ("restoreToVersion", "restoreToTimestamp")}
"""Methods of `IndexTable` where a request has several; they need what they are named after."""

COMMANDS = {rq.TruncateTimeTravel: "truncate", rq.ClearSkips: "skips"}
"""Commands of the shell that are not named as the method is."""

FLAGS = {"paths": "path"}
"""Flags that are given once for each entry of a list."""

SHORT: dict[type[rq.Request], str] = {
    rq.MergeSplits: "MERGE SPLITS t",
    rq.Purge: "PURGE INDEXTABLE t",
    rq.DropPartitions: "DROP INDEXTABLES PARTITIONS FROM t WHERE d = 1",
    rq.TruncateTimeTravel: "TRUNCATE INDEXTABLES TIME TRAVEL t",
    rq.Reindex: "REINDEX INDEXTABLE t",
    rq.Prewarm: "PREWARM INDEXTABLES t",
    rq.ClearSkips: "CLEAR INDEXTABLES SKIPS FROM t",
    rq.Mirror: "MIRROR INDEXTABLES t",
    rq.Verify: "VERIFY INDEXTABLES t",
}
"""Statements with no clause that can be left out."""

LONG: dict[type[rq.Request], tuple[str, ...]] = {
    rq.MergeSplits: (
        "MERGE SPLITS t CLUSTER BY (a) USING HILBERT DRY RUN TARGET SIZE 1G",
        "MERGE SPLITS t WHERE d = 1 MAX DEST SPLITS 3 MAX SOURCE SPLITS PER MERGE 4",
    ),
    rq.Purge: ("PURGE INDEXTABLE t OLDER THAN 7 DAYS TRANSACTION LOG RETENTION 30 DAYS FORCE DRY RUN",),
    rq.DropPartitions: ("DROP INDEXTABLES PARTITIONS FROM t WHERE d = 1 DRY RUN",),
    rq.TruncateTimeTravel: ("TRUNCATE INDEXTABLES TIME TRAVEL t DRY RUN",),
    rq.Restore: ("RESTORE INDEXTABLE t TO VERSION AS OF 3", "RESTORE INDEXTABLE t TO TIMESTAMP AS OF '2026-01-01'"),
    rq.Reindex: ("REINDEX INDEXTABLE t WHERE d = 1 FORCE",),
    rq.Prewarm: ("PREWARM INDEXTABLES t ON FIELDS (a) WHERE d = 1",),
    rq.ClearSkips: ("CLEAR INDEXTABLES SKIPS FROM t PATHS ('a')",),
    rq.Mirror: ("MIRROR INDEXTABLES t STOP",),
    rq.Verify: ("VERIFY INDEXTABLES t LOG ONLY WITH RULES",),
}
"""Statements that have every clause among them."""

STATEMENTS = {
    st.DescribeState: Table.state,
    st.DescribeHistory: Table.history,
    st.DescribeDetail: Table.detail,
    st.DescribeHealth: Table.health,
    st.DescribeSkips: Table.skips,
    st.FlushCache: Table.flush_caches,
    st.InvalidateCache: Table.invalidate_cache,
    st.Repair: indextables.repair,
}
"""Statements that are no request, and what does the same in Python."""

ROWS = {st.DeleteRows, st.UpdateRows, st.MergeRows, st.Explain}
MADE_AND_GONE = {st.AlterTable, st.ConvertTable, st.CreateTable, st.DropTable}
OF_THEIR_OWN = {st.Ask, st.Checkpoint, st.DescribeLog, *MADE_AND_GONE, *ROWS}
"""Statements with clauses that Python says otherwise: by two methods, by a schema, by one version, by a builder."""

WHICH_TABLE = {"path", "options", "target"}
ONLY_PYTHON = {st.InvalidateCache: {"what"}}
"""Parameters that have no clause: SQL forgets all that is known of a table."""

NEEDED = inspect.Parameter.empty

requests = pytest.mark.parametrize("request_type", rq.REQUESTS, ids=lambda kind: kind.__name__)


def declared(request_type):
    """The defaults by name, as a signature tells them."""
    fields = rq.fields_of(request_type)
    return {f.name: NEEDED if f.default is msgspec.NODEFAULT else f.default for f in fields}


def snake(name):
    return re.sub("([A-Z])", lambda found: "_" + found[1].lower(), name).lstrip("_")


def camel(name):
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def taken(method):
    """The defaults of what a method takes, with the names of Python."""
    given = inspect.signature(method).parameters
    return {snake(name): given[name].default for name in given if name not in NOT_ASKED}


def verb(request_type):
    return snake(request_type.__name__)


def asked(text):
    found = parse_command(text)
    assert isinstance(found, st.Ask)
    return found.request


def test_every_request_is_compared():
    every = {kind for kind in vars(rq).values() if isinstance(kind, type) and issubclass(kind, rq.Request)}
    assert set(rq.REQUESTS) == every - {rq.Request}
    assert set(LONG) == set(rq.REQUESTS)


@requests
def test_the_methods_of_a_table_take_every_field(request_type):
    assert taken(getattr(Table, verb(request_type))) == declared(request_type)


@requests
def test_the_methods_of_spark_take_every_field(request_type):
    if request_type not in METHODS:
        assert taken(getattr(Maintenance, camel(verb(request_type)))) == declared(request_type)
        return
    found = {}
    for name in METHODS[request_type]:
        found |= taken(getattr(Maintenance, name))
    assert found == dict.fromkeys(declared(request_type), NEEDED)


def test_methods_of_one_name_take_the_same_in_spark_and_python():
    shared = {name for name in vars(Maintenance) if name[0] != "_" and callable(getattr(Table, snake(name), None))}
    assert {"verify", "health", "compact", "mergeSplits"} <= shared
    for name in shared:
        assert taken(getattr(Maintenance, name)) == taken(getattr(Table, snake(name))), name


def test_every_statement_is_a_request_or_takes_what_its_method_takes():
    assert set(get_args(st.Command)) == STATEMENTS.keys() | OF_THEIR_OWN
    for statement, method in STATEMENTS.items():
        fields = {field.name for field in msgspec.structs.fields(statement)}
        asked = taken(method).keys() - WHICH_TABLE - ONLY_PYTHON.get(statement, set())
        assert fields - WHICH_TABLE == asked, statement.__name__


@requests
def test_the_commands_of_the_shell_take_every_field(request_type):
    name = COMMANDS.get(request_type, verb(request_type).replace("_", "-"))
    (command,) = commands_named([name]).values()
    flags = {parameter.name: parameter for parameter in parameters_of(command)}
    for field in rq.fields_of(request_type):
        flag = flags[FLAGS.get(field.name, field.name)]
        default = NEEDED if field.default is msgspec.NODEFAULT else field.default
        assert flag.declared.help == field.field.help
        assert flag.default == (None if default == () else default)


@requests
def test_the_grammar_has_a_clause_for_every_field(request_type):
    made = [asked(text) for text in LONG[request_type]]
    assert {type(request) for request in made} == {request_type}
    for field in rq.fields_of(request_type):
        assert any(getattr(request, field.name) != field.default for request in made), f"no clause sets {field.name}"


@pytest.mark.parametrize("request_type", SHORT, ids=lambda kind: kind.__name__)
def test_what_a_statement_leaves_out_is_the_default(request_type):
    request = asked(SHORT[request_type])
    for name, default in declared(request_type).items():
        assert default in (NEEDED, getattr(request, name))


@requests
def test_every_clause_stands_in_the_syntax_that_errors_show(request_type):
    syntax = " ".join(SYNTAX.values())
    for text in LONG[request_type]:
        for word in re.findall(r"\b[A-Z]{2,}\b", text):
            assert word in syntax


CHANGES = {DeleteAsked: (Table.delete, {}), UpdateAsked: (Table.update, {"set"}), UpsertAsked: (Table.upsert, {"rows"})}
"""What changes rows, its method, and what that takes beside the declared fields: values, which the shell reads."""


@pytest.mark.parametrize("asked_type", CHANGES, ids=lambda kind: kind.__name__)
def test_changes_of_rows_take_the_same_in_python_and_in_the_shell(asked_type):
    method, beside = CHANGES[asked_type]
    fields = {**dict.fromkeys(beside, NEEDED), **declared(asked_type)}
    assert taken(method) == fields
    (command,) = commands_named([method.__name__]).values()
    flags = {parameter.name: parameter for parameter in parameters_of(command)}
    for field in rq.fields_of(asked_type):
        assert flags[field.name].declared.help == field.field.help
        assert flags[field.name].default == (NEEDED if field.default is msgspec.NODEFAULT else field.default)


def test_sessions_take_the_terms_of_every_change():
    terms = {name: default for name, default in taken(Table.delete).items() if name not in ("where", "search")}
    assert taken(indextables.LocalSession.run) == {"text": NEEDED, "params": None, **terms}
    assert taken(MergeBuilder.execute) == terms
    assert set(terms) < set(declared(UpsertAsked))


IN_SPARK = {"condition": "where", "source": "rows", "from_timestamp": "from_time", "to_timestamp": "to_time"}
"""Names that delta-spark has for what Python calls otherwise."""


def taken_in_spark(method):
    """As `taken`, with the names of Python; an application and its batch are two arguments in Spark."""
    found = {IN_SPARK.get(name, name): default for name, default in taken(method).items()}
    if "txn_app_id" in found:
        found |= {"txn": found.pop("txn_app_id")}
        assert found.pop("txn_version") is None
    return found


@pytest.mark.parametrize("name", ["delete", "update", "upsert"])
def test_changes_of_rows_take_the_same_in_spark_and_python(name):
    found = taken_in_spark(getattr(Changing, name))
    if name == "update":
        assert found.pop("set") is None  # It follows an optional condition, as in delta-spark.
        found["set"] = NEEDED
    assert found == taken(getattr(Table, name))


def test_merges_are_executed_on_the_same_terms_in_spark_and_python():
    assert taken_in_spark(SparkMergeBuilder.execute) == taken(MergeBuilder.execute)


def test_conversions_take_the_same_at_every_door():
    places = {"source", "target", "options", "source_options"}
    assert {f.name for f in msgspec.structs.fields(ConvertRequest)} == taken(indextables.convert).keys() - places
    # The session reaches the source as it reaches the target; name and description are the source's.
    spared = {"source_options", "name", "description"}
    assert taken(IndexTable.convert).keys() - {"spark"} == taken(indextables.convert).keys() - spared


def test_the_feed_is_asked_for_in_the_same_way_in_spark_and_python():
    found = {IN_SPARK.get(name, name): default for name, default in taken(IndexTable.changes).items()}
    assert found == taken(Table.changes)


@pytest.fixture
def table():
    schema = pa.schema([("id", pa.int64()), ("d", pa.string())])
    return indextables.create("memory://doors/t", schema, partition_by=["d"])


class OnThreads:
    """What the methods of Spark stand on, over threads of this process: no session is there."""

    def __init__(self, log):
        self._opened = log

    def log(self, place=None):
        return self._opened

    def runner(self, width=None, place=None):
        return Threads(self._opened.env)

    def progress(self, given=None):
        return given


def on_threads(log):
    table = Maintenance.__new__(Maintenance)
    table._handle = OnThreads(log)
    return table


FIELDS = [(kind, field.name) for kind in rq.REQUESTS for field in rq.fields_of(kind)]
fields = pytest.mark.parametrize(("request_type", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))


def nonsense(request_type, name):
    """Arguments of which one is of no type at all: whoever hands it on is refused."""
    needed = {} if request_type is rq.Restore else {n for n, d in declared(request_type).items() if d is NEEDED}
    return {**dict.fromkeys(needed, "d = 'a'"), name: object()}


@fields
def test_a_table_hands_on_what_it_is_given(table, request_type, name):
    with pytest.raises(InvalidArgument):
        getattr(table, verb(request_type))(**nonsense(request_type, name))


@fields
def test_spark_hands_on_what_it_is_given(table, request_type, name):
    if name == "timestamp":
        return  # The zone of a session is asked first.
    method = METHODS.get(request_type, (camel(verb(request_type)),))[0]
    given = {camel(key): value for key, value in nonsense(request_type, name).items()}
    with pytest.raises(InvalidArgument):
        getattr(on_threads(table._log), method)(**given)


def test_a_request_that_exists_is_valid():
    for wrong in (
        lambda: rq.MergeSplits(target_size=0),
        lambda: rq.MergeSplits(max_source_splits_per_merge=1),
        lambda: rq.MergeSplits(cluster_by="day"),
        lambda: rq.MergeSplits(curve="circle"),
        lambda: rq.Purge(dry_run=None),
        lambda: rq.Purge(older_than_hours=-1),
        lambda: rq.DropPartitions(where="  "),
        lambda: rq.DropPartitions(where=None),
        rq.Restore,
        lambda: rq.Restore(version=1, timestamp=1),
        lambda: rq.Restore(version=1.5),
        lambda: msgspec.structs.replace(rq.Reindex(), force="no"),
    ):
        with pytest.raises(InvalidArgument):
            wrong()


def test_the_shell_makes_requests_of_its_flags():
    (command,) = commands_named(["merge-splits"]).values()
    values = {parameter.name: parameter.default for parameter in parameters_of(command)}
    given = {**values, "target_size": "512M", "cluster_by": "a, b", "max_dest_splits": 2}
    made = arguments_of(command, given)["request"]
    assert made == rq.MergeSplits(target_size=512 << 20, cluster_by=("a", "b"), max_dest_splits=2)
    assert arguments_of(command, values)["request"] == rq.MergeSplits()


WISHES = {
    alter.AddColumns: ("add_columns", "ADD COLUMNS (a int DEFAULT 1 COMMENT 'x' FIRST, b string NOT NULL AFTER a)"),
    alter.AddConstraint: ("add_constraint", "ADD CONSTRAINT a CHECK (b > 1 AND (c < 2))"),
    alter.AlterColumn: ("alter_column", "ALTER COLUMN a TYPE bigint"),
    alter.DropColumns: ("drop_columns", "DROP COLUMNS IF EXISTS (a, b)"),
    alter.DropConstraint: ("drop_constraint", "DROP CONSTRAINT IF EXISTS a"),
    alter.RenameColumn: ("rename_column", "RENAME COLUMN a TO b"),
    alter.SetIndexing: ("set_indexing", "SET INDEXING (a text)"),
    alter.SetNames: ("set_name", "SET NAME 'x'"),
    alter.SetProperties: ("set_properties", "SET TBLPROPERTIES ('a' = 'b')"),
    alter.UnsetProperties: ("unset_properties", "UNSET TBLPROPERTIES IF EXISTS ('a')"),
    alter.UpgradeProtocol: ("upgrade_protocol", "ADD FEATURES (columnMapping)"),
}
"""What an ALTER TABLE can ask for: its method, and its words."""


def test_every_wish_has_a_method_in_python_and_in_spark_and_words_in_sql():
    assert WISHES.keys() == set(get_args(alter.Wish))
    for kind, (method, words) in WISHES.items():
        assert callable(getattr(Table, method))
        assert callable(getattr(Altering, camel(method)))
        statement = parse_command(f"ALTER TABLE t {words}")
        assert isinstance(statement, st.OnlyIfOurs)
        assert isinstance(statement.command, st.AlterTable)
        assert isinstance(statement.command.wish, kind)
