"""Sorts rows by partition: which rows go together, and what their folder is called. Pure.

The log's `partitionValues` are the truth. Folder names are for people and other tools: values are escaped as Hive does,
null and the empty text share one name, and a value that is too long for a key, or that the log would refuse in a path,
is cut and told apart by a hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import InvalidArgument, PathEscape
from indextables.lazy import pc
from indextables.log.wire import Metadata, encode_path, key_of
from indextables.query.partition import HIVE_NULL, can_partition, partition_to_text
from indextables.query.stored import identity_of

__all__ = [
    "FORMER_KEY",
    "Part",
    "check_partition_columns",
    "columns_of_folders",
    "folder_of",
    "folder_pattern",
    "partitionings",
    "remembering",
    "split_rows",
]

FORMER_KEY = "partitioning.former"
"""Property of a table: the lists of columns that it was partitioned by before, as JSON.

Files that were written so may lie around long after the last version that knew them: purge tells them by it.
"""

# As Hive and Spark: what could end a name, start an option or need quoting somewhere.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(0x20)}
_LONGEST_VALUE = 200
_LONGEST_PART = 255


class Part(msgspec.Struct, frozen=True):
    """Rows with the same partition values, which are given as the log writes them, in the order of the columns."""

    values: tuple[str | None, ...]
    rows: pa.RecordBatch


def check_partition_columns(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """The columns as the schema spells them. Raises InvalidArgument for those that cannot partition a table."""
    spelled = {name.lower(): name for name in schema.names}
    found: list[str] = []
    missing = [column for column in columns if column.lower() not in spelled]
    if missing:
        known, named = ", ".join(schema.names), ", ".join(map(repr, missing))
        what = f"partition columns {named} are" if len(missing) > 1 else f"partition column {named} is"
        message = f"{what} not in the schema: it has {known}. Say others in partition_by (partitionBy in Spark)"
        raise InvalidArgument(message, column=missing[0], columns=missing)
    for column in columns:
        name = spelled[column.lower()]
        if name in found:
            raise InvalidArgument(f"partition column {name!r} is given twice", column=name)
        if not can_partition(schema.field(name).type):
            message = f"a column of type {schema.field(name).type} cannot partition a table: {name!r}"
            raise InvalidArgument(message, column=name)
        if identity_of(schema.field(name)) is not None:
            raise InvalidArgument(f"a table cannot be partitioned by the identity column {name}", column=name)
        found.append(name)
    if found and len(found) == len(schema.names):
        raise InvalidArgument("a table needs a column that is not a partition column", columns=found)
    return found


def split_rows(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[Part]:
    """The rows of each combination of partition values, in their order, groups in order of first appearance.

    Raises InvalidArgument for the one text that other systems read as null.
    """
    if not batch.num_rows:
        return
    if not columns:
        yield Part((), batch)
        return
    texts = [partition_to_text(batch.column(batch.schema.get_field_index(name))) for name in columns]
    codes = np.zeros(batch.num_rows, np.int64)
    for name, text in zip(columns, texts, strict=True):
        encoded = pc.dictionary_encode(text, null_encoding="encode")
        if HIVE_NULL in encoded.dictionary.to_pylist():
            message = f"partition column {name!r} holds {HIVE_NULL!r}, which other systems read as null"
            raise InvalidArgument(message, column=name)
        codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.r_[True, codes[order][1:] != codes[order][:-1]])
    ends = np.r_[starts[1:], len(order)]
    groups = sorted(zip(starts, ends, strict=True), key=lambda span: int(order[span[0]]))
    for start, end in groups:
        rows = order[start:end]
        values = tuple(text[int(rows[0])].as_py() for text in texts)
        whole = len(rows) == batch.num_rows
        yield Part(values, batch if whole else batch.take(pa.array(rows)))


def folder_of(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """`date=2024-01-01/hour=10/` for the values of a part; empty without partition columns."""
    return "".join(f"{_part(name, value)}/" for name, value in zip(columns, values, strict=True))


def columns_of_folders(columns: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Which of `columns` each folder name (the text before `=`) stands for; names that stand for none are left out."""
    named: dict[str, str] = {}
    for name in columns:
        named.setdefault(_hashed(name), name)
    named |= {_escape(name): name for name in columns}
    return list(dict.fromkeys(named[folder] for folder in folders if folder in named))


def folder_pattern(columns: Sequence[str]) -> str:
    """A regular expression for every folder that `folder_of` may name, and for nothing else."""
    names = ("|".join(sorted({re.escape(_escape(name)), re.escape(_hashed(name))})) for name in columns)
    return "".join(f"(?:{name})=[^/]+/" for name in names)


def partitionings(metadata: Metadata) -> list[list[str]]:
    """Every list of columns that the table is known to be or to have been partitioned by, today's first."""
    try:
        former = _FORMER.decode(metadata.configuration.get(FORMER_KEY, "[]"))
    except msgspec.MsgspecError:
        former = []
    found: list[list[str]] = []
    for columns in (list(metadata.partitionColumns), *former):
        if columns not in found:
            found.append(columns)
    return found


def remembering(metadata: Metadata, before: Metadata) -> Metadata:
    """`metadata`, with every partitioning that `before` knows among its former ones."""
    today, *former = partitionings(metadata)
    former += [columns for columns in partitionings(before) if columns != today and columns not in former]
    if not former:
        return metadata
    told = {**metadata.configuration, FORMER_KEY: msgspec.json.encode(former).decode()}
    return msgspec.structs.replace(metadata, configuration=told)


def _part(name: str, value: str | None) -> str:
    """`column=value`; what the log would refuse as a path, or a file system as too long, is named by a hash."""
    for column in (_escape(name), _hashed(name)):
        for part in (f"{column}={_folder_value(value)}", f"{column}={_hashed(value or '')}"):
            if len(part.encode()) <= _LONGEST_PART and _is_loggable(part):
                return part
    raise AssertionError


def _is_loggable(part: str) -> bool:
    if "%" not in part:
        return True
    try:
        return key_of(encode_path(part), "") == part
    except PathEscape:
        return False


def _folder_value(value: str | None) -> str:
    if value is None or not value:
        return HIVE_NULL
    escaped = _escape(value)
    if len(escaped.encode()) <= _LONGEST_VALUE:
        return escaped
    return _hashed(value)


def _hashed(text: str) -> str:
    """What can be read of the text, and a hash that tells it apart."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return "".join(char for char in text if char.isascii() and char.isalnum())[:64] + "-" + digest


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_FORMER = msgspec.json.Decoder(list[list[str]])
