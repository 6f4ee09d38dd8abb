"""What a table does for itself after a write, where its properties ask for it. It never fails a write.

In the background (the default) a write does not wait either: what is due is found out there, too. One such work runs
at a time per table, in this process by the places where it runs, across processes by a lease.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Literal, TypeAlias

from indextables import options as opt
from indextables import process
from indextables.ambient import Pool
from indextables.errors import InvalidArgument
from indextables.log.read import Log
from indextables.log.wire import Metadata
from indextables.options import Options
from indextables.table.environment import table_env

if TYPE_CHECKING:
    from indextables.table.change import ChangeReport

__all__ = ["Writer", "after_change", "after_write", "settle"]

_LOGGER = logging.getLogger("indextables")

Writer: TypeAlias = Literal["process", "stream", "batch", "driver"]
"""Who has written: a process of its own, a batch of a Spark stream, a write of Spark, or a driver of Spark itself."""

_ROUNDS = 3
"""Who waits for the end of the work waits for what follows from it too, but not for ever beside other writers."""

_SOONER = 3
"""So many versions before enough small splits can have come, somebody looks whether they have."""

_TURN, _WHOLE = 3_303_119_265, 1 << 32
"""Its multiples fall evenly on the whole, and so do those of every so many versions: no period keeps out of a part."""

_OVERDUE = 3
"""So many times as many new files as make a merge due, while one runs, show that merges fall behind."""

# Whatever goes wrong after a write is not the write's: the rows are committed by then, and who was told otherwise would
# write them again. That includes bytes that Arrow refuses and want of threads, memory or disk.
_NOT_THE_WRITES = Exception

_Kind: TypeAlias = Literal["merge", "purge"]


class _Running:
    """Work at one place: what tells that it has ended, once it is in the background.

    It began after `version` was written. `missed` is the newest write that would have looked what is due, had nobody
    been at it: when the work ends, that is looked for. Else nobody would after the last of many writes.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.ended: Future[None] | None = None
        self.missed: _Work | None = None


_BUSY: dict[tuple[str, _Kind], _Running] = {}
"""Where which work runs."""

_MEMORY = process.declare(
    process.Memory(
        name="work after writes",
        where=f"{__name__}._BUSY",
        key="URL of the table, and what is done",
        bound="what runs",
        fork="the child forgets it: it runs in the parent, whose lease other processes heed",
        ends="when the work ends",
        after_fork=_BUSY.clear,
    )
)


def after_write(log: Log, metadata: Metadata, version: int, added: int, by: Writer = "process") -> None:
    """To be called when `version` is committed, with so many new files. `metadata` is for the table's properties."""
    options = log.env.over(metadata.configuration)
    _follow(log, options, version, added, by, looks=_looks(options, version, added, by))


def after_change(log: Log, report: ChangeReport, by: Writer = "process", metadata: Metadata | None = None) -> None:
    """As `after_write`, of a change of rows: files that have lost many rows are to be written anew.

    `metadata` is the table's, where the caller has it; else it is read.
    Nothing follows a change that made no version, and no merge one that neither brought nor thinned out a file.
    """
    version, added, sparse = report.version, report.added_files, report.sparse_files
    if version is None:
        return
    try:
        known = log.metadata_at().metadata if metadata is None else metadata
        options = log.env.over(known.configuration)
    except _NOT_THE_WRITES as error:
        _LOGGER.warning("nothing is merged at %s after a change: %s", log.url, str(error) or type(error).__name__)
        return
    looks = _is_kept(options, by) if sparse else bool(added) and _looks(options, version, added, by)
    _follow(log, options, version, added, by, looks=looks)


def settle(url: str) -> None:
    """Wait until nothing runs that writes of this process to the table at `url` have begun in the background."""
    for _ in range(_ROUNDS):
        with _MEMORY.lock:
            running = [work.ended for (place, _), work in _BUSY.items() if place == url and work.ended is not None]
        wait(running)


def _follow(log: Log, options: Options, version: int, added: int, by: Writer, *, looks: bool) -> None:
    work = _Work(log, options, version, added, by)
    try:
        merges = looks and work.begin("merge")
        purges = _purge_is_due(log, version, options) and work.begin("purge")
        if not (merges or purges):
            return
        merges_later, purges_later = not work.merge_is_awaited, options[opt.PURGE_ON_WRITE_ASYNC]
        if (merges and not merges_later) or (purges and not purges_later):
            # The write waits for what it is asked to wait for, and for nothing else.
            purges = work.at_once(merges=merges and not merges_later, purges=purges, purges_later=purges_later)
        merges = merges and merges_later
        if merges or purges:
            work.hand_over("upkeep", merges=merges, purges=purges)
    finally:
        # Also where somebody interrupts it: later writes of this process look again.
        if not work.is_handed_over:
            work.end()


def _looks(options: Options, version: int, added: int, by: Writer) -> bool:
    """True if the writer of this version looks whether a merge is due: asks no store, and needs no memory. Pure.

    Every version has one writer, and that one asks; a little more often than a merge becomes due, so that writers which
    never look are not in step with it. Deletes may be, which add no file: so some other versions look, in no period.
    """
    every = max(1, (options[opt.MERGE_ON_WRITE_MIN_SPLITS] - _SOONER) // max(1, added))
    return _is_kept(options, by) and (version % every == 0 or version * _TURN % _WHOLE < _WHOLE // (2 * every))


def _is_kept(options: Options, by: Writer) -> bool:
    """True if the table merges after writes of this kind. Pure."""
    enabled = options[opt.MERGE_ON_WRITE_ENABLED]
    return enabled and (by in ("process", "stream") or options.given(opt.MERGE_ON_WRITE_ENABLED))


class _Work:
    """What one write is followed by."""

    def __init__(self, log: Log, options: Options, version: int, added: int, by: Writer) -> None:
        self._log = log
        self._options = options
        self._version = version
        self._added = added
        self._by: Writer = by
        self._begun: list[tuple[str, _Kind]] = []
        self.is_handed_over = False

    def begin(self, kind: _Kind) -> bool:
        """True if this process does not do it already."""
        place = (self._log.url, kind)
        with _MEMORY.lock:
            running = _BUSY.get(place)
            if running is not None:
                if not self.merge_is_awaited:
                    running.missed = self
                return False
            self._begun.append(place)
            _BUSY[place] = _Running(self._version)
        return True

    def end(self) -> None:
        """Let the next write do it, or at once what was missed meanwhile."""
        with _MEMORY.lock:
            ended = [(kind, _BUSY.pop((url, kind), None)) for url, kind in self._begun]
            self._begun.clear()
        for kind, running in ended:
            if kind == "merge" and running is not None and running.missed is not None:
                running.missed.catch_up(running.version)

    def catch_up(self, version: int) -> None:
        """Look in the background what there is to merge, as it would have been done after this write.

        Merges that began after `version` have ended just now. If too much came meanwhile, others on this machine leave
        them no time to stand back.
        """
        least = _OVERDUE * self._options[opt.MERGE_ON_WRITE_MIN_SPLITS]
        pool: Pool = "overdue" if (self._version - version) * self._added >= least else "upkeep"
        if self.begin("merge"):
            self.hand_over(pool, merges=True, purges=False)
            if not self.is_handed_over:
                self.end()

    def hand_over(self, pool: Pool, *, merges: bool, purges: bool) -> None:
        """Do it in the background, unless this process is about to end: the next writer will find it due then."""
        try:
            ended = self._log.env.ambient.submit(pool, lambda: self.quietly(merges=merges, purges=purges))
        except RuntimeError as error:
            _LOGGER.info("nothing is merged or purged at %s now: %s", self._log.url, error)
            return
        self.is_handed_over = True
        with _MEMORY.lock:
            # It may have ended there already.
            for place in self._begun:
                _BUSY[place].ended = ended

    @property
    def merge_is_awaited(self) -> bool:
        """True if the write waits: it is asked to, or Spark has a process for it that is ended with it."""
        return self._by in ("stream", "batch") or not self._options[opt.MERGE_ON_WRITE_ASYNC]

    def quietly(self, *, merges: bool, purges: bool) -> None:
        """What is due, in the background."""
        try:
            self.at_once(merges=merges, purges=purges, purges_later=False)
        finally:
            self.end()

    def at_once(self, *, merges: bool, purges: bool, purges_later: bool) -> bool:
        """Merge, then purge if that is due, by itself or after the merge; True if it is left for later."""
        log = self._log
        try:
            merged = self._merged() if merges else []
            due = purges or _purges_after(self._options, merged)
            if due and not purges_later:
                _purge_unasked(log)
        except _NOT_THE_WRITES as error:
            _LOGGER.log(
                self._weight, "%s was not purged after a write: %s", log.url, str(error) or type(error).__name__
            )
            return False
        return due and purges_later

    def _merged(self) -> list[int]:
        log = self._log
        try:
            # Most writes never get here: what merging needs is loaded when it is needed.
            from indextables.table.upkeep import allowance, merge_if_due

            return merge_if_due(log, allowance(log.env.ambient, self._options, self._added, self._by))
        except _NOT_THE_WRITES as error:
            why = str(error) or type(error).__name__
            _LOGGER.log(self._weight, "small splits of %s were not merged after a write: %s", log.url, why)
            return []

    @property
    def _weight(self) -> int:
        """How much it matters what goes wrong: nothing is wrong with a process that ends."""
        return logging.INFO if self._log.env.ambient.gives_up() else logging.WARNING


def _purges_after(options: Options, merged: list[int]) -> bool:
    """True if these versions of a merge are followed by a purge. Pure.

    Where every write is followed by a merge, the rounds may all end with versions of merges.
    """
    wanted = options[opt.PURGE_ON_WRITE_ENABLED] and options[opt.PURGE_ON_WRITE_AFTER_MERGE]
    return bool(merged) and (wanted or any(_ends_round(version, options) for version in merged))


def _purge_is_due(log: Log, version: int, options: Options) -> bool:
    """True after the commit of a version that ends a round of `purgeOnWrite.triggerAfterWrites`; asks no store.

    Every version has one writer, and that one asks: no counter is needed, and no process counts for another.
    """
    try:
        return _ends_round(version, options)
    except InvalidArgument as error:
        _LOGGER.warning("%s was not purged after a write: %s", log.url, error)
        return False


def _ends_round(version: int, options: Options) -> bool:
    """True if a purge is due after this version, whoever made it. Pure."""
    if not options[opt.PURGE_ON_WRITE_ENABLED]:
        return False
    every = options[opt.PURGE_ON_WRITE_AFTER_WRITES]
    return every > 0 and version > 0 and version % every == 0


def _purge_unasked(log: Log) -> int:
    """Purge with the retention for purge on write; how many objects went. One process at a time. Raises as `purge`."""
    from indextables.table.maintenance.purge import purge
    from indextables.table.requests import Purge
    from indextables.table.running import Threads

    env = table_env(log.env, log.metadata_at().metadata)
    report = purge(
        log,
        Purge(
            older_than_hours=env.options[opt.PURGE_ON_WRITE_SPLIT_RETENTION_HOURS],
            tx_log_retention_hours=env.options[opt.PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS],
        ),
        runner=Threads(env, "upkeep"),
        parameters={"auto": "purgeOnWrite"},
    )
    return report.deleted
