"""The predicate by which Spark leaves out rows that deletion vectors hide: files it knows by size or name. Pure.

A number is compared in half the time of a name. Sizes tell files apart where the log knows those of all files of a scan
and no other file has the size of one with a vector. All of them are listed then, also of files without a vector: one
that has another size than the log says ends the query, and does not bring rows back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from indextables.split.file import SplitRef, dv

__all__ = ["FILE_NAME", "ROW_INDEX", "alive_predicate", "alive_words", "is_set", "missing", "name_of"]

FILE_NAME, ROW_INDEX = "_metadata.file_name", "_metadata.row_index"
_SIZE = "_metadata.file_size"

_MOST_SIZES = 1_000
"""Files without a vector whose sizes stand in a predicate."""


def alive_predicate(refs: Sequence[SplitRef], plain: Sequence[SplitRef]) -> str:
    """True for rows of `refs`, which have vectors, that are alive, and for all rows of `plain`, which have none.

    The words of all files are one array, a word of ones before them. They come from a subquery: its answer is an array
    of numbers for Spark, where a literal would be one of objects, sent with each task and written into every text of
    the plan.
    """
    by_size = sizes_differ(refs, plain)
    words = [np.array([-1], dtype=np.int64)]
    cases = []
    for ref in refs:
        told = alive_words(ref)
        known = f"{_SIZE} = {ref.size}L" if by_size else f"{FILE_NAME} = '{name_of(ref.key)}'"
        # A file with more rows than the log knows must not be judged by the words of the next one.
        cases.append(f"WHEN {known} THEN if({ROW_INDEX} < {len(told) * 64}L, {sum(map(len, words))}, NULL)")
        words.append(told)
    numbers = np.concatenate(words).tolist()
    given = f"(SELECT from_json(col1, 'array<bigint>') FROM VALUES ('{numbers}'))"  # noqa: S608 - numbers only
    at = f"cast(shiftright({ROW_INDEX}, 6) as int)"
    if by_size and plain:
        sizes = ", ".join(f"{size}L" for size in sorted({ref.size for ref in plain if ref.size is not None}))
        cases.append(f"WHEN {_SIZE} IN ({sizes}) THEN -{at}")
    unknown = missing(f"'a file of ', {_SIZE}, ' bytes'" if by_size else FILE_NAME)
    rest = f"-{at}" if plain and not by_size else unknown
    first = f"CASE {' '.join(cases)} ELSE {rest} END"
    # A bit that is not found is null, and no row goes by what nobody knows.
    return f"coalesce({is_set(f'{given}[{first} + {at}]', ROW_INDEX)}, {unknown})"


def sizes_differ(refs: Sequence[SplitRef], plain: Sequence[SplitRef]) -> bool:
    """True if each of `refs` is known by its size among all files."""
    sizes = [ref.size for ref in refs]
    others = {ref.size for ref in plain}
    if None in others or None in sizes or len(others) > _MOST_SIZES:
        return False
    return len(set(sizes)) == len(sizes) and others.isdisjoint(sizes)


def is_set(word: str, row: str) -> str:
    """True if the row is alive by this word of a bitmap; null where there is none."""
    return f"(shiftright({word}, cast({row} & 63 as int)) & 1) = 1"


def missing(file: str) -> str:
    """Ends the query: a file is none that was planned."""
    return f"raise_error(concat('no deletion vector was planned for ', {file}))"


def alive_words(ref: SplitRef) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The live rows of a file as bits. Raises DvCorrupt."""
    return np.frombuffer(dv.alive_words(ref.vector, ref.num_rows or 0, ref.key), dtype=np.int64)


def name_of(key: str) -> str:
    """The name of a file, as Spark tells it."""
    return key.rpartition("/")[2]
