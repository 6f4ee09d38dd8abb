"""Which commits may follow which: the table in the docstring of `judge`, cell by cell."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.commits import METADATA, add, remove, version

from indextables.log.commit.conflict import Ours, judge, merge_registry
from indextables.log.wire.actions import DeletionVector, DomainMetadata, Metadata, Protocol, Txn

PROTOCOL = Protocol(4, 4, ["parquetSplit"], ["parquetSplit"])


def ours(kind, **more):
    return Ours(kind=kind, base_metadata=METADATA, base_protocol=PROTOCOL, **more)


def paths(*names):
    return pa.array(names, pa.string())


APPEND = version(5, add("new"), blind=True)
DELETE = version(5, remove("f1"), blind=False)
UPDATE = version(5, remove("f1"), add("f1-updated"), blind=False)
OVERWRITE = version(5, remove("f1"), remove("f2"), add("all-new"), blind=False)
MERGE = version(5, remove("f1", data_change=False), remove("f2", data_change=False), add("m", data_change=False))
PROPERTIES = version(5, msgspec.structs.replace(METADATA, configuration={"k": "v"}))
NEW_SCHEMA = version(5, msgspec.structs.replace(METADATA, schemaString="{}"))
REGISTRY = version(5, msgspec.structs.replace(METADATA, configuration={"docMappingSchema.abc": "{}"}), add("new"))
UPGRADE = version(5, Protocol(4, 4, ["columnMapping", "parquetSplit"], ["columnMapping", "parquetSplit"]))
VECTORS_COME = version(5, Protocol(4, 4, ["deletionVectors", "parquetSplit"], ["deletionVectors", "parquetSplit"]))


def always(_adds):
    return True


def never(_adds):
    return False


OK = None
CELLS = [
    ("append/append", ours("append"), APPEND, OK),
    ("append/delete", ours("append"), DELETE, OK),
    ("append/overwrite", ours("append"), OVERWRITE, OK),
    ("append/merge splits", ours("append"), MERGE, OK),
    ("append/properties", ours("append"), PROPERTIES, "metadata"),
    ("append/schema", ours("append"), NEW_SCHEMA, "metadata"),
    ("append/registry", ours("append"), REGISTRY, OK),
    ("append/protocol", ours("append"), UPGRADE, "protocol"),
    ("append/serializable append", ours("append", serializable=True), APPEND, OK),
    ("rows/append", ours("rows", removed=paths("f1"), may_match=always), APPEND, OK),
    (
        "rows/append, serializable",
        ours("rows", removed=paths("f1"), may_match=always, serializable=True),
        APPEND,
        "data",
    ),
    ("rows/append elsewhere, serializable", ours("rows", may_match=never, serializable=True), APPEND, OK),
    ("rows/append, read all, serializable", ours("rows", read_all=True, serializable=True), APPEND, "data"),
    ("rows/append, read all", ours("rows", read_all=True), APPEND, OK),
    ("rows/delete of the same file", ours("rows", removed=paths("f1")), DELETE, "data"),
    ("rows/delete of another file", ours("rows", removed=paths("f2")), DELETE, OK),
    ("rows/delete of a file that was read", ours("rows", removed=paths("f2"), read=paths("f1")), DELETE, "data"),
    ("rows/delete, read all", ours("rows", read_all=True), DELETE, "data"),
    ("rows/update into the predicate", ours("rows", removed=paths("f9"), may_match=always), UPDATE, "data"),
    ("rows/update outside", ours("rows", removed=paths("f9"), may_match=never), UPDATE, OK),
    ("rows/merge of a removed file", ours("rows", removed=paths("f1")), MERGE, "data"),
    ("rows/merge of a file only read", ours("rows", removed=paths("f9"), read=paths("f1")), MERGE, OK),
    ("rows/merge, read all", ours("rows", read_all=True, serializable=True), MERGE, OK),
    ("rows/properties", ours("rows", removed=paths("f9")), PROPERTIES, "metadata"),
    ("rows/protocol", ours("rows", removed=paths("f9")), UPGRADE, "protocol"),
    ("merge/append", ours("merge_splits", removed=paths("f1", "f2")), APPEND, OK),
    ("merge/delete of a source", ours("merge_splits", removed=paths("f1", "f2")), DELETE, "data"),
    ("merge/delete elsewhere", ours("merge_splits", removed=paths("f8", "f9")), DELETE, OK),
    ("merge/merge, shared", ours("merge_splits", removed=paths("f2", "f3")), MERGE, "data"),
    ("merge/merge, not shared", ours("merge_splits", removed=paths("f8", "f9")), MERGE, OK),
    ("merge/properties", ours("merge_splits", removed=paths("f8")), PROPERTIES, OK),
    ("merge/schema", ours("merge_splits", removed=paths("f8")), NEW_SCHEMA, "metadata"),
    ("merge/protocol", ours("merge_splits", removed=paths("f8")), UPGRADE, "protocol"),
    ("overwrite/append", ours("overwrite", removed=paths("f1")), APPEND, OK),
    (
        "overwrite/append, serializable",
        ours("overwrite", removed=paths("f1"), read_all=True, serializable=True),
        APPEND,
        "data",
    ),
    ("overwrite/overwrite", ours("overwrite", removed=paths("f1", "f2")), OVERWRITE, "data"),
    ("overwrite/delete", ours("overwrite", removed=paths("f1", "f2")), DELETE, "data"),
    ("overwrite/merge splits", ours("overwrite", removed=paths("f1", "f2")), MERGE, OK),
    ("replaceWhere/append in range", ours("overwrite", may_match=always, serializable=True), APPEND, "data"),
    ("replaceWhere/append outside", ours("overwrite", may_match=never, serializable=True), APPEND, OK),
    ("replaceWhere/replaceWhere elsewhere", ours("overwrite", removed=paths("f8"), may_match=never), OVERWRITE, OK),
    ("replaceWhere/delete in range", ours("overwrite", removed=paths("f1"), may_match=never), DELETE, "data"),
    ("overwrite/properties", ours("overwrite"), PROPERTIES, "metadata"),
    ("overwrite/protocol", ours("overwrite"), UPGRADE, "protocol"),
    ("metadata/append", ours("metadata", metadata=METADATA), APPEND, OK),
    ("metadata/metadata", ours("metadata", metadata=METADATA), PROPERTIES, "metadata"),
    ("metadata/registry", ours("metadata", metadata=METADATA), REGISTRY, OK),
    ("metadata/protocol", ours("metadata", metadata=METADATA), UPGRADE, "protocol"),
]


@pytest.mark.parametrize(("mine", "theirs", "clash"), [cell[1:] for cell in CELLS], ids=[cell[0] for cell in CELLS])
def test_the_table_of_the_docstring(mine, theirs, clash):
    verdict = judge(mine, theirs)
    assert (verdict.clash.kind if verdict.clash else None) == clash
    if verdict.clash:
        assert "version 5" in verdict.clash.reason


def test_equal_metadata_and_protocol_are_no_change():
    assert judge(ours("append"), version(5, METADATA, PROTOCOL)).clash is None


def test_registered_mappings_of_both_sides_are_united():
    verdict = judge(ours("append"), REGISTRY)
    assert verdict.metadata is not None
    mine = msgspec.structs.replace(METADATA, configuration={"docMappingSchema.def": "{}", "k": "v"})
    merged = merge_registry(mine, verdict.metadata)
    assert merged.configuration == {"docMappingSchema.abc": "{}", "docMappingSchema.def": "{}", "k": "v"}


def test_a_changed_mapping_is_a_change_of_metadata():
    base = msgspec.structs.replace(METADATA, configuration={"docMappingSchema.abc": "1"})
    changed = version(5, msgspec.structs.replace(METADATA, configuration={"docMappingSchema.abc": "2"}))
    verdict = judge(Ours(kind="append", base_metadata=base, base_protocol=PROTOCOL), changed)
    assert verdict.clash is not None
    assert verdict.clash.kind == "metadata"


@pytest.mark.parametrize(("held", "already"), [(6, False), (7, True), (8, True)])
def test_a_batch_that_the_winner_holds_is_a_repetition(held, already):
    winner = version(5, Txn("app", held), add("new"))
    assert judge(ours("append", txns=(Txn("app", 7),)), winner).already is already
    assert judge(ours("append", txns=(Txn("other", 7),)), winner).already is False


def test_two_changes_of_one_domain_clash():
    winner = version(5, DomainMetadata("d", "1"))
    verdict = judge(ours("metadata", domains=("d",)), winner)
    assert verdict.clash is not None
    assert verdict.clash.kind == "domain"
    assert judge(ours("metadata", domains=("e",)), winner).clash is None


VECTOR = DeletionVector("i", "abc", 3, 1)


def test_whoever_repairs_is_asked_what_files_mean_and_whoever_does_not_clashes():
    for winner in (DELETE, UPDATE, MERGE, version(5, remove("f1"), add("f1", deletionVector=VECTOR))):
        able = judge(ours("rows", removed=paths("f1"), added=paths("f1"), repairs=True, may_match=always), winner)
        assert able.clash is None
        assert able.repair
        assert judge(ours("rows", removed=paths("f1"), added=paths("f1")), winner).clash is not None


def test_whoever_read_the_whole_table_cannot_repair():
    assert judge(ours("rows", repairs=True, read_all=True), DELETE).clash is not None


def test_a_file_that_was_only_read_may_lose_rows_that_were_not_ours():
    winner = version(5, remove("f1"), add("f1", deletionVector=VECTOR), blind=False)
    assert judge(ours("rows", removed=paths("f2"), read=paths("f1")), winner).clash is None


@pytest.mark.parametrize(("operation", "before"), [("RESTORE", 2), ("RESTORE", 0), ("DELETE", 1)])
def test_rows_that_come_back_because_a_vector_shrank_are_new_rows(operation, before):
    told = remove("f1", deletionVector=DeletionVector("i", "abcd", 4, before) if before else None)
    back = add("f1", deletionVector=VECTOR if before else None)
    winner = version(5, told, back, blind=False, operation=operation)
    clash = judge(ours("rows", removed=paths("f2"), may_match=always), winner).clash
    assert (clash is not None) == (operation == "RESTORE" and before > 0)


def test_rows_are_changed_on_top_of_new_properties_and_not_of_a_new_constraint():
    constraint = version(5, msgspec.structs.replace(METADATA, configuration={"constraints.c": "x > 0"}))
    rows = ours("rows", repairs=True)
    assert judge(rows, PROPERTIES).metadata is not None
    assert judge(rows, constraint).clash is not None
    assert judge(rows, NEW_SCHEMA).clash is not None


def test_a_feature_that_changes_nothing_for_the_commit_is_followed():
    for kind in ("append", "rows", "merge_splits", "overwrite", "metadata"):
        verdict = judge(ours(kind, removed=paths("f9")), VECTORS_COME)
        assert verdict.clash is None
        assert verdict.protocol is not None
        assert verdict.protocol.writerFeatures == ["deletionVectors", "parquetSplit"]


@pytest.mark.parametrize(
    "after",
    [
        Protocol(4, 5, ["deletionVectors", "parquetSplit"], ["deletionVectors", "parquetSplit"]),
        Protocol(4, 4, ["deletionVectors"], ["deletionVectors", "parquetSplit"]),
        Protocol(4, 4, ["columnMapping", "parquetSplit"], ["columnMapping", "parquetSplit"]),
    ],
    ids=["higher version", "a feature less", "what changes how rows are written"],
)
def test_every_other_change_of_the_protocol_clashes(after):
    clash = judge(ours("append"), version(5, after)).clash
    assert clash is not None
    assert clash.kind == "protocol"


def test_a_new_vector_brings_no_phantom_rows():
    winner = version(5, remove("f1"), add("f1", deletionVector=VECTOR), blind=False)
    assert judge(ours("rows", removed=paths("f2"), may_match=always, serializable=True), winner).clash is None


def test_a_merge_gives_up_only_the_touched_files():
    verdict = judge(ours("merge_splits", removed=paths("f1", "f2", "f3"), regroups=True), DELETE)
    assert verdict.clash is None
    assert verdict.give_up == ("f1",)


def test_one_file_added_by_two_commits_clashes():
    verdict = judge(ours("rows", added=paths("new"), read=paths("f7")), APPEND)
    assert verdict.clash is not None
    assert "already added new" in verdict.clash.reason


def test_another_table_id_is_no_registry_change():
    winner = version(5, Metadata(id="other", schemaString=METADATA.schemaString, createdTime=1))
    verdict = judge(ours("merge_splits", removed=paths("f1")), winner)
    assert verdict.clash is not None


def vector_of(number):
    return DeletionVector("i", f"v{number}", 3, number)


@st.composite
def winners_with_vectors(draw):
    """A winner that sets vectors, in both ways in which PROTOCOL 1.6 lets it be written."""
    touched = draw(st.lists(st.sampled_from(FILES), min_size=1, unique=True))
    alone = draw(st.lists(st.sampled_from(touched), min_size=1, unique=True))
    new = draw(st.lists(st.sampled_from(["n1", "n2"]), unique=True))
    change = draw(st.booleans())
    blind = draw(st.sampled_from([True, False, None]))
    adds = [add(path, deletionVector=vector_of(n + 1), data_change=change) for n, path in enumerate(touched)]
    adds += [add(path, data_change=change) for path in new]
    named = [remove(path, data_change=change) for path in touched]
    fewer = [remove(path, data_change=change) for path in touched if path not in alone]
    return version(5, *named, *adds, blind=blind), version(5, *fewer, *adds, blind=blind)


FILES = ["f1", "f2", "f3"]
some_files = st.lists(st.sampled_from(FILES), unique=True).map(lambda names: paths(*names) if names else None)
commits_of_ours = st.builds(
    ours,
    st.sampled_from(["rows", "merge_splits", "overwrite", "append", "metadata"]),
    removed=some_files,
    read=some_files,
    read_all=st.booleans(),
    serializable=st.booleans(),
    may_match=st.sampled_from([None, always, never]),
    repairs=st.booleans(),
    regroups=st.booleans(),
)


@pytest.mark.slow
@given(commits_of_ours, winners_with_vectors())
def test_a_vector_set_by_add_alone_counts_as_one_set_by_remove_and_add(mine, winners):
    named, alone = (judge(mine, winner) for winner in winners)
    if named.clash is not None:
        assert alone.clash is not None
    elif alone.clash is not None:
        # What nobody removed could also be a file that comes back with its vector, and with rows.
        assert "added rows" in alone.clash.reason or "changed rows in the range" in alone.clash.reason
    else:
        assert (named.repair, named.give_up) == (alone.repair, alone.give_up)


@given(st.sampled_from(["rows", "merge_splits", "overwrite"]), st.booleans(), st.booleans())
def test_a_vector_of_ours_set_by_add_alone_is_not_put_on_a_file_that_was_removed(kind, serializable, regroups):
    mine = ours(kind, added=paths("f1"), serializable=serializable, regroups=regroups)
    assert judge(mine, MERGE).clash is not None


class Winner(msgspec.Struct):
    """What somebody committed since our overwrite began: files by partition, removed, added or given a vector."""

    removed: list[tuple[str, bool]]
    added: list[str]
    vectors: list[str]
    data_change: bool
    blind: bool

    def content(self):
        change = self.data_change
        actions = [
            remove(f"{part}-since-{n}", data_change=change, partitionValues={"d": part})
            if told
            else remove(f"{part}-{n}", data_change=change)
            for n, (part, told) in enumerate(self.removed)
        ]
        actions += [placed(f"{part}-new-{n}", part, change) for n, part in enumerate(self.added)]
        actions += [
            placed(f"{part}-old-{n}", part, change, deletionVector=VECTOR) for n, part in enumerate(self.vectors)
        ]
        return version(5, *actions, blind=self.blind)

    def touches(self, parts, *, serializable):
        """The rule in plain words."""
        if not self.data_change:
            return False
        if any(part in parts for part, _ in self.removed) or any(part in parts for part in self.vectors):
            return True
        is_append = self.blind and not self.vectors
        return any(part in parts for part in self.added) and (serializable or not is_append)


def placed(path, part, change, **more):
    return msgspec.structs.replace(add(path, data_change=change, **more), partitionValues={"d": part})


PARTS = st.sampled_from(["a", "b"])
WINNERS = st.builds(
    Winner,
    st.lists(st.tuples(PARTS, st.booleans()), max_size=2),
    st.lists(PARTS, max_size=2),
    st.lists(PARTS, max_size=2),
    st.booleans(),
    st.booleans(),
)


@given(WINNERS, st.sampled_from([("a",), ("b",), ("a", "b"), None]), st.booleans())
def test_an_overwrite_is_refused_exactly_where_its_range_was_changed(winner, replaced, serializable):
    """`None` replaces everything. What was added since is known by its partition, what was there before by its name."""
    parts = ("a", "b") if replaced is None else replaced

    def in_range(files):
        return any(dict(row).get("d") in parts for row in files["partitionValues"].to_pylist() if row is not None)

    mine = ours(
        "overwrite",
        removed=paths(*(f"{part}-{n}" for part in parts for n in range(3))),
        may_match=None if replaced is None else in_range,
        serializable=serializable,
    )
    verdict = judge(mine, winner.content())
    assert (verdict.clash is not None) == winner.touches(parts, serializable=serializable)


class Undecoded:
    """A winner whose files are not to be looked at."""

    version, protocol, metadata, txns, domains = 5, None, None, (), ()
    commit_info = APPEND.commit_info

    @property
    def adds(self):
        raise AssertionError("the files of the winner are decoded")

    removes = adds


@pytest.mark.parametrize("kind", ["append", "metadata"])
def test_what_takes_no_file_away_does_not_look_at_the_files_of_a_winner(kind):
    assert judge(ours(kind), Undecoded()).clash is None
