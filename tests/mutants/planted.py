# ruff: noqa: E501 - a planted bug is a piece of the source, on one line
"""The planted bugs. `old` must occur in the file exactly once: a list that has lost touch with the code fails."""

from __future__ import annotations

from typing import NamedTuple

LOG = "indextables/log/"
COMMIT = LOG + "commit/rule.py"
CONFLICT = LOG + "commit/conflict.py"
TRANSACTION = LOG + "commit/transaction.py"
REPLAY = LOG + "read/folding.py"

COMMIT_TESTS = ("tests/log/test_commit.py",)
OVERTAKEN_TESTS = ("tests/log/test_overtaken.py",)
HEAD_TESTS = ("tests/log/test_heads.py",)
CLEANUP_TESTS = ("tests/state/test_cleanup.py",)
STALL_TESTS = ("tests/table/test_stalled_cleanup.py",)
LEFT_OVER_TESTS = ("tests/state/test_left_over.py",)
STRANGE_TESTS = ("tests/state/test_strange_checkpoint.py",)
OWN_GONE_TESTS = ("tests/table/test_own_version_gone.py",)
REPLACED_TESTS = ("tests/table/test_replaced_table.py",)
GROUND_TESTS = ("tests/log/test_lost_ground.py",)
CONFLICT_TESTS = ("tests/log/test_conflict.py",)
OVERLAP_TESTS = ("tests/table/test_overlapping_overwrites.py",)
TRANSACTION_TESTS = ("tests/log/test_transaction.py",)
REPLAY_TESTS = ("tests/log/test_replay.py",)
SIMULATION = ("tests/mutants/some_schedules.py",)


TABLE = "indextables/table/"
EVOLUTION_TESTS = ("tests/table/test_evolution.py",)
FIELD_ID_TESTS = ("tests/table/test_field_ids.py",)
PURGE_TESTS = ("tests/table/test_purge.py",)
DOOR_TESTS = ("tests/table/test_doors.py",)
KEPT_TESTS = ("tests/table/test_kept_files.py",)
INCIDENT_TESTS = ("tests/table/test_purge_incidents.py",)
OPERATE_TESTS = ("tests/table/test_operate.py",)
INTENT_TESTS = ("tests/log/test_intents.py",)
PLAN_TESTS = ("tests/table/test_merge_plan.py",)
MEANWHILE_TESTS = ("tests/table/test_merge_meanwhile.py",)
MERGE_TESTS = ("tests/table/test_merge_splits.py",)
SKIP_TESTS = ("tests/table/test_skips.py",)
ON_WRITE_TESTS = ("tests/table/test_merge_on_write.py",)
TIER_TESTS = ("tests/table/test_tiers.py",)
UPKEEP_TESTS = ("tests/table/test_upkeep.py",)
MERGE_SIMULATION = ("tests/mutants/some_merges.py",)
CARE_SIMULATION = ("tests/mutants/some_care.py",)
HAUNTED_SIMULATION = ("tests/mutants/some_haunted.py",)
MISHAP_SIMULATION = ("tests/mutants/some_mishaps.py",)
SHARING_SIMULATION = ("tests/mutants/some_sharing.py",)
SHARING_TESTS = ("tests/log/test_sharing.py",)
SCHEDULE_TESTS = ("tests/state/test_schedule.py",)
TAIL_TESTS = ("tests/table/test_tail.py",)


class Bug(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


HISTORY = "tests/table/test_replaced_history.py::"

BUGS = [
    Bug(
        "a batch counts as written because the process remembers it, whatever log is there now",
        TRANSACTION,
        "        newest = head.load(self.log, with_txns=True)\n",
        "        newest = base\n",
        (HISTORY + "test_a_batch_that_is_acknowledged_is_in_the_log_that_is_there",),
    ),
    Bug(
        "a version that was written and is above the newest one never was",
        LOG + "read/log.py",
        "        except VersionNotFound:\n            found = None\n",
        "        except VersionNotFound:\n            raise\n",
        ("tests/table/test_replaced_table.py::test_what_was_written_and_never_read_is_gone_with_its_table",),
    ),
    Bug(
        "a handle that wrote shows an older version where a copy was put back",
        "indextables/embedded/handle.py",
        "            self._is_seen = True\n            is_new",
        "            is_new",
        (HISTORY + "test_what_a_handle_wrote_and_nobody_read_is_told_or_gone_and_refresh_goes_on",),
    ),
    Bug(
        "refresh stays at a version that the log has lost",
        "indextables/embedded/handle.py",
        "self._move(newest, lost=self._lost(newest))",
        "self._move(newest)",
        (HISTORY + "test_refresh_goes_on_where_nobody_read_what_a_handle_wrote",),
    ),
    Bug(
        "a loaded state is not compared with the table of its header",
        LOG + "read/meant.py",
        "if state.metadata.id == table:",
        "if True:",
        ("tests/table/test_replaced_table.py",),
    ),
    Bug(
        "a planned read of Spark takes whichever table is there",
        "indextables/spark/source/read.py",
        "Log(env).of_table(self._table_id).snapshot",
        "Log(env).snapshot",
        ("tests/spark/test_door.py",),
    ),
    Bug(
        "a checkpoint of another history is read beside the newest version",
        LOG + "checkpoint/belonging.py",
        "        return is_newest and _is_another_history(env, ref.version, info, tokens)\n",
        "        return False\n",
        STRANGE_TESTS,
    ),
    Bug(
        "a checkpoint of another table is read where nothing else is left",
        LOG + "checkpoint/belonging.py",
        "    return is_newest or ref not in kept or table_of_version(env, ref.version) != table\n",
        "    return ref not in kept\n",
        STRANGE_TESTS,
    ),
    Bug(
        "a checkpoint of the newest version is not held against its check file",
        LOG + "read/load.py",
        "    if told is None and base.version == state.version:\n",
        "    if False:\n",
        STRANGE_TESTS,
    ),
    Bug(
        "a handle does not go on where cleanup took what it wrote",
        "indextables/embedded/handle.py",
        "        except VersionExpired:\n            return self._follow()\n",
        "        except VersionExpired:\n            raise\n",
        OWN_GONE_TESTS,
    ),
    Bug(
        "a handle shows another version of the number that it wrote",
        LOG + "read/meant.py",
        "    if None in {token, found} or found == token:\n",
        "    if True:\n",
        OWN_GONE_TESTS,
    ),
    Bug(
        "a write of more columns needs the version that the handle read",
        "indextables/embedded/handle.py",
        "            return self._log.snapshot()\n        return snapshot\n",
        "            raise\n        return snapshot\n",
        OWN_GONE_TESTS,
    ),
    Bug(
        "an append of nothing does not look whose table it is",
        "indextables/embedded/table.py",
        "            self._log.check_table()\n            return version\n",
        "            return version\n",
        REPLACED_TESTS,
    ),
    Bug(
        "what was written for a commit that the log refuses stays",
        TABLE + "writing/splits.py",
        "(CommitError, LogError, NotSupported,",
        "(CommitError, NotSupported,",
        REPLACED_TESTS,
    ),
    Bug(
        "a version of which part was read before is damaged where another table took its place",
        LOG + "read/log.py",
        "        except (CheckpointError, LogCorrupt, ObjectNotFound):\n",
        "        except (CheckpointError, ObjectNotFound):\n",
        REPLACED_TESTS,
    ),
    Bug(
        "verify is content with a table that nobody can open",
        LOG + "care/verifying.py",
        "        self._check_open()\n",
        "",
        STRANGE_TESTS,
    ),
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
        "        if self._is_covered(slot, seen):\n"
        "            return self._resolve(slot, encoded)\n"
        "        above = seen.above(slot)\n"
        "        stands = self._stands(seen)\n"
        "        if stands and (above is None or lost_base.is_followed(self.env, encoded.info, slot)):\n"
        "            key = version_key(slot)\n"
        "            written_ms = seen.times.get(key)\n"
        "            clock.saw(self.env, written_ms)\n"
        "            ours = None if written_ms is None else ObjectMeta(key, len(encoded.data), written_ms, seen.etag(slot))\n"
        "            return self._landed(slot, encoded, ours)\n"
        "        if self._is_covered(slot, tokens.survey(self.env, slot)):\n"
        "            # Cleanup was here since the listing: what is missing is no loss.\n"
        "            return self._resolve(slot, encoded)\n",
        "        if False:\n"
        "            return self._resolve(slot, encoded)\n"
        "        above = seen.above(slot)\n"
        "        stands = self._stands(seen)\n"
        "        if stands and (above is None or lost_base.is_followed(self.env, encoded.info, slot)):\n"
        "            key = version_key(slot)\n"
        "            written_ms = seen.times.get(key)\n"
        "            clock.saw(self.env, written_ms)\n"
        "            ours = None if written_ms is None else ObjectMeta(key, len(encoded.data), written_ms, seen.etag(slot))\n"
        "            return self._landed(slot, encoded, ours)\n"
        "        if False:\n"
        "            # Cleanup was here since the listing: what is missing is no loss.\n"
        "            return self._resolve(slot, encoded)\n",
        COMMIT_TESTS,
    ),
    Bug(
        "the boundary is off by one",
        COMMIT,
        "seen.newest.version < slot:",
        "seen.newest.version <= slot:",
        OVERTAKEN_TESTS,
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
        "            confirmed = confirm(self.env, winners)\n",
        "            confirmed = Confirmed(tuple(winners))\n",
        OVERTAKEN_TESTS,
    ),
    Bug(
        "the file below the slot is not compared",
        COMMIT,
        "ours is not None and tokens.identity_of(self.env, slot - 1) == base.identity",
        "ours is not None",
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
        "        raise Undecided(slot, str(error)) from error\n\n\ndef _wait",
        "        raise\n\n\ndef _wait",
        COMMIT_TESTS,
    ),
    Bug(
        "files are looked for before the first put only",
        COMMIT,
        "            check()\n            clock.check(env)\n",
        "            if fault == 0:\n                check()\n            clock.check(env)\n",
        KEPT_TESTS,
    ),
    Bug(
        "a refusal after an unanswered put counts as proof",
        COMMIT,
        "            if fault == 0:\n                raise\n            why =",
        "            if fault >= 0:\n                raise\n            why =",
        COMMIT_TESTS,
    ),
    Bug(
        "versions that beat us are not verified",
        COMMIT,
        "        if unchanged is not None:\n            return self._judge(unchanged, identity)\n",
        "        if True:\n            return self._judge(Confirmed(tuple(winners)), identity)\n",
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
        "        stands = self._stands(seen)\n",
        "        stands = True\n",
        COMMIT_TESTS,
    ),
    Bug(
        "any checkpoint at or above the base proves the table",
        LOG + "commit/lost_base.py",
        "    if told is None:\n        return False\n",
        "    if told is None:\n        return seen.newest is not None\n",
        GROUND_TESTS,
    ),
    Bug(
        "what lies above a won slot is not looked at",
        COMMIT,
        "if stands and (above is None or lost_base.is_followed(self.env, encoded.info, slot)):",
        "if stands:",
        GROUND_TESTS,
    ),
    Bug(
        "a commit is taken back although a checkpoint holds it",
        COMMIT,
        "        if self._is_covered(slot, tokens.survey(self.env, slot)):\n            # Cleanup was here",
        "        if False:\n            # Cleanup was here",
        OVERTAKEN_TESTS,
    ),
    Bug(
        "a delete that failed counts as a withdrawal",
        COMMIT,
        '        if failed:\n            reason = f"the version below is gone',
        '        if False:\n            reason = f"the version below is gone',
        GROUND_TESTS,
    ),
    Bug(
        "a conflict does not move the remembered head",
        COMMIT,
        "        head.forget(self.log)\n        return Conflicted(",
        "        return Conflicted(",
        ("tests/log/test_heads.py",),
    ),
    Bug(
        "a version file is not asked who it is",
        LOG + "wire/codec.py",
        "info.version is not None and info.version != version:",
        "False:",
        GROUND_TESTS,
    ),
    Bug(
        "appends give up",
        COMMIT,
        "if (self.work.is_blind_append or self.work.repairs) and not options.given(",
        "if self.work.repairs and not options.given(",
        COMMIT_TESTS,
    ),
    Bug(
        "nobody checks the clock",
        LOG + "read/clock.py",
        "if abs(skew) > allowed:",
        "if skew > allowed:",
        COMMIT_TESTS,
    ),
    Bug(
        "the protocol is not checked again when it rose meanwhile",
        CONFLICT,
        "if followed is not None and not protocol.follows(ours.base_protocol, followed):",
        "if followed is not None and protocol.follows(ours.base_protocol, followed):",
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
        "    claimed = _overlap(ours.removed, theirs.removes, theirs.adds)\n",
        "    claimed: list[str] = []\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "deletes of files that were read do not matter",
        CONFLICT,
        "theirs.adds))\n    if gone:",
        "theirs.adds))\n    if not gone and gone:",
        CONFLICT_TESTS,
    ),
    Bug(
        "appends are never phantoms",
        CONFLICT,
        "    if _is_blind_append(theirs) and not ours.serializable:\n",
        "    if _is_blind_append(theirs):\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "a merge ignores what was deleted from its sources",
        CONFLICT,
        "    touched = _overlap(ours.removed, theirs.removes, theirs.adds)\n",
        "    touched = _overlap(ours.added, theirs.removes, theirs.adds)\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "a merge does not see a vector that was set by add alone",
        CONFLICT,
        "    touched = _overlap(ours.removed, theirs.removes, theirs.adds)\n",
        "    touched = _overlap(ours.removed, theirs.removes)\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "a delete does not see a vector that was set by add alone",
        CONFLICT,
        "    claimed = _overlap(ours.removed, theirs.removes, theirs.adds)\n",
        "    claimed = _overlap(ours.removed, theirs.removes)\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "a vector set by add alone is put on a file that was merged meanwhile",
        CONFLICT,
        "    claimed += [path for path in _overlap(ours.added, theirs.removes, theirs.adds) if path not in claimed]\n",
        "",
        CONFLICT_TESTS,
    ),
    Bug(
        "rows that a restore brings back are not looked at",
        CONFLICT,
        '    return removes.filter(removes["deletionVector"].is_null())\n',
        "    return removes\n",
        CONFLICT_TESTS,
    ),
    Bug(
        "rows are changed beside a new constraint",
        CONFLICT,
        "(ours.repairs and constraints_of(before) == constraints_of(after))",
        "ours.repairs",
        CONFLICT_TESTS,
    ),
    Bug(
        "two overwrites of an empty range both commit",
        CONFLICT,
        "    return info is not None and info.isBlindAppend is True and",
        "    return info is not None and",
        CONFLICT_TESTS,
    ),
    Bug(
        "a drop of what was appended since is no change of the range",
        CONFLICT,
        "            or ours.may_match(_placed(removes))\n",
        "",
        CONFLICT_TESTS,
    ),
    Bug(
        "an overwrite counts from its commit, not from its beginning",
        TABLE + "overwrite.py",
        "        since=began,\n",
        "        since=None,\n",
        OVERLAP_TESTS,
    ),
    Bug(
        "a serializable overwrite counts from the newest version, not from what its handle shows",
        TABLE + "writing/start.py",
        'if log.env.over(now.metadata.configuration)[opt.ISOLATION_LEVEL] != "serializable":',
        "if opt.ISOLATION_LEVEL:",
        OVERLAP_TESTS,
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
        LOG + "read/confirming.py",
        "    if open_:\n        _ask_checkpoints(env, open_, seen)\n",
        "",
        ("tests/log/test_refilled.py",),
    ),
    Bug(
        "a stream and a history take a refilled slot for the version, in the simulation",
        LOG + "read/confirming.py",
        "    if open_:\n        _ask_checkpoints(env, open_, seen)\n",
        "",
        HAUNTED_SIMULATION,
    ),
    Bug(
        "a delete that failed counts as a withdrawal, in the simulation",
        COMMIT,
        '        if failed:\n            reason = f"the version below is gone',
        '        if False:\n            reason = f"the version below is gone',
        MISHAP_SIMULATION,
    ),
    Bug(
        "a version of another table than every checkpoint is always believed",
        LOG + "read/confirming.py",
        "            if _is_followed(env, found, listed):\n                raise _superseded(version)\n",
        "",
        ("tests/log/test_refilled.py",),
    ),
    Bug(
        "files above that lead to a version are not looked at",
        LOG + "read/confirming.py",
        "    if lowest is not None and not _leads_up(env, version, lowest):",
        "    if lowest is not None:",
        ("tests/log/test_refilled.py",),
    ),
    Bug(
        "a listing that lags behind shows that manifests are gone",
        LOG + "checkpoint/avro/write.py",
        "        there = listed[key] if key in listed else _size_of(env, key)",
        "        there = listed.get(key)",
        ("tests/state/test_cleanup.py",),
    ),
    Bug(
        "a checkpoint right below what was read confirms it, in the simulation",
        LOG + "read/confirming.py",
        "    if open_:\n        _ask_checkpoints(env, open_, seen)\n",
        "    if open_ and not any(ref.version < read[0].version for ref in survey(env, read[0].version - 1).states):\n"
        "        _ask_checkpoints(env, open_, seen)\n",
        HAUNTED_SIMULATION,
    ),
    Bug(
        "cleanup is deaf to readers that came after its plan, in the simulation",
        LOG + "care/sweeping.py",
        "        reason = self._protected() or self._other_table()\n",
        "        reason = self._other_table()\n",
        HAUNTED_SIMULATION,
    ),
    Bug(
        "a merge does not see a vector that was set by add alone, in the simulation",
        CONFLICT,
        "    touched = _overlap(ours.removed, theirs.removes, theirs.adds)\n",
        "    touched = _overlap(ours.removed, theirs.removes)\n",
        SIMULATION,
    ),
    Bug(
        "a clock that is set goes unnoticed, in the simulation",
        LOG + "read/clock.py",
        "return self.is_doubted or abs(self.skew_ms) > allowed or abs(self.skew_ms - stepped_ms) > allowed",
        "return False",
        MISHAP_SIMULATION,
    ),
    Bug(
        "a version below every list of tokens is believed",
        LOG + "read/confirming.py",
        "    if lowest is not None and not _leads_up(env, version, lowest):\n        raise _superseded(version)\n",
        "",
        ("tests/log/test_confirm.py",),
    ),
    Bug(
        "a version is not compared with the one that follows it",
        LOG + "read/confirming.py",
        "    _check_links(read, above)\n    return Confirmed(tuple(read))\n\n\ndef by_anchor",
        "    return Confirmed(tuple(read))\n\n\ndef by_anchor",
        ("tests/log/test_refilled.py",),
    ),
    Bug(
        "a link to another version vouches for this one",
        LOG + "read/confirming.py",
        "previous.token is not None and previous.token == lower.token",
        "previous.token is not None",
        ("tests/log/test_refilled.py",),
    ),
    Bug(
        "the newest checkpoint is looked for above the slot only",
        LOG + "read/tokens.py",
        "    floor = max(version, 0)\n",
        "    floor = max(version, 0) + 1\n",
        ("tests/log/test_lost_ground.py",),
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
        TABLE + "merge/plan.py",
        " | ~takes_part | ~np.r_[False, takes_part[:-1]]",
        "",
        PLAN_TESTS,
    ),
    Bug(
        "a merge mixes partitions",
        TABLE + "merge/plan.py",
        "ends_before = np.r_[True, codes[1:] != codes[:-1]] | ~takes_part",
        "ends_before = np.r_[True, codes[1:] < 0] | ~takes_part",
        PLAN_TESTS,
    ),
    Bug(
        "files in their cooldown are merged",
        TABLE + "merge/plan.py",
        "takes_part = (sizes < limits.target_bytes) & ~left_alone & ",
        "takes_part = (sizes < limits.target_bytes) & ",
        PLAN_TESTS,
    ),
    Bug(
        "a group may be one byte too large",
        TABLE + "merge/plan.py",
        'before + limits.target_bytes, side="right"',
        'before + limits.target_bytes + 1, side="right"',
        PLAN_TESTS,
    ),
    Bug(
        "a merged file goes to the end of the table",
        TABLE + "merge/batch.py",
        "tags={**kept, **position_tag(version, line, part + beyond), **full},",
        "tags={**kept, **full},",
        MERGE_TESTS,
    ),
    Bug(
        "places are not read",
        TABLE + "read/order.py",
        "line, version))\n",
        "line * 0, version * 0))\n",
        PLAN_TESTS,
    ),
    Bug(
        "a merge commits whatever vectors its sources have by now",
        TABLE + "merge/landing.py",
        "if all(source.vector == vectors[source.path] for source in group.sources):",
        "if all(source.path in vectors for source in group.sources):",
        MEANWHILE_TESTS,
    ),
    Bug(
        "a merge commits sources that are gone",
        TABLE + "merge/landing.py",
        "        if any(source.path not in vectors for source in group.sources):\n            continue\n",
        "        vectors = {source.path: source.vector for source in group.sources} | vectors\n",
        MEANWHILE_TESTS,
    ),
    Bug(
        "vectors move by row number, not by rank among live rows",
        TABLE + "merge/landing.py",
        "deleted.append(np.flatnonzero(~is_live[was_live]) + written)",
        "deleted.append(np.flatnonzero(~is_live & was_live) + written)",
        MEANWHILE_TESTS,
    ),
    Bug(
        "rows that came back are lost in a merge",
        TABLE + "merge/landing.py",
        "        if (is_live & ~was_live).any():\n            return None\n",
        "",
        MEANWHILE_TESTS,
    ),
    Bug(
        "sorted groups take vectors over",
        TABLE + "merge/landing.py",
        "adds = None if group.is_sorted else _with_vectors(env, group, vectors)",
        "adds = _with_vectors(env, group, vectors)",
        MEANWHILE_TESTS,
    ),
    Bug(
        "groups that a winner touched are committed all the same",
        TABLE + "merge/landing.py",
        "if not touched.intersection(source.path for source in found.moved.sources)",
        "if found.moved.sources or touched",
        MERGE_SIMULATION,
    ),
    Bug(
        "the files of a merge are not protected from purge",
        TABLE + "merge/verb.py",
        "since_ms=store_now_ms(env), ttl_ms",
        "ttl_ms",
        MERGE_SIMULATION,
    ),
    Bug(
        "rows are merged around a source that broke",
        TABLE + "merge/unit.py",
        "rest: list[SplitRef | None] = [None if ref.key in bad else ref for ref in run]",
        "rest: list[SplitRef | None] = [ref for ref in run if ref.key not in bad]",
        SKIP_TESTS,
    ),
    Bug(
        "every skip is the first",
        TABLE + "merge/skips.py",
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
        TABLE + "merge/batch.py",
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
        "a table merges the splits that somebody sorted",
        TABLE + "merge/tiers.py",
        'parts |= validity(map_values(narrow["tags"], CLUSTERED))',
        "pass",
        TIER_TESTS,
    ),
    Bug(
        "small splits between two larger ones stay for ever",
        TABLE + "merge/tiers.py",
        "if among[first] and last - first > 1:",
        "if among[first] and last - first >= fan_in:",
        TIER_TESTS,
    ),
    Bug(
        "a large file is rewritten for each few small ones",
        TABLE + "merge/tiers.py",
        "if 2 * others >= fan_in:",
        "if others:",
        TIER_TESTS,
    ),
    Bug(
        "a process that lives for one append leaves everything to others",
        TABLE + "merge/tiers.py",
        "is_piece = piece and number == 0 and takes <= _PIECE_S",
        "is_piece = False",
        TIER_TESTS,
    ),
    Bug(
        "a merge that failed is tried again after every write",
        TABLE + "upkeep.py",
        "return 0 < wait <= MOST_BACK_OFF_MS",
        "return False",
        UPKEEP_TESTS,
    ),
    Bug(
        "jobs of Spark merge unasked",
        TABLE + "after_write.py",
        "enabled = enabled and options.given(opt.MERGE_ON_WRITE_ENABLED)",
        "pass",
        ("tests/spark/test_stream_parts.py",),
    ),
    Bug(
        "a fork does not wait for a thread that loads a module",
        "indextables/process.py",
        "os.register_at_fork(before=_before_fork, after_in_child=",
        "os.register_at_fork(after_in_child=",
        ("tests/test_process.py",),
    ),
    Bug(
        "a forked child finds the lock of an object held",
        "indextables/process.py",
        "    for lock in _LOCKS:\n        lock.open()\n",
        "",
        ("tests/test_process.py",),
    ),
    Bug(
        "a failing merge fails the write",
        TABLE + "after_write.py",
        "_NOT_THE_WRITES = Exception",
        "_NOT_THE_WRITES = (OSError, MemoryError, RuntimeError)",
        ON_WRITE_TESTS,
    ),
    Bug(
        "purge takes files that older versions need",
        TABLE + "maintenance/purge/verb.py",
        "        data = _decided(found, _claims_of(told, held), asked)\n",
        "",
        PURGE_TESTS,
    ),
    Bug(
        "purge takes young files",
        TABLE + "maintenance/purge/plan.py",
        '    keep("young", pc.greater_equal(_times(left), oldest))\n',
        "",
        PURGE_TESTS,
    ),
    Bug(
        "purge takes files of a table inside the table",
        TABLE + "maintenance/purge/plan.py",
        "    for root in nested:\n",
        "    for root in ():\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge takes whatever ends like a split",
        TABLE + "maintenance/purge/plan.py",
        'rf"^(?:{folders}){SPLITS}split-[0-9a-f]{{32}}\\.split$"',
        'r"^.*\\.split$"',
        PURGE_TESTS,
    ),
    Bug(
        "purge takes what was removed a moment ago",
        TABLE + "maintenance/purge/plan.py",
        '    keep("removed lately", pc.is_in(left["path"], value_set=lately))\n',
        "",
        PURGE_TESTS,
    ),
    Bug(
        "purge forgets that the history was truncated",
        TABLE + "maintenance/purge/plan.py",
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
        TABLE + "maintenance/purge/verb.py",
        "        over = [key for key in held.expired if key in still]\n",
        "        over = list(held.expired)\n",
        PURGE_TESTS,
    ),
    Bug(
        "a drop of partitions takes what it saw first, not what is there",
        TABLE + "maintenance/drop_partitions.py",
        "taken[:] = [_inside(head, predicate)]",
        "taken[:] = [chosen]",
        OPERATE_TESTS,
    ),
    Bug(
        "truncate takes what its plan did not name",
        TABLE + "maintenance/truncate.py",
        "only(plan_cleanup(env, _rules(env, store_now_ms(env))), told)",
        "plan_cleanup(env, _rules(env, store_now_ms(env)))",
        OPERATE_TESTS,
    ),
    Bug(
        "files that share a place have no order among themselves",
        TABLE + "merge/batch.py",
        "position_tag(version, line, part + beyond)",
        "position_tag(version, line, part)",
        ("tests/table/test_clustering.py",),
    ),
    Bug(
        "a restore does not notice that its lease is over",
        TABLE + "maintenance/restore.py",
        "    if not lease.is_held():\n",
        "    if False:\n",
        OPERATE_TESTS,
    ),
    Bug(
        "a restore holds another lease than purges",
        TABLE + "maintenance/restore.py",
        "    lease = acquire(log.env, LEASE)\n",
        '    lease = acquire(log.env, "restore")\n',
        OPERATE_TESTS,
    ),
    Bug(
        "a restore that looks for long lets its lease end",
        TABLE + "maintenance/restore.py",
        "    lease.renew()\n",
        "",
        OPERATE_TESTS,
    ),
    Bug(
        "a vector that arrives while its split is merged is dropped",
        TABLE + "merge/landing.py",
        "    if not len(rows):\n        return add\n    payload",
        "    return add\n    payload",
        MEANWHILE_TESTS,
    ),
    Bug(
        "merged rows are new rows",
        TABLE + "merge/batch.py",
        "                    dataChange=False,\n",
        "                    dataChange=True,\n",
        TAIL_TESTS,
    ),
    Bug(
        "reindexed rows are new rows",
        TABLE + "maintenance/reindex.py",
        "                dataChange=False,\n",
        "                dataChange=True,\n",
        TAIL_TESTS,
    ),
    Bug(
        "nothing at all passes for a flag of a verb",
        TABLE + "requests.py",
        "if value is not None or default is not None:",
        "if value is not None:",
        DOOR_TESTS,
    ),
    Bug(
        "a table forgets a parameter of a merge",
        "indextables/embedded/maintenance.py",
        "            max_dest_splits=max_dest_splits,\n",
        "",
        DOOR_TESTS,
    ),
    Bug(
        "purge takes any age for safe",
        TABLE + "maintenance/purge/verb.py",
        "if judged is not None and judged < floor and not request.force and",
        "if judged is not None and judged < 0 and not request.force and",
        PURGE_TESTS,
    ),
    Bug(
        "purge keeps data files for an hour, whatever was asked for",
        TABLE + "maintenance/purge/verb.py",
        "return _Asked(round(hours * _HOUR_MS), rules, now_ms)",
        "return _Asked(_HOUR_MS, rules, now_ms)",
        PURGE_TESTS,
    ),
    Bug(
        "purge sees nothing behind a long log",
        TABLE + "maintenance/purge/listing.py",
        "                after = LOG_END\n                break\n",
        "                return\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge believes a refilled slot about what was committed since its plan, in the simulation",
        TABLE + "maintenance/purge/reachable.py",
        "        contents = log.read_versions(range(first, newest + 1))\n    except",
        "        raw = {v: log.env.store.get(version_key(v)) for v in range(first, newest + 1)}\n"
        "        contents = [decode_version(raw[v], v, root_url=log.url) for v in raw]\n    except",
        CARE_SIMULATION,
    ),
    Bug(
        "a purge below the safe age leaves no mark, in the simulation",
        TABLE + "maintenance/purge/verb.py",
        "    if left.num_rows and asked.retention_ms < safe_age_ms(plan.snapshot.metadata):\n",
        "    if False:\n",
        CARE_SIMULATION,
    ),
    Bug(
        "a writer commits while a purge that may take its files is at work, in the simulation",
        TABLE + "writing/kept.py",
        "        held = who_holds(env, LEASE)\n",
        "        held = None\n",
        CARE_SIMULATION,
    ),
    Bug(
        "a writer looks for files that it wrote long ago in no case, in the simulation",
        TABLE + "writing/kept.py",
        "    if marked or moves or oldest_ms > _SAFE_MS // 2 or max(made) > now_ms:\n",
        "    if moves:\n",
        CARE_SIMULATION,
    ),
    Bug(
        "purge goes on when somebody else has its lease",
        TABLE + "maintenance/purge/verb.py",
        '    if not lease.is_held():\n        return "somebody else',
        '    if False:\n        return "somebody else',
        PURGE_TESTS,
    ),
    Bug(
        "a purge that stalled deletes although its lease is over",
        TABLE + "maintenance/purge/verb.py",
        "    if is_off or not holds(env, ticket, spare_ms=_SPARE_MS):\n",
        "    if is_off:\n",
        OPERATE_TESTS,
    ),
    Bug(
        "deletes are sent until the lease is over",
        TABLE + "maintenance/purge/verb.py",
        "    if is_off or not holds(env, ticket, spare_ms=_SPARE_MS):\n",
        "    if is_off or not holds(env, ticket):\n",
        OPERATE_TESTS,
    ),
    Bug(
        "a restore that stalled does not look for its files again",
        TABLE + "maintenance/restore.py",
        "    _check_still_there(log, committed.version, comes, lease, runner)\n",
        "",
        OPERATE_TESTS,
    ),
    Bug(
        "files of a former partitioning are nobody's",
        TABLE + "maintenance/purge/listing.py",
        "Names.of(partitionings(known.metadata))",
        "Names.of([known.partition_columns])",
        PURGE_TESTS,
    ),
    Bug(
        "a restore forgets how the table was partitioned",
        TABLE + "maintenance/restore.py",
        "    wanted = remembering(wanted, now.metadata)\n",
        "",
        PURGE_TESTS,
    ),
    Bug(
        "the history counts the files that a drop saw first",
        TABLE + "maintenance/drop_partitions.py",
        "metrics=_metrics(taken[0])",
        "metrics=_metrics(chosen)",
        OPERATE_TESTS,
    ),
    Bug(
        "purge ignores the intents of readers",
        TABLE + "maintenance/purge/verb.py",
        '    return _unknown_reader(held, plan.oldest) or ""\n',
        '    return ""\n',
        PURGE_TESTS + CARE_SIMULATION,
    ),
    Bug(
        "purge reads no further than the newest checkpoint",
        TABLE + "maintenance/purge/reachable.py",
        "    columns += [data_keys(files, log.url, rule) for files in bases.values()]\n",
        "",
        PURGE_TESTS + INCIDENT_TESTS,
    ),
    Bug(
        "purge ignores the intents of writers",
        TABLE + "maintenance/purge/plan.py",
        "    if claims.since_ms is not None:\n",
        "    if False:\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge does not look at the log again before it deletes",
        TABLE + "maintenance/purge/verb.py",
        "        head, more = named_since(log, head)\n",
        "        more = text_array([])\n",
        INCIDENT_TESTS,
    ),
    Bug(
        "purge deletes data although the log could not be cut",
        TABLE + "maintenance/purge/verb.py",
        "    if cleaned.failed:\n",
        "    if False:\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge counts failed deletes as done",
        TABLE + "maintenance/purge/verb.py",
        "done.append(_without(batch, text_array([*lost, *late])) if lost or late else batch)",
        "done.append(batch)",
        PURGE_TESTS,
    ),
    Bug(
        "purge trusts this machine's clock",
        TABLE + "maintenance/purge/verb.py",
        "    if abs(told - now_ms) > env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:\n",
        "    if False:\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge compares keys with escaped paths",
        TABLE + "writing/keys.py",
        '    escaped = pc.match_substring(column, "%")\n',
        '    escaped = pc.match_substring(column, "\\x00")\n',
        PURGE_TESTS,
    ),
    Bug(
        "purge does not see deletion vectors",
        TABLE + "writing/keys.py",
        "    if vectors.null_count == len(vectors):\n        return keys\n    held",
        "    return keys\n    held",
        PURGE_TESTS,
    ),
    Bug(
        "cleanup ignores readers",
        LOG + "care/retention.py",
        "        if rules.keep_from is not None and ref.version > rules.keep_from:\n",
        "        if False:\n",
        ("tests/state/test_cleanup.py",),
    ),
    Bug(
        "an intent ends by this machine's clock",
        LOG + "care/intents.py",
        "if now_ms - meta.modified_ms > _ttl_ms(intent) + _GRAIN_MS or (isinstance(intent, Intent) and intent.released):",
        "if now_ms > _ttl_ms(intent) + _GRAIN_MS:",
        INTENT_TESTS,
    ),
    Bug(
        "a lease is taken from a live holder",
        LOG + "care/intents.py",
        "    if before is not None and not _is_past(store_now_ms(env), numbers[newest], before):\n        return None\n",
        "",
        INTENT_TESTS,
    ),
    Bug(
        "a stalled process gets a lease under a number that was tidied up",
        LOG + "care/intents.py",
        "        return None\n    _forget(env, [numbers[number].key for number in numbers])\n",
        "        pass\n    _forget(env, [numbers[number].key for number in numbers])\n",
        INTENT_TESTS,
    ),
    Bug(
        "a restore brings back files that are gone",
        TABLE + "maintenance/restore.py",
        "    _check_there(log, then.version, comes, lease, runner, progress)\n",
        "",
        OPERATE_TESTS,
    ),
    Bug(
        "a restored file loses its place among the rows",
        TABLE + "read/order.py",
        '"tags", _placed(combined(files["tags"]), places))',
        '"tags", combined(files["tags"]))',
        OPERATE_TESTS,
    ),
    Bug(
        "a restore runs beside a purge",
        TABLE + "maintenance/restore.py",
        "    if lease is None:\n",
        "    if False:\n",
        OPERATE_TESTS,
    ),
    Bug(
        "a writer that slept commits files that are gone",
        TABLE + "append.py",
        ".before_put(lambda staged: check_kept(log.env, staged))",
        "",
        INCIDENT_TESTS,
    ),
    Bug(
        "a merge that slept commits files that are gone",
        TABLE + "merge/landing.py",
        "        transaction.before_put(lambda staged: check_kept(self._env, staged))\n",
        "",
        KEPT_TESTS,
    ),
    Bug(
        "a purger's own options say when it leaves no mark",
        TABLE + "maintenance/purge/verb.py",
        "asked.retention_ms < safe_age_ms(plan.snapshot.metadata):",
        "asked.retention_ms < env.options[opt.PURGE_MIN_RETENTION_HOURS] * _HOUR_MS:",
        KEPT_TESTS,
    ),
    Bug(
        "a file is as young as the end of its write",
        "indextables/split/write/writer.py",
        "            put_ms=put_ms,\n",
        "            put_ms=self._ambient.now_ms(),\n",
        KEPT_TESTS,
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
        TABLE + "rows/evolve.py",
        "*(field.with_nullable(True) for field in plain)",
        "*plain",
        EVOLUTION_TESTS,
    ),
    Bug(
        "the id of a dropped column is given to another",
        TABLE + "rows/evolve.py",
        "    before = highest_ever(schema_from_json(metadata.schemaString), metadata.configuration)\n",
        "    before = highest_ever(schema_from_json(metadata.schemaString), {})\n",
        EVOLUTION_TESTS,
    ),
    Bug(
        "ids of elements are given to columns that come later",
        LOG + "wire/field_ids.py",
        "    return [*([] if number is None else [number]), *nested_ids(field).values()]\n",
        "    return [] if number is None else [number]\n",
        FIELD_ID_TESTS,
    ),
    Bug(
        "fields of structs inside lists have no field id in data files",
        "indextables/split/write/field_ids.py",
        '        return pa.list_(below(kind.value_field, "element"))\n    return kind',
        "        return pa.list_(kind.value_field)\n    return kind",
        FIELD_ID_TESTS,
    ),
    Bug(
        "a restore gives elements other ids than they got meanwhile",
        TABLE + "rows/evolve.py",
        "    schema = same_ids(schema_from_json(metadata.schemaString), schema_from_json(newer.schemaString))\n",
        "    schema = schema_from_json(metadata.schemaString)\n",
        FIELD_ID_TESTS,
    ),
    Bug(
        "a partition column widens although its texts mean other numbers",
        TABLE + "rows/evolve.py",
        " and field.name in metadata.partitionColumns and pa.types.is_floating(kind):",
        " and field.name in metadata.partitionColumns and False:",
        EVOLUTION_TESTS,
    ),
    Bug(
        "a dynamic overwrite replaces partitions that the rows are not in",
        TABLE + "writing/replaced.py",
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
    Bug(
        "winners that end below the checkpoint are judged as if nothing followed them",
        COMMIT,
        "        if self.base.version + covered != ref.version:\n            return self._reload()\n",
        "",
        OVERTAKEN_TESTS,
    ),
    Bug(
        "a writer that starts anew does not look for its batch",
        COMMIT,
        "        needs_txns = before.txns is not None or bool(self.work.ours(before).txns)\n",
        "        needs_txns = False\n",
        OVERTAKEN_TESTS,
    ),
    Bug(
        "a commit below every list of tokens is said to be lost",
        LOG + "commit/resolve.py",
        """            raise CommitStateUnknown(message, token=token, version=version)
        if token in window.tokens:
""",
        "            return None\n        if token in window.tokens:\n",
        OVERTAKEN_TESTS,
    ),
    Bug(
        "a known log does not see a checkpoint above its listed versions",
        LOG + "read/newest.py",
        "if any(state.version > head for state in newer) or any(",
        "if any(",
        OVERTAKEN_TESTS,
    ),
    Bug(
        "a checkpoint of another table above every version file is the newest version",
        LOG + "read/newest.py",
        "        states = keep_own(env, versions, states, above=max(versions, default=0))\n",
        "",
        LEFT_OVER_TESTS,
    ),
    Bug(
        "a checkpoint of another table is read where no version lies above it",
        LOG + "read/load.py",
        "    if known.head_identity is None or log_table == table:",
        "    if True:",
        LEFT_OVER_TESTS,
    ),
    Bug(
        "a checkpoint of another table is the cut of a cleanup",
        LOG + "care/cleanup.py",
        "    if not left:\n        return listing, []\n",
        "    if True:\n        return listing, []\n",
        LEFT_OVER_TESTS,
    ),
    Bug(
        "a checkpointer leaves its state in another table",
        LOG + "checkpoint/belonging.py",
        "    if held == table:\n",
        "    if held != table:\n",
        LEFT_OVER_TESTS,
    ),
    Bug(
        "a listed log ends where its version files do",
        LOG + "read/segment.py",
        "    head = newest_state\n",
        "    head = min(newest_state, versions[-1]) if versions else newest_state\n",
        OVERTAKEN_TESTS,
    ),
    Bug(
        "a writer starts from a slot that was refilled",
        LOG + "commit/head.py",
        "        content = log.read_version(version)\n",
        "        content = log._versions._read(version)\n",
        OVERTAKEN_TESTS,
    ),
    Bug(
        "a head forgets the batches of its own process",
        LOG + "care/check_file.py",
        "        txns = {**txns, **{txn.appId: txn for txn in staged.txns}}\n",
        "        pass\n",
        HEAD_TESTS,
    ),
    Bug(
        "a head forgets the batches of those it lost against",
        LOG + "commit/winner.py",
        "return before if before is None or not self.txns else {**before, **{txn.appId: txn for txn in self.txns}}",
        "return before",
        HEAD_TESTS,
    ),
    Bug(
        "a cleaner does not see that the files which stand for its table are others by now",
        LOG + "care/sweeping.py",
        "            if identity(found) != identity(planned):\n",
        "            if False:\n",
        STALL_TESTS,
    ),
    Bug(
        "a cleaner does not see that its sweep has run out",
        LOG + "care/sweeping.py",
        "        if is_read and not is_old and self._env.store.is_local:\n",
        "        if self._read_s is not None:\n",
        STALL_TESTS,
    ),
    Bug(
        "local files are deleted without asking the guard",
        "indextables/storage/local.py",
        'reason = reason or ("" if guard is None else guard([key]))',
        'reason = ""',
        STALL_TESTS,
    ),
    Bug(
        "cleanup cuts below a newest checkpoint that cannot be used",
        LOG + "care/cleanup.py",
        "    if cut.at is not None and not _newest_is_usable(env, listing, table_id):\n",
        "    if False:\n",
        CLEANUP_TESTS,
    ),
    Bug(
        "cleanup deletes the file of the newest version",
        LOG + "care/retention.py",
        "f.version <= ref.version and f.version != head]",
        "f.version <= ref.version]",
        CLEANUP_TESTS,
    ),
    Bug(
        "cleanup cuts at a checkpoint whose manifests are not whole",
        LOG + "care/cleanup.py",
        "        if key not in sizes or (size is not None and sizes[key] != size):\n",
        "        if key not in sizes:\n",
        CLEANUP_TESTS,
    ),
    Bug(
        "a manifest of another size is read",
        LOG + "checkpoint/avro/manifests.py",
        "    if info.size is not None and len(data) != info.size:\n",
        "    if False:\n",
        (
            "tests/state/test_damage.py::test_a_manifest_of_another_size_is_refused_where_the_state_tells_nothing_but_sizes",
        ),
    ),
    Bug(
        "a restore does not tell a file with a vector from one without",
        TABLE + "maintenance/restore.py",
        'return pc.binary_join_element_wise(combined(files["path"]), vectors, "\\n")',
        'return combined(files["path"])',
        OPERATE_TESTS,
    ),
    Bug(
        "a restore does not tell two vectors of one file apart",
        TABLE + "maintenance/restore.py",
        '    vectors = pc.fill_null(vector_ids(files["deletionVector"]), "")\n',
        '    vectors = pc.cast(pc.is_valid(combined(files["deletionVector"])), pa.string())\n',
        OPERATE_TESTS,
    ),
    Bug(
        "purge is deaf to a writer that announces itself after the plan",
        TABLE + "maintenance/purge/verb.py",
        "    if _is_claimed(plan.data.goes, held):\n",
        "    if False:\n",
        PURGE_TESTS,
    ),
    Bug(
        "purge is deaf to a writer that does not name its files",
        TABLE + "maintenance/purge/verb.py",
        "        if newest >= held.since_ms:\n",
        "        if False:\n",
        PURGE_TESTS,
    ),
    Bug(
        "when a file was removed is told by the version file alone",
        TABLE + "maintenance/purge/reachable.py",
        "time_ms = max(modified_ms, content.timestamp_ms or 0)",
        "time_ms = modified_ms",
        PURGE_TESTS,
    ),
    Bug(
        "when a file was removed is told by the commit alone",
        TABLE + "maintenance/purge/reachable.py",
        "time_ms = max(modified_ms, content.timestamp_ms or 0)",
        "time_ms = content.timestamp_ms or modified_ms",
        PURGE_TESTS,
    ),
    Bug(
        "an append with a batch of its own shares a commit",
        LOG + "commit/sharing.py",
        "    if txn is not None or user_metadata is not None",
        "    if user_metadata is not None",
        SHARING_SIMULATION,
    ),
    Bug(
        "appends that were written for other metadata share a commit",
        LOG + "commit/sharing.py",
        "if fits and (append.written_for is first or append.written_for == first):",
        "if fits:",
        SHARING_TESTS,
    ),
    Bug(
        "who went with a leader that was stopped during its put commits again",
        LOG + "commit/sharing.py",
        "            if transaction is None or transaction.tried is None:",
        "            if True:",
        SHARING_TESTS,
    ),
    Bug(
        "every writer that commits while a checkpoint is written writes one as well",
        LOG + "care/schedule.py",
        "return behind == interval or behind >= 2 * interval",
        "return behind >= interval",
        SCHEDULE_TESTS,
    ),
]
