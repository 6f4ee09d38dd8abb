"""IndexTables: ACID tables that are scanned like Parquet and searched like a search engine."""

from __future__ import annotations

__all__: list[str] = []
