from __future__ import annotations

import pytest

from indextables.sql.spark.altering import what_it_alters


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ALTER TABLE t RENAME COLUMN a TO b", "columns"),
        ("alter table a.b.c drop columns (x, y)", "columns"),
        ("ALTER TABLE t DROP COLUMN IF EXISTS x", "columns"),
        ("ALTER TABLE t ADD COLUMNS (x INT)", "columns"),
        ("ALTER TABLE t REPLACE COLUMNS (x INT)", "columns"),
        ("ALTER TABLE t ALTER COLUMN x TYPE BIGINT", "columns"),
        ("ALTER TABLE t ALTER COLUMN x COMMENT 'type'", None),
        ("ALTER TABLE t CHANGE COLUMN x y INT", "columns"),
        ("ALTER TABLE t RENAME TO u", None),
        ("ALTER TABLE t ADD PARTITION (d = 1)", None),
        ("ALTER TABLE t DROP PARTITION (d = 1)", None),
        ("ALTER TABLE t SET TBLPROPERTIES ('Checkpoint.Interval' = 'abc')", "properties"),
        ("ALTER TABLE t SET TBLPROPERTIES ('team' = 'x', 'spark.indextables.state.format' = 'y')", "properties"),
        ("ALTER TABLE t UNSET TBLPROPERTIES ('indexing.typemap.m')", "properties"),
        ("ALTER TABLE t SET TBLPROPERTIES ('team' = 'x')", None),
        ("ALTER VIEW t SET TBLPROPERTIES ('checkpoint.interval' = '1')", None),
        ("SELECT 'ALTER TABLE t DROP COLUMN x'", None),
        ("", None),
        ("ALTER", None),
    ],
)
def test_what_an_alter_changes_that_a_table_cannot_follow(text, what):
    assert what_it_alters(text) == what
