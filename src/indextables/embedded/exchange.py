"""`Exchange` is how other tools take a table: as an Arrow stream, a pandas frame, a value that can be pickled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from indextables.embedded.handle import Handle
from indextables.embedded.sent import Sent, arrived
from indextables.errors import not_installed
from indextables.lazy import LazyModule
from indextables.log.care import open_log
from indextables.log.read import check_ours
from indextables.log.wire import token_of
from indextables.table.environment import open_env
from indextables.table.read import count, plain_schema, scan_table

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import pandas as pd
    import polars as pl
    import pyarrow.dataset as ds

    from indextables.table import after_write as after_verb
else:
    after_verb = LazyModule("indextables.table.after_write")

__all__ = ["Exchange"]


class Exchange(Handle, Sent):
    """The methods of a table by which other tools take its rows, or the table itself."""

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Read the same rows as `scan` into a pandas DataFrame.

        Raises as `scan`, and NotInstalled where there is no pandas.
        """
        try:
            import pandas as pd  # noqa: F401 - before anything is read
        except ModuleNotFoundError as error:
            raise not_installed("Table.to_pandas", error) from error
        return self._answer(
            lambda snapshot: scan_table(self._log.env, snapshot, columns, self._predicate(where), limit)
        ).read_pandas()

    def to_dataset(self) -> ds.Dataset:
        """Show the files of this version as a dataset of pyarrow, for engines that plan over one (DuckDB, DataFusion).

        They read the Parquet pages themselves, and push columns, filters and partition values into it. It stands for
        this version: what is written later is not in it, and a purge may take its files.

        Raises NotSupported where files hold rows that are deleted (`to_polars` and `scan` leave them out), or columns
        under other names.
        """
        from indextables.table.read import dataset_of

        return self._answer(lambda snapshot: dataset_of(self._log.env, snapshot))

    def to_polars(self, search: str | None = None) -> pl.LazyFrame:
        """Offer this version to Polars as a lazy frame; with `search`, the rows that match, with a column `_score`.

        Only the columns and rows that a query needs are read: columns, comparisons with values, tests for null and a
        number of rows go into the table. Nothing is read before `collect`.

        Raises ModuleNotFoundError where there is no Polars, and while it is collected what `scan` and `search` raise.
        """
        from indextables.embedded.frames import lazy_frame

        # The frame stands for this version, wherever this handle goes.
        snapshot = self._seen
        schema = plain_schema(snapshot.schema, snapshot.schema.names)
        return lazy_frame(type(self)(self._log, snapshot), schema, search)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow C stream, by which Polars, DuckDB, pandas, pyarrow and others take a table."""
        reader = self._answer(lambda snapshot: scan_table(self._log.env, snapshot, None, None, None))
        return reader.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The columns as an Arrow C schema."""
        schema = self._seen.schema
        return plain_schema(schema, schema.names).__arrow_c_schema__()

    def __len__(self) -> int:
        """The number of rows of this version; no file is opened."""
        return self._answer(lambda snapshot: count(self._log.env, self._searchers, snapshot, None, None))

    def __bool__(self) -> bool:
        """True: a table without rows is a table."""
        return True

    def close(self) -> None:
        """Let go of what this handle holds, and wait for what writes of this process have begun in the background.

        A version that it protects from purge is free. Merges and purges that follow writes to this table are over, so
        that its folder can be moved or deleted. The handle can still be used.
        """
        with self._lock:
            lease, self._reading = self._reading, None
        if lease is not None:
            lease.release()
        after_verb.settle(self._log.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Exchange], tuple[object, ...]]:
        """A handle is its URL, its version and the options that were given, credentials among them.

        With it goes the token of the commit that made the version: the copy reads no other one of its number.
        """
        told = self._told()
        if told is None:
            env, snapshot = self._log.env, self._seen
            token = token_of(snapshot.state.tokens, snapshot.version)
            told = (env.store.url, dict(env.options.asked), snapshot.version, snapshot.table_id, token)
        return arrived, (type(self), *told)

    def _open_sent(self, *told: Any) -> None:
        """Raises as `indextables.open`, and TableReplaced if another table is there now.

        Its reads raise VersionExpired where a copy of the table was put back that has another version of this number.
        """
        url, options, version, table_id, token = told
        log = open_log(open_env(url, options)).of_table(table_id)
        snapshot = log.snapshot(version).checked(lambda state: check_ours(log.env, state, token))
        Handle.__init__(self, log, snapshot)
