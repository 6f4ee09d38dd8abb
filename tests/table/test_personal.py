"""No value of a personal column stands outside of the splits: not in a version file, a checkpoint or the history."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import CardinalityViolation, InvalidArgument

SCHEMA = pa.schema(
    [("id", pa.int64()), ("email", pa.string()), ("born", pa.timestamp("us", "UTC")), ("day", pa.string())]
)
SECRETS = ("ada@example.org", "ada@", "zoe@example.org", "1815-12-1", "777123456789")


def rows(first: int = 0) -> list[dict[str, object]]:
    return [
        {"id": first, "email": "ada@example.org", "born": "1815-12-10T00:00:00Z", "day": "mon"},
        {"id": first + 1, "email": "zoe@example.org", "born": "1815-12-11T00:00:00Z", "day": "tue"},
    ]


def made(path, **more):
    table = indextables.create(path, SCHEMA, properties={"indexing.personal": "Email,born", **more})
    table.append(_typed(rows()))
    return table


def _typed(found):
    plain = pa.Table.from_pylist(found)
    at = plain.column_names.index("born")
    return plain.set_column(at, "born", plain["born"].cast(pa.timestamp("us", "UTC"))).cast(SCHEMA)


def outside(table: indextables.Table) -> str:
    """Every byte outside of the splits, unpacked."""
    root = Path(table.url.removeprefix("file://"))
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".split":
            data = path.read_bytes()
            packed = data.find(b"\x1f\x8b", 0, 4)
            found.append(gzip.decompress(data[packed:]) if packed >= 0 else data)
    folders = [str(path.relative_to(root)).encode() for path in root.rglob("*")]
    return b"\n".join([*found, *folders]).decode(errors="replace")


def test_no_verb_lets_a_value_out(tmp_path):
    table = made(tmp_path / "t")
    table.append(_typed(rows(10)))
    table.update({"email": "'zoe@example.org'"}, "email = 'ada@example.org' AND id > 5")
    table.upsert(_typed(rows(20)), on="id")
    source = pa.table({"mail": ["ada@example.org"], "n": [1]})
    table.merge(source, "t.email = s.mail AND s.n <> 777123456789").when_matched_update(
        {"day": "'wed'"}, "s.mail = 'ada@example.org'"
    ).execute()
    table.delete("email LIKE 'ada@%' AND id = 20")
    table.delete("day = 'sun' OR id = 21")
    table.merge_splits()
    table.restore(version=2)
    table.reindex(force=True)
    table.checkpoint()
    text = outside(table)
    assert [secret for secret in SECRETS if secret in text] == []
    told = {row["operation"]: dict(row["operationParameters"]) for row in table.history().to_pylist()}
    assert told["UPDATE"]["predicate"] == "email = ? AND id > ?"
    assert "mon" in text, "other columns have their bounds"
    assert table.count(where="email = 'ada@example.org'") == 2
    assert table.count(where="born < '1900-01-01'") == 4


def test_a_predicate_without_such_a_column_is_told_whole(tmp_path):
    table = made(tmp_path / "t")
    table.delete("day = 'mon'")
    assert dict(table.history(1)["operationParameters"][0].as_py())["predicate"] == "day = 'mon'"
    table.delete(search="day:tue")
    assert dict(table.history(1)["operationParameters"][0].as_py())["search"] == "?"


def test_a_column_that_is_marked_later_loses_its_bounds(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA)
    for first in (0, 10):
        table.append(_typed(rows(first)))
    table.rename_column("email", "mail")
    table.set_properties({"indexing.personal": "mail,born"})
    bounds = [name for row in table.files().to_pylist() for name, _ in [*row["minValues"], *row["maxValues"]]]
    assert set(bounds) == {"id", "day"}
    assert not any("ada@" in text or "1815" in text for text in table.files()["stats"].to_pylist())
    assert [text for text in table.files()["stats"].to_pylist() if '"day":"mon"' in text]
    assert table.count(where="mail = 'ada@example.org'") == 2
    table.rename_column("mail", "post")
    assert table.metadata.configuration["indexing.personal"] == "post,born"
    table.append(_typed(rows(30)).rename_columns(["id", "post", "born", "day"]))
    table.truncate_time_travel()
    text = outside(table)
    assert [secret for secret in SECRETS if secret in text] == []
    assert table.verify().ok


@pytest.mark.parametrize(
    "make",
    [
        lambda path: indextables.create(
            path, SCHEMA, partition_by=["email"], properties={"indexing.personal": "email"}
        ),
        lambda path: indextables.create(path, SCHEMA, properties={"indexing.personal": "nobody"}),
        lambda path: indextables.create(path, SCHEMA, partition_by=["day"]).set_properties(
            {"indexing.personal": "day"}
        ),
        lambda path: made(path).overwrite(_typed(rows()), overwrite_schema=True, partition_by=["email"]),
    ],
)
def test_what_would_let_values_out_is_refused(tmp_path, make):
    with pytest.raises(InvalidArgument, match=r"personal"):
        make(tmp_path / "t")


def test_indexing_says_it_too(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, indexing={"email": {"type": "string", "personal": True}})
    assert table.metadata.configuration["indexing.personal"] == "email"


@pytest.mark.parametrize("renamed", [False, True])
def test_a_restore_to_before_the_mark_keeps_it(tmp_path, renamed):
    table = indextables.create(tmp_path / "t", SCHEMA)
    version = table.append(_typed(rows()))
    if renamed:
        table.rename_column("email", "mail")
    table.set_properties({"indexing.personal": "mail,born" if renamed else "email,born"})
    table.restore(version=version)
    assert table.metadata.configuration["indexing.personal"] == "email,born"
    later = [{**row, "email": "newcomer@" + str(row["email"])} for row in rows(2)]
    table.append(_typed(later))
    table.delete("email = 'newcomer@ada@example.org'")
    assert "newcomer" not in outside(table)


def test_an_error_about_two_rows_for_one_shows_no_value(tmp_path):
    table = made(tmp_path / "t")
    twice = _typed(rows() + rows())
    mails = pa.table({"mail": ["ada@example.org"] * 2, "n": [1, 2]})
    refused = (
        lambda: table.upsert(twice, on="email"),
        lambda: table.upsert(twice, on="id"),
        lambda: table.merge(twice, ["id"]).when_matched_update_all().execute(),
        lambda: table.merge(mails, "t.email = s.mail").when_matched_update({"day": "'x'"}).execute(),
    )
    for statement in refused:
        with pytest.raises(CardinalityViolation) as fault:
            statement()
        told = f"{fault.value} {fault.value.details}"
        assert not [secret for secret in SECRETS if secret in told]
    # What is not personal still tells which rows are meant.
    with pytest.raises(CardinalityViolation, match=r"'id': 0, 'email': '\(personal\)'"):
        table.upsert(twice, on="id")
