"""How a statement of Spark is committed, as its keywords say."""

from __future__ import annotations

from typing import Any

from indextables.errors import InvalidArgument
from indextables.table.arguments import check_flag, check_note, check_txn, check_version
from indextables.table.change import Terms

__all__ = ["terms_of"]


def terms_of(
    application: Any,
    batch: Any,
    note: Any,
    expected: Any,
    dry_run: Any,
) -> Terms:
    """How a statement is committed. Raises InvalidArgument."""
    if (application is None) != (batch is None):
        raise InvalidArgument("txnAppId and txnVersion go together: give both or neither")
    return Terms(
        txn=None if application is None else check_txn((application, batch)),
        user_metadata=check_note(note),
        expect_version=None if expected is None else check_version(expected),
        dry_run=check_flag("dryRun", dry_run),
    )
