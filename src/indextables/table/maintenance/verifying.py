"""Does a table keep its promises? The log by its own rules, and of each split whether it is the one that the log names.

Nothing is changed, and no row is read unless rules are to be checked: the footer, the directory of the index and the
deletion vector of a split tell.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import DvCorrupt, ObjectNotFound, PathEscape, SplitError
from indextables.log.care import VerifyReport
from indextables.log.care import verify as verify_log
from indextables.split.file import SplitReader
from indextables.table.maintenance.rules_kept import broken_rules
from indextables.table.read import refs_of
from indextables.table.requests import Verify

__all__ = ["verify_table"]

_AT_A_TIME = 1_024


def verify_table(env: Env, request: Verify) -> VerifyReport:
    """Check every file of the log; where it is asked for also every live split, and whether rows keep the rules.

    Raises TableNotFound, StoreError; everything else is a finding of the report.
    """
    report = verify_log(env, data_files=request.data_files, look=_wrong_splits)
    if not request.rules:
        return report
    return msgspec.structs.replace(report, findings=(*report.findings, *broken_rules(env)))


def _wrong_splits(env: Env, files: pa.Table) -> Iterator[tuple[str, str]]:
    """The paths of files that are not what the log says, each with the reason."""

    def one(file: pa.Table) -> str | None:
        try:
            # Footer and directory, whatever the columns are called.
            for ref in refs_of(env, file, pa.schema([])):
                reader = SplitReader(env.store, ref)
                _ = reader.footer, reader.directory
        except ObjectNotFound as error:
            return f"{error}; restore it"
        except (SplitError, DvCorrupt, PathEscape) as error:
            return str(error)
        return None

    for start in range(0, files.num_rows, _AT_A_TIME):
        batch = files.slice(start, _AT_A_TIME)
        told = env.ambient.map("splits", one, [batch.slice(row, 1) for row in range(batch.num_rows)])
        for path, why in zip(batch["path"].to_pylist(), told, strict=True):
            if why is not None:
                yield path, why
