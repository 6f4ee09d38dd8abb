"""The predicate over deletion vectors: which files it knows by size, and which by name."""

from __future__ import annotations

from indextables.spark.alive import alive_predicate
from indextables.split.file import SplitRef, dv


def ref(name: str, size: int | None, *gone: int) -> SplitRef:
    return SplitRef(f"splits/{name}", size, num_rows=10, vector=dv.encode(gone) if gone else None)


def knows_by_size(refs: list[SplitRef], plain: list[SplitRef]) -> bool:
    text = alive_predicate(refs, plain)
    assert ("file_size" in text) is not ("file_name" in text)
    return "file_size" in text


def test_files_are_known_by_size_where_no_other_has_that_size():
    assert knows_by_size([ref("a", 5, 1), ref("b", 6, 1)], [])
    assert knows_by_size([ref("a", 5, 1)], [ref("b", 6), ref("c", 6)])


def test_files_are_known_by_name_where_sizes_are_shared_or_not_known():
    assert not knows_by_size([ref("a", 5, 1), ref("b", 5, 2)], [])
    assert not knows_by_size([ref("a", 5, 1)], [ref("b", 5)])
    assert not knows_by_size([ref("a", None, 1)], [ref("b", 5)])
    assert not knows_by_size([ref("a", 5, 1)], [ref("b", None)])
    assert not knows_by_size([ref("a", 0, 1)], [ref(f"p{n}", n) for n in range(1, 2_000)])


def test_sizes_of_all_files_are_listed_and_any_other_ends_the_query():
    text = alive_predicate([ref("a", 5, 1)], [ref("b", 6), ref("c", 7)])
    assert "file_size IN (6L, 7L)" in text
    assert "ELSE raise_error(" in text
