"""`Snapshot` is the table at one version, pinned; every reader is given one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from indextables.errors import SchemaInvalid
from indextables.log.read.load import LoadSome, Make, Parts, Where
from indextables.log.wire import (
    DomainMetadata,
    MergeSkip,
    Metadata,
    Protocol,
    PrunedState,
    StateHeader,
    TableState,
    TokenWindow,
    Txn,
    bool_array,
    schema_from_json,
)
from indextables.process import Lock
from indextables.query.expr import Literal
from indextables.query.stored import stored_names

__all__ = ["Snapshot"]


class Snapshot:
    """The table at one version, pinned.

    Protocol and metadata are there from the start and the protocol is readable. The files are loaded when they are
    first asked for; VersionExpired is raised if cleanup was faster.
    """

    def __init__(
        self,
        version: int,
        protocol: Protocol,
        metadata: Metadata,
        load: Callable[[], TableState],
        load_some: LoadSome,
        history: int,
    ) -> None:
        """`load` brings the whole table, `load_some` what a read with a filter needs of it.

        `history` tells the log that this is a version of from one that was in its place before, which has a smaller
        number (`listing.Known`).
        """
        self.version = version
        self.protocol = protocol
        self.metadata = metadata
        self.history = history
        self.is_checked = False
        self._load = load
        self._load_some = load_some
        self._state: TableState | None = None
        self._header: StateHeader | None = None
        self._schema: pa.Schema | None = None
        self._lock = Lock()

    @property
    def table_id(self) -> str:
        """The table's identity."""
        return self.metadata.id

    @property
    def schema(self) -> pa.Schema:
        """The columns. Raises SchemaInvalid."""
        if self._schema is None:
            schema = schema_from_json(self.metadata.schemaString)
            for name in set(stored_names(schema)) & set(self.metadata.partitionColumns):
                message = f"the partition column {name!r} has another name in files, which partition values do not know"
                raise SchemaInvalid(message, column=name)
            self._schema = schema
        return self._schema

    @property
    def partition_columns(self) -> list[str]:
        """The partition columns, in the order of the folders."""
        return list(self.metadata.partitionColumns)

    @property
    def state(self) -> TableState:
        """Everything, the files included. Raises LogError."""
        with self._lock:
            if self._state is None:
                self._state = self._load()
            return self._state

    @property
    def header(self) -> StateHeader:
        """What the table is apart from its files; none is read where the checkpoint tells without. As `state`."""
        if self._state is not None:
            return self._state
        if self._header is None:
            self._header = self._load_some(_nothing)
        return self._header

    def checked(self, check: Callable[[TableState | PrunedState], object]) -> Snapshot:
        """The same; `check` is shown what is loaded before anybody else, and raises if it is not what is meant."""

        def load() -> TableState:
            check(self.state)
            return self.state

        def load_some(where: Where, parts: Parts | None = None) -> TableState | PrunedState:
            found = self._load_some(where, parts) if self._state is None else self._state
            check(found)
            return found

        found = Snapshot(self.version, self.protocol, self.metadata, load, load_some, self.history)
        found.is_checked = True
        return found

    def has_more_files(self, most: int) -> bool:
        """True if there are more than so many live files, by the checkpoint: its entries are not read. As `state`."""
        header = self.header
        if isinstance(header, TableState):
            return bool(header.files.num_rows > most)
        return isinstance(header, PrunedState) and header.num_entries > most

    def files_where(self, where: Where) -> pa.Table:
        """Files that may match the predicate which `where` makes of the metadata; others may be among them.

        Checkpoints leave out what their partition bounds exclude, unread. Raises LogError.
        """
        if self._state is not None:
            return self._state.files
        return self._load_some(where).files

    def gathered(self, make: Make, most: int | None = None, *, whole_partitions: bool = False) -> pa.Table:
        """What `make` makes of the live files, which it is given all at once or part by part, in any order.

        With `whole_partitions` a part has all files of some partitions. A table of more files than `most`
        (`state.filesInMemory` without) is read for it, and not kept. Raises LogError.
        """
        with self._lock:
            found: TableState | PrunedState | None = self._state
            if found is None:
                found = self._load_some(_whole, Parts(make, most, whole_partitions))
            if not isinstance(found, TableState):
                return found.files
            self._state = found
        return make(found.files)

    @property
    def files(self) -> pa.Table:
        """The live files, with `FILES_SCHEMA`."""
        return self.state.files

    @property
    def txns(self) -> dict[str, Txn]:
        """The newest batch of each application."""
        return self.header.txns

    @property
    def domains(self) -> dict[str, DomainMetadata]:
        """The named pieces of configuration."""
        return self.header.domains

    @property
    def skips(self) -> dict[str, MergeSkip]:
        """The live files that could not be merged."""
        return self.header.skips

    @property
    def tokens(self) -> TokenWindow | None:
        """The tokens of the newest commits."""
        return self.state.tokens

    @property
    def in_commit_timestamp(self) -> int | None:
        """The time of the version's commit."""
        return self.state.in_commit_timestamp

    def __repr__(self) -> str:
        return f"Snapshot(version={self.version}, table_id={self.table_id!r})"


def _whole(_: Metadata) -> None:
    """No predicate."""


def _nothing(_: Metadata) -> Literal:
    """A predicate that no file matches. `pa.scalar` would load pandas."""
    return Literal(bool_array(np.zeros(1, np.bool_))[0])
