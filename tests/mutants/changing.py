"""Bugs planted into what changes rows."""

from __future__ import annotations

from tests.mutants.planted import TABLE, Bug

LANDING = TABLE + "change/landing.py"
LOSSES = TABLE + "change/losses.py"
MATCHING = TABLE + "change/matching.py"
MERGE = TABLE + "change/merge.py"
KEYS = TABLE + "change/keys.py"
MERGE_TESTS = ("tests/table/test_merge.py",)
RACE_TESTS = ("tests/table/test_merge_races.py",)
CHANGE_TESTS = ("tests/table/test_delete.py", "tests/table/test_update.py")
PRUNE_TESTS = ("tests/query/test_prune_oracle.py",)

MOVED_TESTS = ("tests/table/test_moved_rows.py",)

BUGS = [
    Bug(
        "a statement that selects nothing at an expected version asks nobody what came since",
        LANDING,
        "    if newest.version == read:\n",
        "    if newest.version >= read:\n",
        ("tests/table/test_delete.py",),
    ),
    Bug(
        "rows that a statement depends on are lost sight of when they are moved",
        LANDING,
        "kept=others | still)",
        "kept=others)",
        MOVED_TESTS,
    ),
    Bug(
        "rows that were moved are taken for those of the same number in the new file",
        TABLE + "read/moved.py",
        "            is_one = np.isin(ids.fill_null(-1).to_numpy(zero_copy_only=False), wanted)\n",
        "            is_one = np.isin(batch[_NUMBER].to_numpy(), wanted)\n",
        MOVED_TESTS,
    ),
    Bug(
        "rows that were deleted while others were sorted come back",
        TABLE + "merge/landing.py",
        "np.flatnonzero(was_live & ~is_live)))",
        "np.empty(0, np.int64)))",
        ("tests/table/test_merge_meanwhile.py",),
    ),
    Bug(
        "a split that lost many rows is folded only with a neighbour",
        TABLE + "merge/unit.py",
        "least=1 if work.clustering is not None or len(refs) == 1 else 2",
        "least=1 if work.clustering is not None else 2",
        ("tests/table/test_folding.py",),
    ),
    Bug(
        "vectors are united with the one that was read, not with the winner's",
        LANDING,
        "            losses.replace(entry, now)\n",
        "            losses.replace(entry, file.before)\n",
        CHANGE_TESTS,
    ),
    Bug(
        "what replaces an entry names the vector that was read, not the winner's",
        LOSSES,
        "        self.files = pa.concat_tables([others, entry])\n",
        '        self.files = pa.concat_tables([others, self.files.filter(pc.equal(self.files["path"], path))])\n',
        CHANGE_TESTS,
    ),
    Bug(
        "a file without vector takes the place of one that lost rows meanwhile",
        TABLE + "merge/landing.py",
        "        if all(source.vector == vectors[source.path] for source in group.sources):\n",
        "        if all(source.path in vectors for source in group.sources):\n",
        ("tests/table/test_merge_meanwhile.py",),
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
        "        if not paths:\n            return True\n",
        "        if paths is not None:\n            return True\n",
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
        "computed(node, rows, field.type, name)",
        "computed(node, table, field.type, name)",
        CHANGE_TESTS,
    ),
    Bug(
        "a batch that the table holds is computed before anybody asks for it",
        LANDING,
        "    if held is not None or base is None:\n        return newest, held\n",
        "    if held is not None or base is None:\n        return newest, None\n",
        ("tests/table/test_repeated_batches.py",),
    ),
    Bug(
        "a source that reads the table does not depend on it",
        LANDING,
        "            transaction.read_all()\n",
        "            pass\n",
        ("tests/sql/test_row_statements.py",),
    ),
    Bug(
        "a search beside OR has to find every row",
        TABLE + "change/located.py",
        "        if isinstance(term, Column) and term.name in marks:\n            required.append(marks[term.name])\n",
        "        if not marks.keys().isdisjoint(columns_of(term)):\n"
        "            required += [marks[name] for name in columns_of(term) if name in marks]\n",
        ("tests/sql/test_row_statements.py",),
    ),
    Bug(
        "clauses of a MERGE in SQL end at the first WHEN of a CASE",
        "indextables/sql/command/cursor.py",
        '_PAIRS = {"(": ")", "[": "]", "CASE": "END"}\n',
        '_PAIRS = {"(": ")", "[": "]"}\n',
        ("tests/sql/test_grammar.py",),
    ),
    Bug(
        "a double becomes infinite in a float column",
        TABLE + "change/assigned.py",
        "    return values.filter(pc.invert(same))\n",
        "    return values.slice(0, 0)\n",
        CHANGE_TESTS,
    ),
    Bug(
        "a row that two rows of a source want is changed by the first",
        MATCHING,
        "        if careful and not self._may_repeat:\n",
        "        if careful is None:\n",
        MERGE_TESTS,
    ),
    Bug(
        "pairs that no clause takes count as a violation",
        MATCHING,
        "                chosen = clauses >= 0\n",
        "                chosen = clauses >= -1\n",
        MERGE_TESTS,
    ),
    Bug(
        "the last clause that holds takes the row, not the first",
        MATCHING,
        "        is_open = result < 0\n",
        "        is_open = result < len(choices) + number\n",
        MERGE_TESTS,
    ),
    Bug(
        "a null of the source equals a null of the table",
        KEYS,
        "        self._values = [pc.unique(values).drop_null() for values in self.columns]\n",
        "        self._values = [pc.unique(values) for values in self.columns]\n",
        MERGE_TESTS,
    ),
    Bug(
        "keys are compared by their bits",
        KEYS,
        "    return one_pattern(pc.cast(values, pa.float32()) if pa.types.is_float16(values.type) else values)\n",
        "    return values\n",
        MERGE_TESTS,
    ),
    Bug(
        "a key twice in an upsert comes twice",
        MERGE,
        "        if statement.keys and (both := self._matching.keys.twice()) is not None:\n",
        "        if statement.keys and (both := None) is not None:\n",
        MERGE_TESTS,
    ),
    Bug(
        "files are left out by the keys although a clause takes rows without a match",
        MATCHING,
        "        for _, choice in self._alone:\n            result |=",
        "        for _, choice in self._alone[:0]:\n            result |=",
        MERGE_TESTS,
    ),
    Bug(
        "the index is asked for rows that have no key of the source",
        MATCHING,
        "        if self._alone or self._indexed is None:\n",
        "        if self._indexed is None:\n",
        MERGE_TESTS,
    ),
    Bug(
        "a merge does not look at the rows that a winner brought",
        MERGE,
        "        return self._matching.touched(files)\n",
        "        return self._matching.touched(files.slice(0, 0))\n",
        RACE_TESTS,
    ),
    Bug(
        "an upsert that only adds rows is told as an append that has looked for nothing",
        "indextables/log/commit/transaction.py",
        "        reads = reads or self.repairs\n",
        "",
        RACE_TESTS,
    ),
    Bug(
        "what winners took is not united with what goes",
        "indextables/log/commit/transaction.py",
        "            self._staged, self._is_unfinished = repaired, self._finish is not None\n",
        "            self._staged, self._is_unfinished = repaired, False\n",
        ("tests/table/test_delete.py",),
    ),
    Bug(
        "a row that only kept another from coming may go unnoticed",
        MATCHING,
        "            kept |= BitMap(numbers[has_match & ~is_taken].astype(np.uint32))\n",
        "",
        RACE_TESTS,
    ),
    Bug(
        "files of one size are taken for each other by Spark",
        "indextables/spark/alive.py",
        "    return len(set(sizes)) == len(sizes) and others.isdisjoint(sizes)\n",
        "    return True\n",
        ("tests/spark/test_alive.py",),
    ),
    Bug(
        "rows that match leave without the new ones",
        MERGE,
        '        updates = [n for n, choice in enumerate(self._bound.choices) if choice.clause.action == "update"]\n',
        "        updates: list[int] = []\n",
        MERGE_TESTS,
    ),
]
