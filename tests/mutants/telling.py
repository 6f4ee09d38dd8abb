"""The planted bugs of what a table tells of itself: the feed of changes, row tracking, personal columns."""

from __future__ import annotations

from tests.mutants.planted import Bug

FEED = "indextables/table/feed/"
FEED_TESTS = ("tests/table/test_feed.py",)
PERSONAL_TESTS = ("tests/table/test_personal.py",)

BUGS = [
    Bug(
        "a drop that stops half-way leaves an older version to be found",
        "indextables/table/maintenance/dropping.py",
        "    yield from (key for key in keys if key in versions)\n",
        "    yield from sorted(versions, reverse=True)\n",
        ("tests/table/test_dropping.py",),
    ),
    Bug(
        "a drop lists the data files of the next table in its place",
        "indextables/table/maintenance/dropping.py",
        "        yield from (meta.key for meta in _among(own, files))\n",
        "        yield from (meta.key for meta in own)\n",
        ("tests/table/test_drop_beside.py",),
    ),
    Bug(
        "a drop sends a delete again without a look at what is there by now",
        "indextables/table/maintenance/dropping.py",
        "why_over(self._env, self._announced) or self._others(keys)",
        "why_over(self._env, self._announced)",
        ("tests/table/test_drop_beside.py",),
    ),
    Bug(
        "a drop ends although a delete had no answer",
        "indextables/table/maintenance/dropping.py",
        "            if leave.sent.may_arrive:\n",
        "            if False:\n",
        ("tests/table/test_drop_beside.py",),
    ),
    Bug(
        "a table is made in the midst of a drop",
        "indextables/log/commit/create.py",
        "held = put_slot(env, 0, data, token, check=lambda: log.before_create(env))",
        "held = put_slot(env, 0, data, token)",
        ("tests/table/test_drop_beside.py",),
    ),
    Bug(
        "a drop takes the mark of another one away",
        "indextables/table/maintenance/dropping.py",
        "if meta.key not in drops]",
        "if meta.key not in drops or drops]",
        ("tests/table/test_drop_beside.py",),
    ),
    Bug(
        "files that were written before their table was made are not looked for",
        "indextables/table/create.py",
        "    check_there(log.env, adds)\n",
        "    pass\n",
        ("tests/table/test_drop_beside.py",),
    ),
    Bug(
        "an entry of the catalog is read under another format's word",
        "indextables/sql/spark/statements.py",
        'return after is not None and after.text.strip("`").lower() == FORMAT',
        "return after is not None",
        ("tests/sql/test_named_statements.py",),
    ),
    Bug(
        "rows that a vector takes are told as those that it brings back",
        FEED + "units.py",
        "    return after - before, before - after\n",
        "    return before - after, after - before\n",
        FEED_TESTS,
    ),
    Bug(
        "an update is told as a delete and an insert",
        FEED + "pairing.py",
        "codes[known & _among(numbers, self.ids)] = image",
        "codes[known & _among(numbers, self.ids)] = alone",
        FEED_TESTS,
    ),
    Bug(
        "files that left are looked for in the version that took them",
        FEED + "verb.py",
        "files = self.log.snapshot(content.version - 1).files",
        "files = self.log.snapshot(content.version).files",
        FEED_TESTS,
    ),
    Bug(
        "a commit that changes no data has changes",
        FEED + "units.py",
        'table["path"].filter(table["dataChange"])',
        'table["path"]',
        FEED_TESTS,
    ),
    Bug(
        "a row that was there before a range is told as an insert of it",
        FEED + "pairing.py",
        "found = np.where(self.was[places], POSTIMAGE, INSERT)",
        "found = np.where(self.was[places], INSERT, INSERT)",
        FEED_TESTS,
    ),
    Bug(
        "a piece of a stream ends between two images of an update",
        FEED + "tail.py",
        "    if bundle.pairs:\n        return [bundle]\n",
        "",
        FEED_TESTS,
    ),
    Bug(
        "who gives rows their ids says that their data changed",
        "indextables/table/alter/tracking.py",
        "transaction.add(_unchanged(placed_again(files)))",
        "transaction.add(placed_again(files))",
        FEED_TESTS,
    ),
    Bug(
        "bounds of a personal column are left in the statistics of a file",
        "indextables/log/commit/personal.py",
        "            stats = re.sub(expression, new, stats)\n",
        "            stats = re.sub(expression, new, stats) and stats\n",
        PERSONAL_TESTS,
    ),
    Bug(
        "the history tells literals of a predicate that names a personal column",
        "indextables/log/commit/personal.py",
        'told[key] = _LITERAL.sub("?", text) if is_merge or _mentions(text, names) else text',
        'told[key] = _LITERAL.sub("?", text) if is_merge else text',
        PERSONAL_TESTS,
    ),
    Bug(
        "an overwrite of a partition that is named replaces every row",
        "indextables/sql/spark/inserting.py",
        "        options[opt.REPLACE_WHERE.key] = where\n",
        "",
        ("tests/sql/test_inserting.py",),
    ),
    Bug(
        "a dynamic overwrite of one whole partition leaves it alone where there are no rows",
        "indextables/sql/spark/inserting.py",
        "not (is_dynamic and len(fixed) < len(partitioned_by))",
        "not is_dynamic",
        ("tests/sql/test_inserting.py",),
    ),
    Bug(
        "a block whose first line is null gets to Arrow",
        "indextables/cli/input/json_lines.py",
        'rb"(?:\\A|\\n)(?:',
        'rb"\\n(?:',
        ("tests/cli/test_json_lines.py",),
    ),
    Bug(
        "blank lines are counted as rows of a file",
        "indextables/cli/input/json_lines.py",
        "if (firsts <= _LAST_BLANK).any():",
        "if False:",
        ("tests/cli/test_json_lines.py",),
    ),
    Bug(
        "a line beyond the limit is taken where its end is in the next block",
        "indextables/cli/input/blocks.py",
        'if len(whole[:first].removesuffix(b"\\n")) > limit:',
        "if False:",
        ("tests/cli/test_text_lines.py",),
    ),
]
