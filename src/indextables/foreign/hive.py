"""Reads partition values from the names of folders (`day=2026-01-31/`), as Hive began it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa

from indextables.errors import NotSupported
from indextables.lazy import pc
from indextables.query.partition import partition_from_text

__all__ = ["is_hidden", "partitions_of", "typed_values"]

_WHOLE = r"^-?[0-9]{1,18}$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


def is_hidden(key: str) -> bool:
    """True for what lies beside the rows: names that begin with a dot, or with `_` and name no partition."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in key.split("/"))


def partitions_of(keys: Sequence[str], url: str) -> dict[str, list[str]]:
    """The partition columns in the order of folders, each with its text, as the folder spells it, for every file.

    Raises NotSupported where files lie in folders of different columns.
    """
    folders = [key.rpartition("/")[0] for key in keys]
    read = {folder: _pairs(folder) for folder in set(folders)}
    names = [name for name, _ in read[folders[0]]] if folders else []
    for key, folder in zip(keys, folders, strict=True):
        found = [name for name, _ in read[folder]]
        if found != names or len({name.lower() for name in found}) != len(found):
            message = (
                f"the files below {url} are not partitioned alike: {keys[0]} by {', '.join(names) or 'nothing'}, {key} "
                f"by {', '.join(found) or 'nothing'}; open the folder that holds one table"
            )
            raise NotSupported(message, url=url, path=key)
    texts = {folder: [text for _, text in pairs] for folder, pairs in read.items()}
    return {name: [texts[folder][at] for folder in folders] for at, name in enumerate(names)}


def typed_values(texts: Sequence[str], kind: pa.DataType | None) -> pa.Array:
    """The values of a partition column: of the type `kind` if that is known, else whole numbers, dates or texts.

    Where a text is no such value, all stay texts.
    """
    plain, _ = partition_from_text(pa.array(texts, pa.string()), pa.string(), escaped=True)
    values, known = partition_from_text(plain, kind or _kind(plain.drop_null()))
    return values if pc.all(known, min_count=0).as_py() else plain


def _pairs(folder: str) -> list[tuple[str, str]]:
    pairs = []
    for part in folder.split("/"):
        name, sign, text = part.partition("=")
        if sign and name:
            pairs.append((unquote(name), text))
    return pairs


def _kind(texts: pa.Array) -> pa.DataType:
    for pattern, kind in ((_WHOLE, pa.int64()), (_DATE, pa.date32())):
        if len(texts) and pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            return kind
    return pa.string()
