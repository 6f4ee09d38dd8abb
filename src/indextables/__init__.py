"""IndexTables: ACID tables that are scanned like Parquet and searched like a search engine.

    >>> import indextables
    >>> table = indextables.open("logs")              # doctest: +SKIP
    >>> table.search("message:timeout", limit=10)     # doctest: +SKIP

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indextables.embedded import Table, create
    from indextables.embedded import open_table as open  # noqa: A004 - as gzip.open and io.open
    from indextables.embedded.converting import convert
    from indextables.errors import IndexTablesError
    from indextables.spark.source import write
    from indextables.spark.table import IdentityGenerator, IndexTable
    from indextables.sql.local import LocalSession
    from indextables.sql.spark import disable, enable
    from indextables.sql.spark import run_sql as sql
    from indextables.table.maintenance import (
        cache_stats,
        invalidate_caches,
        rebuild,
        recreate_pointer,
        repair,
        verify,
    )

__all__ = [
    "IdentityGenerator",
    "IndexTable",
    "IndexTablesError",
    "LocalSession",
    "Table",
    "cache_stats",
    "convert",
    "create",
    "disable",
    "enable",
    "errors",
    "functions",
    "invalidate_caches",
    "open",
    "rebuild",
    "recreate_pointer",
    "repair",
    "sql",
    "verify",
    "write",
]

__version__ = "0.1.0"

_HOMES = {
    "IdentityGenerator": ("indextables.spark.table", "IdentityGenerator"),
    "IndexTable": ("indextables.spark.table", "IndexTable"),
    "IndexTablesError": ("indextables.errors", "IndexTablesError"),
    "LocalSession": ("indextables.sql.local", "LocalSession"),
    "Table": ("indextables.embedded", "Table"),
    "convert": ("indextables.embedded.converting", "convert"),
    "create": ("indextables.embedded", "create"),
    "disable": ("indextables.sql.spark", "disable"),
    "enable": ("indextables.sql.spark", "enable"),
    "open": ("indextables.embedded", "open_table"),
    "cache_stats": ("indextables.table.maintenance.repairing", "cache_stats"),
    "invalidate_caches": ("indextables.table.maintenance.repairing", "invalidate_caches"),
    "rebuild": ("indextables.table.maintenance.repairing", "rebuild"),
    "recreate_pointer": ("indextables.table.maintenance.repairing", "recreate_pointer"),
    "repair": ("indextables.table.maintenance.repairing", "repair"),
    "verify": ("indextables.table.maintenance.repairing", "verify"),
    "write": ("indextables.spark.source", "write"),
}

# A library is silent unless its user asks for its log.
logging.getLogger("indextables").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    # `sql` is a package that can be called.
    if name in ("errors", "functions", "sql"):
        return import_module(f"indextables.{name}")
    if name not in _HOMES:
        message = f"module 'indextables' has no attribute {name!r}"
        raise AttributeError(message)
    module, attribute = _HOMES[name]
    try:
        value = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        from indextables.errors import not_installed

        raise not_installed(f"indextables.{name}", error) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
