"""Bugs planted into what reads: streams, their sinks, pruning, deletion vectors, scans, searches, states."""

from __future__ import annotations

from tests.mutants.planted import CLEANUP_TESTS, LOG, TABLE, TAIL_TESTS, Bug

QUERY = "indextables/query/"
SPARK = "indextables/spark/"
SPLIT = "indextables/split/"

ANSWER_TESTS = ("tests/table/test_answers.py",)
STREAM_TESTS = ("tests/spark/test_stream_parts.py",)
PRUNE_TESTS = ("tests/query/test_prune.py", "tests/query/test_prune_oracle.py")
VECTOR_TESTS = ("tests/split/test_dv.py",)
READER_TESTS = ("tests/split/test_reader.py",)
SEARCH_TESTS = ("tests/split/test_search.py",)
ADVANCE_TESTS = ("tests/state/test_advance.py",)
PLANNED_TESTS = ("tests/table/test_planned_files.py",)
FILTER_TESTS = ("tests/table/test_filtered_reads.py",)
IDENTITY_TESTS = ("tests/table/test_split_identity.py",)
SHARED_TESTS = ("tests/table/test_opened_once.py",)
CHECK_FILE_TESTS = ("tests/table/test_check_files.py",)
SWAPPED_TESTS = ("tests/state/test_swapped_files.py",)
DAMAGE_TESTS = ("tests/table/test_damage.py",)
LIFE_TESTS = ("tests/life/test_life.py::test_a_table_shows_the_rows_of_each_version_whatever_was_done_to_it",)


BUGS = [
    Bug(
        "the offset of a stream is one file too far",
        TABLE + "read/tail.py",
        "return Place(version, first + taken, place.is_starting_version)",
        "return Place(version, first + taken + 1, place.is_starting_version)",
        TAIL_TESTS,
    ),
    Bug(
        "a batch that begins within a version is counted from the version's first file",
        TABLE + "read/tail.py",
        "return Place(version, first + taken, place.is_starting_version)",
        "return Place(version, taken, place.is_starting_version)",
        TAIL_TESTS,
    ),
    Bug(
        "the version in which a batch ends is read whole",
        TABLE + "read/tail.py",
        "pieces.append(Piece(end.version, 0, end.index, is_snapshot=False))",
        "pieces.append(Piece(end.version, 0, None, is_snapshot=False))",
        TAIL_TESTS,
    ),
    Bug(
        "the version of the first snapshot comes again as a change",
        TABLE + "read/tail.py",
        "            first += 1\n",
        "",
        TAIL_TESTS,
    ),
    Bug(
        "a stream passes over removed rows unasked",
        TABLE + "read/tail.py",
        "            if self._skip:\n",
        "            if content.removes.num_rows:\n",
        TAIL_TESTS,
    ),
    Bug(
        "a stream goes on in another table of the same place",
        TABLE + "read/tail.py",
        "    if wire.tableId != table_id:\n",
        "    if not wire.tableId:\n",
        TAIL_TESTS,
    ),
    Bug(
        "the first batch of a stream begins where the table is when it is planned",
        TABLE + "read/tail.py",
        "    if not start.is_starting_version or start.index or not (end.is_starting_version or end.version):\n",
        "    if start.version <= end.version or start.version > end.version:\n",
        STREAM_TESTS,
    ),
    Bug(
        "the first batch of a stream that begins at the latest version has rows",
        SPARK + "source/stream_read.py",
        "            if self._begins_at_latest():\n                return start\n",
        "",
        STREAM_TESTS,
    ),
    Bug(
        "a batch that a sink repeats is written again",
        SPARK + "source/stream_write.py",
        "first.writer.as_batch(first.query, batchId).commit(",
        "first.writer.commit(",
        STREAM_TESTS,
    ),
    Bug(
        "an abort deletes files that may be committed",
        SPARK + "source/writer.py",
        "        if any(message is None for message in messages):\n            answers",
        "        if messages:\n            answers",
        STREAM_TESTS,
    ),
    Bug(
        "the files of every attempt are committed",
        TABLE + "writing/answers.py",
        "adds = [add for partition in sorted(chosen) for add in chosen[partition].adds]",
        "adds = [add for answer in answers if answer is not None for add in answer.adds]",
        ANSWER_TESTS,
    ),
    Bug(
        "a task that has not answered is not missed",
        TABLE + "writing/answers.py",
        "    if sorted(chosen) != list(range(len(chosen))):\n",
        "    if not chosen and answers:\n",
        ANSWER_TESTS,
    ),
    Bug(
        "a file whose bound is the value itself is left out",
        QUERY + "prune.py",
        'below, above = compare("<=", lower, value), compare(">=", upper, value)',
        'below, above = compare("<", lower, value), compare(">=", upper, value)',
        PRUNE_TESTS,
    ),
    Bug(
        "a file whose bounds are not known is left out",
        QUERY + "prune.py",
        "return pc.fill_null(values, unknown).to_numpy",
        "return pc.fill_null(values, False).to_numpy",
        PRUNE_TESTS,
    ),
    Bug(
        "a file with a single null is left out",
        QUERY + "prune.py",
        "some = _mask(pc.not_equal(counts, 0))",
        "some = _mask(pc.greater(counts, 1))",
        PRUNE_TESTS,
    ),
    Bug(
        "the first deleted row of a split stays",
        SPLIT + "file/dv.py",
        "        mask[rows] = False\n",
        "        mask[rows[1:]] = False\n",
        VECTOR_TESTS,
    ),
    Bug(
        "vectors count from the start of each row group",
        SPLIT + "file/scanning.py",
        "alive[group.start : group.start + group.num_rows]",
        "alive[: group.num_rows]",
        READER_TESTS,
    ),
    Bug(
        "pages of hits are one off",
        SPLIT + "search/searcher.py",
        "hits.take(np.arange(min(offset, end), end))",
        "hits.take(np.arange(min(offset + 1, end), end))",
        SEARCH_TESTS,
    ),
    Bug(
        "rows of hits come in the order of their splits",
        SPLIT + "search/searcher.py",
        "            table = _reordered(table, back)\n",
        "",
        SEARCH_TESTS,
    ),
    Bug(
        "a remove with wrong partition values takes nothing away",
        LOG + "care/advance.py",
        "        found = pa.concat_tables([found, _entries_of(env, ref, base, others, paths)])\n",
        "        del others\n",
        ADVANCE_TESTS,
    ),
    Bug(
        "entries under a tombstone count as there",
        LOG + "care/advance.py",
        "tables.append(wanted.filter(bool_array(~hidden)) if hidden.any() else wanted)",
        "tables.append(wanted)",
        ADVANCE_TESTS,
    ),
    Bug(
        "a plan in parts takes the files as they lie in manifests",
        TABLE + "read/plan.py",
        "return found if order is None else found.take(order)",
        "return found",
        PLANNED_TESTS,
    ),
    Bug(
        "entries that are read for a plan are kept, however many there are",
        TABLE + "read/plan.py",
        "most = env.options[opt.STATE_FILES_IN_MEMORY] // _PLANNED_AT_ONCE",
        "most = env.options[opt.STATE_FILES_IN_MEMORY]",
        PLANNED_TESTS,
    ),
    Bug(
        "the files that a filter left are taken for the whole table",
        LOG + "checkpoint/avro/read.py",
        "    return PrunedState(**header_fields(state), files=files, num_entries=state.num_entries)",
        "    return TableState(**header_fields(state), files=files)",
        FILTER_TESTS,
    ),
    Bug(
        "the files that a filter left are taken for the whole table, and lives go on",
        LOG + "checkpoint/avro/read.py",
        "    return PrunedState(**header_fields(state), files=files, num_entries=state.num_entries)",
        "    return TableState(**header_fields(state), files=files)",
        LIFE_TESTS,
    ),
    Bug(
        "a log is cut below a gap",
        LOG + "care/retention.py",
        "        if ref.version + 1 < whole_from:\n",
        "        if ref.version > head:\n",
        CLEANUP_TESTS,
    ),
    Bug(
        "a log is cut at a checkpoint without tokens",
        LOG + "care/retention.py",
        "if fact is None or not fact.has_tokens or",
        "if fact is None or",
        CLEANUP_TESTS,
    ),
    Bug(
        "nobody asks a split who it is",
        SPLIT + "file/layout.py",
        "    if logged is not None and found != logged:\n",
        "    if logged is None and found == logged:\n",
        IDENTITY_TESTS,
    ),
    Bug(
        "a search does not ask the directory whose it is",
        SPLIT + "index/cache.py",
        '        layout.check_id(directory.id, ref.id, ref.key, "index")\n',
        "",
        IDENTITY_TESTS,
    ),
    Bug(
        "pages of another file are taken for a split's",
        SPLIT + "file/fetch.py",
        "        if crc32c(data) != said:\n",
        "        if crc32c(data) < 0:\n",
        IDENTITY_TESTS,
    ),
    Bug(
        "a version whose bytes changed under its token is read",
        LOG + "read/checked.py",
        "    check_bytes(told, newest, actual)\n",
        "    check_bytes(None, newest, actual)\n",
        CHECK_FILE_TESTS,
    ),
    Bug(
        "a table that has other files than the check file of its newest version is read",
        LOG + "read/checked.py",
        "    if not reason:\n",
        "    if reason is not None:\n",
        SWAPPED_TESTS,
    ),
    Bug(
        "a version file in the place of a checkpoint is believed",
        LOG + "checkpoint/read.py",
        "        if parsed.protocol is not None and has_own_splits(parsed.protocol):\n",
        "        if parsed.protocol is None:\n",
        SWAPPED_TESTS,
    ),
    Bug(
        "a handle acts on the table that took the place of its own",
        "indextables/embedded/handle.py",
        "        self._log = log.of_table(snapshot.table_id)\n",
        "        self._log = log.of_table(None)\n",
        ("tests/table/test_replaced_table.py",),
    ),
    Bug(
        "a checkpoint is published whatever the check file says",
        LOG + "care/schedule.py",
        "    if said != (counted.num_files, counted.total_bytes, counted.set_hash):\n",
        "    if said is None:\n",
        CHECK_FILE_TESTS,
    ),
    Bug(
        "an edited checkpoint is read",
        LOG + "checkpoint/seal.py",
        "    if marks and not any(_fits(data, start, end) for start, end in reversed(marks)):\n",
        "    if not marks and any(_fits(data, start, end) for start, end in reversed(marks)):\n",
        DAMAGE_TESTS,
    ),
    Bug(
        "a small index is not asked whose it is",
        SPLIT + "index/small.py",
        '    layout.check_id(directory.id, ref.id, ref.key, "index")\n',
        "",
        IDENTITY_TESTS,
    ),
    Bug(
        "a version sees the rows that it deleted in a split that others have opened",
        SPLIT + "search/state.py",
        "            if ref.vector is None:\n                return known\n",
        "            if True:\n                return known\n",
        SEARCH_TESTS,
    ),
    Bug(
        "splits are shared whosoever they are",
        SPLIT + "search/searcher.py",
        "memory.states.load(memory.scope, env.store",
        "memory.states.load(None, env.store",
        SEARCH_TESTS,
    ),
    Bug(
        "handles share whatever options they have",
        TABLE + "read/shared.py",
        "        options = tuple(sorted((name, env.options[name]) for name in env.options))\n",
        "        options = ()\n",
        SHARED_TESTS,
    ),
    Bug(
        "stores are one whatever the credentials",
        "indextables/storage/object.py",
        "        return self.url, self._credentials\n",
        "        return self.url\n",
        SHARED_TESTS,
    ),
    Bug(
        "versions share a searcher",
        TABLE + "read/shared.py",
        "        key = (place, snapshot.table_id, snapshot.history, snapshot.version)\n",
        "        key = (place, snapshot.table_id, snapshot.history)\n",
        SHARED_TESTS,
    ),
    Bug(
        "segments of a shelf are named by their split alone",
        SPLIT + "search/opened.py",
        '    places = [f"{part} {source}" for part, source in sorted(files.items()) if isinstance(source, Path)]\n',
        "    places: list[str] = []\n",
        ("tests/split/test_virtual.py", "tests/split/test_shelf.py", *SEARCH_TESTS),
    ),
    Bug(
        "a search filters below a limit",
        "indextables/sql/tracing.py",
        "            keeps_all=traced.keeps_all and not shared and not chooses,\n",
        "            keeps_all=True,\n",
        ("tests/sql/test_references.py",),
    ),
    Bug(
        "a search is about rows that a GROUP BY made",
        "indextables/sql/tracing.py",
        "        if blocked is not None:\n            return Stop(blocked)\n",
        "",
        ("tests/sql/test_rewrite.py",),
    ),
    Bug(
        "a SELECT with an OFFSET, or that sorts its rows, is answered by any of them",
        "indextables/sql/spark/answers.py",
        "    if any(value for key, value in select.args.items() if key not in known):\n        return None\n",
        "",
        ("tests/sql/test_answers.py",),
    ),
    Bug(
        "a sum that does not fit is answered all the same",
        "indextables/sql/spark/answers.py",
        "    return largest * len(numbers) < _MOST_SUM\n",
        "    return True\n",
        ("tests/sql/test_answers.py",),
    ),
]
