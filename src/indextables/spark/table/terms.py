"""Turns keywords of a method of Spark into the terms on which a statement is committed."""

from __future__ import annotations

from typing import Any

from indextables.errors import InvalidArgument
from indextables.table import change
from indextables.table.arguments import check_flag
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
    txn = None if application is None else (application, batch)
    return change.terms_of(txn, note, expected, dry_run=check_flag("dryRun", dry_run))
