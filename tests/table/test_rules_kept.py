"""`verify` reads rows where it is asked to, and tells those that break a rule of their table."""

from __future__ import annotations

import json
import shutil

import msgspec
import pyarrow as pa
import pytest
from tests.world.commits import change_metadata

import indextables
from indextables.cli import main
from indextables.sql.local.session import LocalSession

SCHEMA = pa.schema([("id", pa.int64()), ("twice", pa.int64()), ("name", pa.string())])


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", SCHEMA)
    made.append([{"id": n, "twice": 2 * n, "name": f"n{n}"} for n in range(5)])
    made.append([{"id": 9, "twice": 1, "name": None}])
    return made


def ruled(table, told, **properties):
    """The table with rules that nobody held its rows against, as a library with a fault might leave it."""
    schema = json.loads(table.metadata.schemaString)
    for field in schema["fields"]:
        new = dict(told.get(field["name"], {}))
        field["nullable"] = new.pop("nullable", True)
        field["metadata"] |= new
    changed = msgspec.structs.replace(
        table.metadata,
        schemaString=json.dumps(schema),
        configuration={**table.metadata.configuration, **properties},
    )
    change_metadata(table._log, changed)
    return table.url


def findings(url):
    report = indextables.verify(url, rules=True)
    assert {found.kind for found in report.findings} <= {"rule"}
    assert report.ok == (not report.findings)
    return [found.message for found in report.findings]


@pytest.mark.parametrize(
    ("told", "properties", "said"),
    [
        ({"name": {"nullable": False}}, {}, "NOT NULL of column name is broken by 1 rows, among them id = 9"),
        ({}, {"constraints.few": "id < 5"}, r"the constraint few \(id < 5\) is broken by 1 rows, among them id = 9"),
        ({}, {"constraints.odd": "nope > 1"}, "the constraint odd .* cannot be evaluated"),
        ({"twice": {"generationExpression": "id * 2"}}, {}, r"generated column twice \(id \* 2\) is broken by 1 rows"),
        ({"id": {"identity.start": "0", "identity.step": "1"}}, {}, "up to 9, that no claim covers"),
        ({"twice": {"identity.start": "-1", "identity.step": "-1"}}, {}, None),
    ],
)
def test_rows_that_break_a_rule_are_told(table, told, properties, said, capsys):
    assert findings(table.url) == []
    url = ruled(table, told, **properties)
    assert indextables.verify(url).ok
    found = findings(url)
    if said is None:
        assert found == []
        return
    assert len(found) == 1
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(found[0])
    assert main(["verify", url, "--rules"]) == 1
    (row,) = LocalSession({"t": url}).run("VERIFY INDEXTABLES t WITH RULES").to_pylist()
    assert (row["kind"], row["severity"]) == ("rule", "error")


def test_numbers_that_are_there_twice_or_will_be_are_told(table, tmp_path):
    words = {"id": "ALWAYS AS IDENTITY"}
    numbered = indextables.create(tmp_path / "n", SCHEMA, generated=words, properties={"indexing.personal": "id"})
    numbered.append([{"name": "a"}, {"name": "b"}])
    assert findings(numbered.url) == []
    shutil.rmtree(tmp_path / "n" / "_transaction_log" / "_sequences")
    assert [text for text in findings(numbered.url) if "no claim covers" in text and "(personal)" in text]
    numbered.append([{"name": "c"}])
    told = findings(numbered.url)
    assert [text for text in told if "1 rows share a number of id" in text]
    assert not any(" 1 among" in text for text in told)


def test_a_table_that_cannot_be_read_is_told_and_not_raised(table, tmp_path):
    for split in (tmp_path / "t").rglob("*.split"):
        split.unlink()
    ruled(table, {}, **{"constraints.few": "id < 5"})
    report = indextables.verify(table.url, rules=True)
    assert {found.kind for found in report.findings} == {"data-file-missing", "rule"}
