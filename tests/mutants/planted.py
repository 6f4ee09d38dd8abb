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
]
