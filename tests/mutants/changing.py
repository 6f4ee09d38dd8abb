"""Bugs planted into what changes rows."""

from __future__ import annotations

from tests.mutants.planted import TABLE, Bug

LANDING = TABLE + "change/landing.py"
LOSSES = TABLE + "change/losses.py"
CHANGE_TESTS = ("tests/table/test_delete.py", "tests/table/test_update.py")
PRUNE_TESTS = ("tests/query/test_prune_oracle.py",)

BUGS = [
    Bug(
        "vectors are united with the one that was read, not with the winner's",
        LANDING,
        "            losses.replace(entry, now)\n",
        "            losses.replace(entry, file.before)\n",
        CHANGE_TESTS,
    ),
    Bug(
        "a vector that shrank is taken for one that grew",
        LANDING,
        "if not file.before <= now or (strict and now & file.rows):",
        "if strict and now & file.rows:",
        CHANGE_TESTS,
    ),
    Bug(
        "two updates of one row both write it",
        LANDING,
        "if not file.before <= now or (strict and now & file.rows):",
        "if not file.before <= now:",
        CHANGE_TESTS,
    ),
    Bug(
        "rows that a winner brought are not looked at",
        LANDING,
        "        if blind and not serializable:\n",
        "        if winner is not None:\n",
        CHANGE_TESTS,
    ),
    Bug(
        "an update goes on although a row came that it selects",
        LANDING,
        "if self._statement.writes or self._terms.expect_version is not None or self._losses.touched.keys() & rows:",
        "if self._losses.touched.keys() & rows:",
        CHANGE_TESTS,
    ),
    Bug(
        "a file that was merged meanwhile is taken for one that is gone with its rows",
        LANDING,
        "            if strict or not changes:\n",
        "            if strict:\n",
        CHANGE_TESTS,
    ),
    Bug(
        "a new vector forgets the rows that were deleted before",
        LOSSES,
        "path: dv.encode(file.before | file.rows)",
        "path: dv.encode(file.rows)",
        CHANGE_TESTS,
    ),
    Bug(
        "values are computed from rows that were changed already",
        TABLE + "change/update.py",
        "        computed = evaluate_value(node, rows)\n",
        "        computed = evaluate_value(node, table)\n",
        CHANGE_TESTS,
    ),
    Bug(
        "a list with a null proves that whole files match",
        "indextables/query/prune.py",
        "(isinstance(term, In) and not term.has_null)",
        "isinstance(term, In)",
        PRUNE_TESTS,
    ),
]
