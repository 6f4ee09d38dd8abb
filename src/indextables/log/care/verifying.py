"""Does the log keep its promises? Every file is read and compared with what the others say.

Nothing is changed. A finding says what is wrong, where, and what to do; `error` means that a version cannot be
read or would be read wrongly, `warning` that something advisory is wrong and readers cope with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.errors import CheckpointError, IndexTablesError, LimitExceeded, LogError, ObjectNotFound, PathEscape
from indextables.log.care.told_rows import wrong_ids, wrong_vectors
from indextables.log.checkpoint import find_states, inspect_state, keep_own, read_pointer, read_state, table_of_version
from indextables.log.read import Log, LogCache, Stamp, Superseded, confirm, head_of, read_stamp, replay
from indextables.log.wire import (
    LOG_DIR,
    CrcFile,
    LogFile,
    StateRef,
    TableState,
    Totals,
    VersionContent,
    bool_array,
    check_bytes,
    crc32c,
    crc_key,
    decode_version,
    has_own_splits,
    is_foreign,
    parse_crc,
    parse_key,
    path_rule,
    totals_of,
    version_key,
)
from indextables.storage.store import ObjectMeta

__all__ = ["Finding", "VerifyReport", "verify"]

FindingKind = Literal[
    "gap",
    "version",
    "order",
    "table",
    "crc",
    "totals",
    "row-ids",
    "vector",
    "checkpoint",
    "pointer",
    "data-file-missing",
    "data-file-size",
    "data-file",
    "rule",
]

Look = Callable[[Env, pa.Table], Iterable[tuple[str, str]]]
"""Which of these live files are not what the log says: their paths, with reasons."""

# Totals are recounted at every version while that is cheap, else at checkpoints and at the end.
_CHEAP_FILES = 20_000


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    kind: FindingKind
    severity: Literal["error", "warning"]
    message: str
    version: int | None = None
    key: str | None = None


class VerifyReport(msgspec.Struct, frozen=True):
    """What was looked at and what was found."""

    url: str
    version: int | None
    versions_checked: int
    checkpoints_checked: int
    data_files_checked: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if nothing was found that makes a read fail or lie."""
        return not any(finding.severity == "error" for finding in self.findings)


def verify(env: Env, *, data_files: bool = False, look: Look | None = None) -> VerifyReport:
    """Check every version file, check file and checkpoint, and with `data_files` that every live file is there.

    Of files that are there in the size they should have, and are ours, `look` tells what else is wrong.
    Raises TableNotFound and StoreError; everything else is a finding.
    """
    return _Verifier(env).run(data_files=data_files, look=look)


class _Verifier:
    def __init__(self, env: Env) -> None:
        self.env = env
        self.findings: list[Finding] = []
        self.versions_checked = 0
        self.checkpoints_checked = 0

    def run(self, *, data_files: bool, look: Look | None) -> VerifyReport:
        metas = list(self.env.store.list_from(LOG_DIR))
        files = [file for meta in metas if (file := parse_key(meta.key)) is not None]
        versions = sorted(file.version for file in files if file.kind == "version")
        listed = find_states(metas)
        states = list(keep_own(self.env, set(versions), listed))
        for ref in listed:
            if ref not in states:
                self._found_left_over(ref, versions[-1])
        head: int | None
        try:
            head = head_of(versions, states, self.env.store.url)
        except LogError as error:
            self._found("gap", "error", str(error), version=_number(error))
            head = None
        self._check_orphans(files, head, max([*versions, *(ref.version for ref in states)], default=-1))
        state = self._walk(versions, states, files)
        self._check_pointer(states)
        self._check_open()
        if state is not None:
            self._check_rows(state)
        checked = self._check_data_files(state, look) if data_files and state is not None else 0
        return VerifyReport(
            self.env.store.url, head, self.versions_checked, self.checkpoints_checked, checked, tuple(self.findings)
        )

    def _check_open(self) -> None:
        """Where nothing else tells what is wrong: can a reader, who remembers nothing, read the newest version?"""
        if any(finding.severity == "error" for finding in self.findings):
            return
        try:
            _ = Log(self.env, LogCache()).snapshot().state
        except (CheckpointError, LimitExceeded, LogError, PathEscape) as error:
            message = f"the newest version cannot be read: {error}"
            self._found("checkpoint", "error", message, version=_number(error))

    def _found_left_over(self, ref: StateRef, newest: int) -> None:
        try:
            table = inspect_state(self.env, ref).table_id
        except (CheckpointError, LimitExceeded, PathEscape, ObjectNotFound):
            return  # Cleanup took it since.
        if table == table_of_version(self.env, newest):
            whose = "another history of this table, of a copy that went on by itself or of a log that was put back"
        else:
            whose = "another table, which was dropped or replaced here"
        message = (
            f"the checkpoint {ref.keys[0]} of version {ref.version} belongs to {whose}; readers and writers pass it "
            "over, cleanup deletes it once it is past retention: let it, or delete this file"
        )
        self._found("table", "error", message, version=ref.version, key=ref.keys[0])

    def _check_orphans(self, files: list[LogFile], head: int | None, newest: int) -> None:
        """Check files without a version: a cleanup that was interrupted left them, or the newest version was lost.

        Within a gap, which is an error of its own, they say nothing new.
        """
        there = {file.version for file in files if file.kind == "version"}
        alone = sorted(file.version for file in files if file.kind == "crc" and file.version not in there)
        # A cleanup beside the listing takes both: only what is still there, alone, was left.
        lost = [number for number in alone if number > newest and self._is_alone(number)]
        left = [number for number in alone if head is not None and number <= newest and self._is_alone(number)]
        if lost:
            message = (
                f"the check file of version {lost[0]} is there, its version file is not: the newest version was lost; "
                "restore it from a copy before anything is committed, or delete the check file"
            )
            self._found("crc", "error", message, version=lost[0], key=crc_key(lost[0]))
        if left:
            message = (
                f"{len(left)} check files, from {crc_key(left[0])} on, belong to versions that cleanup has taken; "
                "nobody reads them: delete them"
            )
            self._found("crc", "warning", message, version=left[0], key=crc_key(left[0]))

    def _is_alone(self, version: int) -> bool:
        store = self.env.store
        return store.exists(crc_key(version)) and not store.exists(version_key(version))

    def _walk(self, versions: list[int], states: list[StateRef], files: list[LogFile]) -> TableState | None:
        """Replay upwards from the oldest base, comparing every check file and checkpoint on the way."""
        crcs = {file.version for file in files if file.kind == "crc"}
        by_version: dict[int, list[StateRef]] = {}
        for ref in states:
            by_version.setdefault(ref.version, []).append(ref)
        there = set(versions) - self._refilled(versions, states)
        cut = max(by_version, default=-1)
        state: TableState | None = None
        before: VersionContent | None = None
        for number in sorted({*versions, *by_version}):
            content = self._read(number, crcs) if number in there else None
            if content is not None:
                self._check_order(before, content, state)
                if before is None and state is not None and state.version + 1 < number <= cut + 1:
                    # Cleanup took all versions up to here, and a checkpoint from here on holds them.
                    state = None
                before = content
                state = self._advance(state, content)
            elif number in there:
                state = None
            for ref in by_version.get(number, ()):
                state = self._check_state(ref, state)
            if state is not None and state.version == number and state.files.num_rows <= _CHEAP_FILES:
                self._check_totals(number, state, crcs)
        if state is not None and state.files.num_rows > _CHEAP_FILES:
            self._check_totals(state.version, state, crcs)
        return state

    def _refilled(self, versions: list[int], states: list[StateRef]) -> set[int]:
        """The slots that were filled after cleanup had emptied them, as readers find out; each is reported.

        Above the newest checkpoint nothing was ever cleaned up.
        """
        newest = max((ref.version for ref in states), default=-1)
        stamps: list[Stamp] = []
        for version in versions:
            with contextlib.suppress(LogError, LimitExceeded, ObjectNotFound):
                if version <= newest:
                    stamps.append(read_stamp(self.env, version))
        if self._are_confirmed(stamps):
            return set()
        found: set[int] = set()
        above: Stamp | None = None
        for stamp in reversed(stamps):
            if self._are_confirmed([stamp], above):
                above = stamp
                continue
            above = None
            found.add(stamp.version)
            message = (
                f"the slot of version {stamp.version} was filled after cleanup had emptied it: nobody reads it, and a "
                "later cleanup deletes it"
            )
            self._found("version", "warning", message, version=stamp.version, key=version_key(stamp.version))
        return found

    def _are_confirmed(self, stamps: list[Stamp], above: Stamp | None = None) -> bool:
        """False if one of these was put into an empty slot. What else is wrong with them is told elsewhere."""
        try:
            confirm(self.env, stamps, above=above)
        except Superseded:
            return False
        except LogError:
            return len(stamps) == 1
        return True

    def _read(self, version: int, crcs: set[int]) -> VersionContent | None:
        self.versions_checked += 1
        key = version_key(version)
        try:
            data = self.env.store.get(key)
            content = decode_version(data, version, root_url=self.env.store.url)
            check_bytes(self._crc(version) if version in crcs else None, content, crc32c(data))
        except (LogError, LimitExceeded) as error:
            self._found("version", "error", str(error), version=version, key=key)
            return None
        except ObjectNotFound:
            # Cleanup took it since the listing.
            return None
        return content

    def _advance(self, state: TableState | None, content: VersionContent) -> TableState | None:
        if state is None and content.version != 0:
            return None
        if state is not None and content.version <= state.version:
            return state
        try:
            return replay(state, [content])
        except LogError as error:
            if state is not None:
                self._found("gap", "error", str(error), version=_number(error))
            return None

    def _check_order(self, before: VersionContent | None, content: VersionContent, state: TableState | None) -> None:
        earlier = None if before is None or before.commit_info is None else before.commit_info.inCommitTimestamp
        now = None if content.commit_info is None else content.commit_info.inCommitTimestamp
        if earlier is not None and now is not None and now <= earlier:
            message = (
                f"version {content.version} has the commit time {now}, which is not later than that of the version "
                f"before it ({earlier}): reads by time may pick a wrong version"
            )
            self._found("order", "warning", message, version=content.version, key=version_key(content.version))
        if before is not None and before.version + 1 == content.version:
            self._check_link(before, content)
        told = None if content.commit_info is None else content.commit_info.tableId
        if state is not None and told is not None and told != state.metadata.id:
            message = (
                f"version {content.version} belongs to table {told}, the log to {state.metadata.id}: files of two "
                "tables are mixed; restore the log from a copy"
            )
            self._found("table", "error", message, version=content.version, key=version_key(content.version))

    def _check_link(self, before: VersionContent, content: VersionContent) -> None:
        """What a version says about the one below it; a slot that was refilled after cleanup is nobody's."""
        if content.commit_info is None or content.commit_info.previous is None:
            return
        try:
            confirm(self.env, [before], above=content)
        except Superseded:
            return  # Cleanup is at work: it was confirmed before.
        except LogError as error:
            self._found("version", "error", str(error), version=before.version, key=version_key(before.version))

    def _check_state(self, ref: StateRef, replayed: TableState | None) -> TableState | None:
        """Compare a checkpoint with what replay gave; where replay has no base yet, the checkpoint becomes it."""
        self.checkpoints_checked += 1
        try:
            state = read_state(self.env, ref)
        except (CheckpointError, LimitExceeded, PathEscape, ObjectNotFound) as error:
            message = f"the checkpoint of version {ref.version} cannot be read: {error}; the next one replaces it"
            self._found("checkpoint", "warning", message, version=ref.version, key=ref.keys[0])
            return replayed
        if replayed is None or replayed.version != ref.version or is_foreign(state.protocol):
            # States of IndexTables4Spark count on a line of their own, beside the version files.
            return state
        stored, counted = totals_of(state), totals_of(replayed)
        if stored != counted:
            message = (
                f"the checkpoint of version {ref.version} does not hold the files that replay gives "
                f"({_words(stored)} against {_words(counted)}): write a new checkpoint"
            )
            self._found("checkpoint", "error", message, version=ref.version, key=ref.keys[0])
        return replayed

    def _check_totals(self, version: int, state: TableState, crcs: set[int]) -> None:
        crc = self._crc(version) if version in crcs else None
        said = None if crc is None else crc.totals()
        if crc is None or said is None or not _is_of(crc, state):
            return
        counted = totals_of(state)
        if said.num_records is None:
            counted = msgspec.structs.replace(counted, num_records=None)
        if said != counted:
            message = (
                f"the check file of version {version} says {_words(said)}, replay gives {_words(counted)}: the check "
                "file or a version file is wrong; compare with a copy of the log"
            )
            self._found("totals", "error", message, version=version, key=crc_key(version))

    def _crc(self, version: int) -> CrcFile | None:
        try:
            data = self.env.store.get(crc_key(version))
        except ObjectNotFound:
            return None
        crc = parse_crc(data)
        if crc is None:
            message = f"the check file of version {version} is not readable and is ignored"
            finding = Finding("crc", "warning", message, version, crc_key(version))
            if finding not in self.findings:
                self.findings.append(finding)
        return crc

    def _check_pointer(self, states: list[StateRef]) -> None:
        pointer = read_pointer(self.env)
        if pointer is not None and pointer.version not in {ref.version for ref in states}:
            message = f"_last_checkpoint names version {pointer.version}, which has no checkpoint; readers list instead"
            self._found("pointer", "warning", message, version=pointer.version)

    def _check_rows(self, state: TableState) -> None:
        for path, why in wrong_ids(state):
            self._found("row-ids", "error", why, version=state.version, key=path)
        for path, why in wrong_vectors(state):
            self._found("vector", "error", why, version=state.version, key=path)

    def _check_data_files(self, state: TableState, look: Look | None) -> int:
        """Compare the live files with a listing of the table, natively: one row of the listing per file."""
        rule = path_rule(state.protocol)
        sizes = {meta.key: meta.size for meta in _data_objects(self.env)}
        sound: list[bool] = []
        for path, size in _pairs(state.files):
            key = rule.key(path, self.env.store.url)
            if key not in sizes:
                message = f"the data file {key} is named by the log and is not there: its rows are lost, restore it"
                self._found("data-file-missing", "error", message, key=key)
            elif sizes[key] != size:
                message = f"the data file {key} has {sizes[key]} bytes, the log says {size}: restore it"
                self._found("data-file-size", "error", message, key=key)
            sound.append(sizes.get(key) == size)
        if look is not None and has_own_splits(state.protocol):
            for path, why in look(self.env, state.files.filter(bool_array(np.array(sound, bool)))):
                self._found("data-file", "error", why, key=rule.key(path, self.env.store.url))
        return int(state.files.num_rows)

    def _found(
        self,
        kind: FindingKind,
        severity: Literal["error", "warning"],
        message: str,
        *,
        version: int | None = None,
        key: str | None = None,
    ) -> None:
        self.findings.append(Finding(kind, severity, message, version, key))


def _is_of(crc: CrcFile, state: TableState) -> bool:
    """True if the check file carries the token of the version that replay saw."""
    window = state.tokens
    known = window.token_at(state.version) if window is not None and window.covers(state.version) else None
    return crc.token is not None and crc.token == known


def _data_objects(env: Env) -> Iterator[ObjectMeta]:
    return (meta for meta in env.store.list_from("") if not meta.key.startswith(LOG_DIR))


def _pairs(files: pa.Table) -> Iterator[tuple[str, int]]:
    """Paths and sizes, a piece at a time: columns of one table need not be cut at the same rows, batches are."""
    for batch in files.select(["path", "size"]).to_batches():
        yield from zip(batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True)


def _number(error: IndexTablesError) -> int | None:
    version = error.details.get("version")
    return version if isinstance(version, int) else None


def _words(totals: Totals) -> str:
    rows = "" if totals.num_records is None else f", {totals.num_records} rows"
    return f"{totals.num_files} files, {totals.size_bytes} bytes{rows}, set hash {totals.set_hash}"
