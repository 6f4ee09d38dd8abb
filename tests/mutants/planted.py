# ruff: noqa: E501 - a planted bug is a piece of the source, on one line
"""The planted bugs. `old` must occur in the file exactly once: a list that has lost touch with the code fails."""

from __future__ import annotations

from typing import NamedTuple

LOG = "indextables/log/"
COMMIT = LOG + "commit.py"
CONFLICT = LOG + "conflict.py"
TRANSACTION = LOG + "transaction.py"
REPLAY = LOG + "replay.py"

COMMIT_TESTS = ("tests/log/test_commit.py",)
CONFLICT_TESTS = ("tests/log/test_conflict.py",)
TRANSACTION_TESTS = ("tests/log/test_transaction.py",)
REPLAY_TESTS = ("tests/log/test_replay.py",)
SIMULATION = ("tests/mutants/some_schedules.py",)


TABLE = "indextables/table/"
EVOLUTION_TESTS = ("tests/table/test_evolution.py",)
PURGE_TESTS = ("tests/table/test_purge.py",)
INCIDENT_TESTS = ("tests/table/test_purge_incidents.py",)
OPERATE_TESTS = ("tests/table/test_operate.py",)
INTENT_TESTS = ("tests/log/test_intents.py",)
PLAN_TESTS = ("tests/table/test_merge_plan.py",)
MEANWHILE_TESTS = ("tests/table/test_merge_meanwhile.py",)
MERGE_TESTS = ("tests/table/test_merge_splits.py",)
SKIP_TESTS = ("tests/table/test_skips.py",)
ON_WRITE_TESTS = ("tests/table/test_merge_on_write.py",)
MERGE_SIMULATION = ("tests/mutants/some_merges.py",)
CARE_SIMULATION = ("tests/mutants/some_care.py",)
TAIL_TESTS = ("tests/table/test_tail.py",)


class Bug(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


BUGS = [
    Bug(
        "a refused put is a conflict, no token is compared",
        COMMIT,
        'return Slot("ours") if held.token == token else Slot("other", held)',
        'return Slot("other", held)',
        COMMIT_TESTS,
    ),
    Bug(
        "a put without an answer is taken for a success",
        COMMIT,
        "if answer is PutAnswer.CREATED:",
        "if answer is not PutAnswer.REFUSED:",
        COMMIT_TESTS,
    ),
    Bug(
        "an empty slot after a put is taken for a success",
        COMMIT,
        '            if tokens.survey(env, version).newest is not None:\n                return Slot("covered")',
        '            return Slot("ours")',
        COMMIT_TESTS,
    ),
    Bug(
        "a win is not checked against checkpoints",
        COMMIT,
        "if seen.newest is not None and seen.newest.version >= slot:\n            return self._resolve(slot, encoded)",
        "if False:\n            return self._resolve(slot, encoded)",
        COMMIT_TESTS,
    ),
    Bug(
        "the boundary is off by one",
        COMMIT,
        "seen.newest.version >= slot:",
        "seen.newest.version > slot:",
        SIMULATION,
    ),
    Bug(
        "a slot below a checkpoint is always retried",
        COMMIT,
        "        if window.token_at(slot) == self.token:\n            return self._landed(slot, encoded, None)\n",
        "",
        COMMIT_TESTS,
    ),
    Bug(
        "a lost slot is retried although the checkpoint lists our token",
        COMMIT,
        "            if window.token_at(slot) == self.token:\n                return Committed(",
        "            if window.token_at(slot) == 'nobody':\n                return Committed(",
        COMMIT_TESTS,
    ),
    Bug(
        "below the token window the commit is said to be lost",
        COMMIT,
        '        if window is None or not window.covers(slot):\n            return Unknown(self.token, slot, f"the '
        'checkpoint of version {ref.version} does not tell its token")\n        if window.token_at(slot) == self.token:\n'
        "            return self._landed",
        "        if window is None or not window.covers(slot):\n            return self._reload()\n"
        "        if window.token_at(slot) == self.token:\n            return self._landed",
        COMMIT_TESTS,
    ),
    Bug(
        "winners below a checkpoint are believed",
        COMMIT,
        "                window.covers(content.version) and window.token_at(content.version) == content.token\n",
        "                True\n",
        COMMIT_TESTS,
    ),
    Bug(
        "the file below the slot is not compared",
        COMMIT,
        "tokens.identity_of(self.env, slot - 1) == base.identity:",
        "True:",
        COMMIT_TESTS,
    ),
    Bug(
        "an unreadable log after a put is an error that promises failure",
        COMMIT,
        "            if self.pending is None:\n                raise\n",
        "            raise\n",
        COMMIT_TESTS,
    ),
    Bug(
        "doubt after a put becomes a store error",
        COMMIT,
        "        raise Undecided(slot, str(error)) from error\n\n\ndef _read_slot",
        "        raise\n\n\ndef _read_slot",
        COMMIT_TESTS,
    ),
    Bug(
        "a refusal after an unanswered put counts as proof",
        COMMIT,
        "            if fault == 0:\n                raise\n            raise Undecided(version, str(error)) from error",
        "            raise",
        COMMIT_TESTS,
    ),
    Bug(
        "versions that beat us are not verified",
        COMMIT,
        "        if not self._base_is_unchanged(identity):\n",
        "        if not self:\n",
        COMMIT_TESTS,
    ),
    Bug(
        "a table of another id is written to",
        COMMIT,
        "if theirs - {None, self.base.metadata.id}:",
        "if theirs - theirs:",
        COMMIT_TESTS,
    ),
    Bug(
        "a dropped table is committed to",
        COMMIT,
        "            self._withdraw(slot)\n            raise _Refused(lost_ground(self.log, base))\n        return",
        "            pass\n        return",
        COMMIT_TESTS,
    ),
    Bug(
        "appends give up",
        COMMIT,
        "if self.work.is_blind_append and not options.given(opt.TRANSACTION_RETRY_MAX_ATTEMPTS):",
        "if not self.work:",
        COMMIT_TESTS,
    ),
    Bug(
        "nobody checks the clock",
        COMMIT,
        "if abs(skew) > allowed:",
        "if skew > allowed:",
        COMMIT_TESTS,
    ),
    Bug(
        "the protocol is not checked again when it rose meanwhile",
        CONFLICT,
        "if theirs.protocol is not None and theirs.protocol != ours.base_protocol:",
        "if theirs.protocol is not None and theirs.protocol == ours.base_protocol:",
        CONFLICT_TESTS,
    ),
    Bug(
        "every change of metadata is merged",
        CONFLICT,
        "if merge_registry(ours.base_metadata, changed) == changed:",
        "if ours.base_metadata.id == changed.id:",
        CONFLICT_TESTS,
    ),
    Bug(
        "a batch is repeated if a later one is there",
        CONFLICT,
        "held.get(txn.appId, -1) >= txn.version",
        "held.get(txn.appId, -1) == txn.version",
        CONFLICT_TESTS,
    ),
    Bug(
        "two removes of one file both commit",
        CONFLICT,
        "    lost = _overlap(ours.removed, theirs.removes)\n",
        "    lost: list[str] = []\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "deletes of files that were read do not matter",
        CONFLICT,
        "if path not in unite]\n    if gone:",
        "if path not in unite]\n    if not gone and gone:",
        CONFLICT_TESTS,
    ),
    Bug(
        "appends are never phantoms",
        CONFLICT,
        "    if blind and not ours.serializable:\n",
        "    if blind:\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "a merge ignores what was deleted from its sources",
        CONFLICT,
        "    touched = _overlap(ours.removed, theirs.removes)\n",
        "    touched = _overlap(ours.added, theirs.removes)\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "two overwrites both commit",
        CONFLICT,
        "    if in_range:\n",
        "    if not in_range:\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "an overwrite keeps the removes of its first version",
        TRANSACTION,
        "if self._bound is None or self._bound[0] != base.version:",
        "if self._bound is None:",
        TRANSACTION_TESTS + SIMULATION,
    ),
    Bug(
        "in-commit time follows the clock back",
        TRANSACTION,
        "inCommitTimestamp=now_ms if before is None else max(now_ms, before + 1),",
        "inCommitTimestamp=now_ms,",
        COMMIT_TESTS,
    ),
    Bug(
        "a batch that the table holds is written again",
        TRANSACTION,
        "            if held is not None and held.version >= txn.version:",
        "            if held is not None and held.version > txn.version:",
        COMMIT_TESTS,
    ),
    Bug(
        "a reader believes a slot that was emptied and refilled",
        LOG + "confirm.py",
        "    if not contents or (base is not None and env.store.exists(base.keys[0])):\n        return\n",
        "    return\n",
        ("tests/log/test_confirm.py",),
    ),
    Bug(
        "the newest checkpoint is looked for above the slot only",
        LOG + "tokens.py",
        "    floor = max(version, 0)\n",
        "    floor = max(version, 0) + 1\n",
        SIMULATION + COMMIT_TESTS,
    ),
    Bug(
        "replay lets a remove hit a later add",
        REPLAY,
        "(added_at[entry] < removed_at[known]) & ",
        "",
        REPLAY_TESTS,
    ),
    Bug(
        "replay removes whatever the vector is",
        REPLAY,
        " & (vectors[:count][entry] == vectors[count:][known])",
        "",
        REPLAY_TESTS,
    ),
    Bug(
        "replay skips over a gap",
        REPLAY,
        "        if content.version != expected:\n",
        "        if content.version < expected:\n",
        REPLAY_TESTS,
    ),
    Bug(
        "a merge takes files over one that is not merged",
        TABLE + "merge_plan.py",
        " | ~takes_part | ~np.r_[False, takes_part[:-1]]",
        "",
        PLAN_TESTS,
    ),
    Bug(
        "a merge mixes partitions",
        TABLE + "merge_plan.py",
        "ends_before = np.r_[True, codes[1:] != codes[:-1]] | ~takes_part",
        "ends_before = np.r_[True, codes[1:] < 0] | ~takes_part",
        PLAN_TESTS,
    ),
    Bug(
        "files in their cooldown are merged",
        TABLE + "merge_plan.py",
        "takes_part = (sizes < below) & ~left_alone & ",
        "takes_part = (sizes < below) & ",
        PLAN_TESTS,
    ),
    Bug(
        "a group may be one byte too large",
        TABLE + "merge_plan.py",
        'before + limits.target_bytes, side="right"',
        'before + limits.target_bytes + 1, side="right"',
        PLAN_TESTS,
    ),
    Bug(
        "a merged file goes to the end of the table",
        TABLE + "merge_work.py",
        "tags={**kept, **position_tag(version, line, part + beyond), **full},",
        "tags={**kept, **full},",
        MERGE_TESTS,
    ),
    Bug(
        "places are not read",
        TABLE + "order.py",
        "line, version))\n",
        "line * 0, version * 0))\n",
        PLAN_TESTS,
    ),
    Bug(
        "a merge commits whatever vectors its sources have by now",
        TABLE + "merge_commit.py",
        "if all(source.vector == vectors[source.path] for source in group.sources):",
        "if all(source.path in vectors for source in group.sources):",
        MEANWHILE_TESTS,
    ),
    Bug(
        "a merge commits sources that are gone",
        TABLE + "merge_commit.py",
        "        if any(source.path not in vectors for source in group.sources):\n            continue\n",
        "        vectors = {source.path: source.vector for source in group.sources} | vectors\n",
        MEANWHILE_TESTS,
    ),
    Bug(
        "vectors move by row number, not by rank among live rows",
        TABLE + "merge_vectors.py",
        "deleted.append(np.flatnonzero(~is_live[was_live]) + written)",
        "deleted.append(np.flatnonzero(~is_live & was_live) + written)",
        MEANWHILE_TESTS,
    ),
    Bug(
        "rows that came back are lost in a merge",
        TABLE + "merge_vectors.py",
        "        if (is_live & ~was_live).any():\n            return None\n",
        "",
        MEANWHILE_TESTS,
    ),
    Bug(
        "sorted groups take vectors over",
        TABLE + "merge_commit.py",
        "adds = None if group.is_sorted else _with_vectors(env, group, vectors)",
        "adds = _with_vectors(env, group, vectors)",
        MEANWHILE_TESTS,
    ),
    Bug(
        "groups that a winner touched are committed all the same",
        TABLE + "merge_commit.py",
        "if not touched.intersection(source.path for source in found.moved.sources)",
        "if found.moved.sources or touched",
        MERGE_SIMULATION,
    ),
    Bug(
        "the files of a merge are not protected from purge",
        TABLE + "merge_splits.py",
        "since_ms=store_now_ms(env), ttl_ms",
        "ttl_ms",
        MERGE_SIMULATION,
    ),
    Bug(
        "rows are merged around a source that broke",
        TABLE + "merge_unit.py",
        "rest: list[SplitRef | None] = [None if ref.key in bad else ref for ref in run]",
        "rest: list[SplitRef | None] = [ref for ref in run if ref.key not in bad]",
        SKIP_TESTS,
    ),
    Bug(
        "every skip is the first",
        TABLE + "skips.py",
        "skipCount=1 if before is None else before.skipCount + 1,",
        "skipCount=1,",
        SKIP_TESTS,
    ),
    Bug(
        "cleared skips stay",
        REPLAY,
        "        if skip.skipCount:\n",
        "        if skip.path:\n",
        SKIP_TESTS,
    ),
    Bug(
        "a split that memory closed is merged again for ever",
        TABLE + "merge_work.py",
        "full = full_tag(merging.limits.memory_bytes) if number + 1 < len(piece.adds) else {}",
        "full = {}",
        MERGE_TESTS,
    ),
    Bug(
        "two processes merge unasked",
        TABLE + "upkeep.py",
        "    if lease is None:\n        return []\n",
        "",
        ON_WRITE_TESTS,
    ),
    Bug(
        "a failing merge fails the write",
        TABLE + "upkeep.py",
        '    except IndexTablesError as error:\n        _LOGGER.warning("small splits',
        '    except KeyError as error:\n        _LOGGER.warning("small splits',
        ON_WRITE_TESTS,
    ),
    Bug(
        "purge takes files that older versions need",
        TABLE + "purge.py",
        "        data = _decided(found, _claims_of(told, held), asked)\n",
        "",
        PURGE_TESTS,
    ),
    Bug(
        "purge takes young files",
        TABLE + "purge_plan.py",
        '    keep("young", pc.greater_equal(_times(left), oldest))\n',
        "",
        PURGE_TESTS,
    ),
    Bug(
        "purge takes files of a table inside the table",
        TABLE + "purge_plan.py",
        "    for root in nested:\n",
        "    for root in ():\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge takes whatever ends like a split",
        TABLE + "purge_plan.py",
        'rf"^{folder_pattern(partition_columns)}splits/split-[0-9a-f]{{32}}\\.split$"',
        'r"^.*\\.split$"',
        PURGE_TESTS,
    ),
    Bug(
        "purge takes what was removed a moment ago",
        TABLE + "purge_plan.py",
        '    keep("removed lately", pc.is_in(left["path"], value_set=lately))\n',
        "",
        PURGE_TESTS,
    ),
    Bug(
        "purge forgets that the history was truncated",
        TABLE + "purge_plan.py",
        "    if claims.truncated_ms is not None and",
        "    if False and",
        PURGE_TESTS,
    ),
    Bug(
        "a head that was remembered long ago serves every commit",
        TRANSACTION,
        " and self._may_follow(known):",
        ":",
        ("tests/table/test_lasting_handles.py",),
    ),
    Bug(
        "an intent that was renewed late is deleted",
        TABLE + "purge.py",
        "        over = [key for key in held.expired if key in still]\n",
        "        over = list(held.expired)\n",
        PURGE_TESTS,
    ),
    Bug(
        "a drop of partitions takes what it saw first, not what is there",
        TABLE + "drop_partitions.py",
        "taken[:] = [_inside(head, predicate)]",
        "taken[:] = [chosen]",
        OPERATE_TESTS,
    ),
    Bug(
        "a drop of partitions does not notice another partitioning",
        TABLE + "drop_partitions.py",
        "        written_for=snapshot.metadata,\n",
        "",
        OPERATE_TESTS,
    ),
    Bug(
        "truncate takes what its plan did not name",
        TABLE + "truncate.py",
        "_restricted(plan_cleanup(env, _rules(env)), foreseen)",
        "plan_cleanup(env, _rules(env))",
        OPERATE_TESTS,
    ),
    Bug(
        "files that share a place have no order among themselves",
        TABLE + "merge_work.py",
        "position_tag(version, line, part + beyond)",
        "position_tag(version, line, part)",
        ("tests/table/test_clustering.py",),
    ),
    Bug(
        "a restore does not notice that its lease is over",
        TABLE + "restore.py",
        "    if not lease.is_held():\n",
        "    if False:\n",
        OPERATE_TESTS,
    ),
    Bug(
        "a restore holds another lease than purges",
        TABLE + "restore.py",
        "    lease = acquire(log.env, LEASE)\n",
        '    lease = acquire(log.env, "restore")\n',
        OPERATE_TESTS,
    ),
    Bug(
        "a restore that looks for long lets its lease end",
        TABLE + "restore.py",
        "    lease.renew()\n",
        "",
        OPERATE_TESTS,
    ),
    Bug(
        "a vector that arrives while its split is merged is dropped",
        TABLE + "merge_commit.py",
        "    if not len(rows):\n        return add\n    payload",
        "    return add\n    payload",
        MEANWHILE_TESTS,
    ),
    Bug(
        "merged rows are new rows",
        TABLE + "merge_work.py",
        "                    dataChange=False,\n",
        "                    dataChange=True,\n",
        TAIL_TESTS,
    ),
    Bug(
        "reindexed rows are new rows",
        TABLE + "reindex.py",
        "                dataChange=False,\n",
        "                dataChange=True,\n",
        TAIL_TESTS,
    ),
    Bug(
        "purge takes any age for safe",
        TABLE + "purge.py",
        "if judged is not None and judged < floor and not force and",
        "if judged is not None and judged < 0 and not force and",
        PURGE_TESTS,
    ),
    Bug(
        "purge keeps data files for an hour, whatever was asked for",
        TABLE + "purge.py",
        "return _Asked(round(hours * _HOUR_MS), rules, now_ms)",
        "return _Asked(_HOUR_MS, rules, now_ms)",
        PURGE_TESTS,
    ),
    Bug(
        "purge sees nothing behind a long log",
        TABLE + "purge_listing.py",
        "                after = LOG_END\n                break\n",
        "                return\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge goes on when somebody else has its lease",
        TABLE + "purge.py",
        '    if not lease.is_held():\n        return "somebody else',
        '    if False:\n        return "somebody else',
        CARE_SIMULATION,
    ),
    Bug(
        "purge ignores the intents of readers",
        TABLE + "purge.py",
        '    return _unknown_reader(held, plan.oldest) or ""\n',
        '    return ""\n',
        PURGE_TESTS + CARE_SIMULATION,
    ),
    Bug(
        "purge reads no further than the newest checkpoint",
        TABLE + "reachable.py",
        "    columns += [data_keys(files, log.url) for files in bases.values()]\n",
        "",
        PURGE_TESTS + INCIDENT_TESTS,
    ),
    Bug(
        "purge ignores the intents of writers",
        TABLE + "purge_plan.py",
        "    if claims.since_ms is not None:\n",
        "    if False:\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge does not look at the log again before it deletes",
        TABLE + "purge.py",
        "        head, more = named_since(log, head)\n",
        "        more = text_array([])\n",
        INCIDENT_TESTS,
    ),
    Bug(
        "purge deletes data although the log could not be cut",
        TABLE + "purge.py",
        "    if cleaned.failed:\n",
        "    if False:\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge counts failed deletes as done",
        TABLE + "purge.py",
        "done.append(_without(batch, text_array([*lost, *late])) if lost or late else batch)",
        "done.append(batch)",
        PURGE_TESTS,
    ),
    Bug(
        "purge trusts this machine's clock",
        TABLE + "purge.py",
        "    if abs(told - now_ms) > env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:\n",
        "    if False:\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge compares keys with escaped paths",
        TABLE + "purge_plan.py",
        '    escaped = pc.match_substring(column, "%")\n',
        '    escaped = pc.match_substring(column, "\\x00")\n',
        PURGE_TESTS,
    ),
    Bug(
        "purge does not see deletion vectors",
        TABLE + "reachable.py",
        "    if vectors.null_count == len(vectors):\n        return keys\n    held",
        "    return keys\n    held",
        PURGE_TESTS,
    ),
    Bug(
        "cleanup ignores readers",
        LOG + "state/retention.py",
        "        if rules.keep_from is not None and ref.version > rules.keep_from:\n",
        "        if False:\n",
        ("tests/state/test_cleanup.py",),
    ),
    Bug(
        "an intent ends by this machine's clock",
        LOG + "intents.py",
        "if now_ms - meta.modified_ms > ttl_ms + _GRAIN_MS or (isinstance(intent, Intent) and intent.released):",
        "if now_ms > ttl_ms + _GRAIN_MS:",
        INTENT_TESTS,
    ),
    Bug(
        "a lease is taken from a live holder",
        LOG + "intents.py",
        "    if newest and not _is_over(env, numbers[newest]):\n        return None\n",
        "",
        INTENT_TESTS,
    ),
    Bug(
        "a stalled process gets a lease under a number that was tidied up",
        LOG + "intents.py",
        "        return None\n    _forget(env, [numbers[number].key for number in numbers])\n",
        "        pass\n    _forget(env, [numbers[number].key for number in numbers])\n",
        INTENT_TESTS,
    ),
    Bug(
        "a restore brings back files that are gone",
        TABLE + "restore.py",
        "    _check_there(log, then.version, comes, lease, runner)\n",
        "",
        OPERATE_TESTS,
    ),
    Bug(
        "a restored file loses its place among the rows",
        TABLE + "restore.py",
        '"tags", _placed(combined(files["tags"]), places))',
        '"tags", combined(files["tags"]))',
        OPERATE_TESTS,
    ),
    Bug(
        "a restore runs beside a purge",
        TABLE + "restore.py",
        "    if lease is None:\n",
        "    if False:\n",
        OPERATE_TESTS,
    ),
    Bug(
        "a writer that slept commits files that are gone",
        TABLE + "append.py",
        "    check_still_there(log.env, metadata, adds)\n",
        "",
        INCIDENT_TESTS,
    ),
    Bug(
        "files of an older schema are committed under a newer one",
        TRANSACTION,
        '            return Conflicted("metadata", reason, base.version, self.token)\n',
        "            return None\n",
        EVOLUTION_TESTS,
    ),
    Bug(
        "a new index plan takes back properties that changed meanwhile",
        TRANSACTION,
        "            self._stage(metadata=conflict.merge_registry(now, self._staged.metadata))\n",
        "            pass\n",
        EVOLUTION_TESTS,
    ),
    Bug(
        "a new column must not be null although old rows lack it",
        TABLE + "evolve.py",
        "*(field.with_nullable(True) for field in plain)",
        "*plain",
        EVOLUTION_TESTS,
    ),
    Bug(
        "the id of a dropped column is given to another",
        TABLE + "evolve.py",
        "    start = _highest_ever(metadata) + 1\n",
        "    start = highest_id(schema_from_json(metadata.schemaString)) + 1\n",
        EVOLUTION_TESTS,
    ),
    Bug(
        "a partition column widens although its texts mean other numbers",
        TABLE + "evolve.py",
        " and field.name in metadata.partitionColumns and pa.types.is_floating(kind):",
        " and field.name in metadata.partitionColumns and False:",
        EVOLUTION_TESTS,
    ),
    Bug(
        "a dynamic overwrite replaces partitions that the rows are not in",
        TABLE + "replaced.py",
        "        return np.isin(rows, given) & found & ~unknown, unknown\n",
        "        return np.isin(rows, given) & ~unknown, unknown\n",
        EVOLUTION_TESTS,
    ),
    Bug(
        "an overwrite repeats a batch that the table holds",
        TABLE + "append.py",
        "    if txn is not None:\n        transaction.set_txn(*txn)\n",
        "",
        EVOLUTION_TESTS,
    ),
]
