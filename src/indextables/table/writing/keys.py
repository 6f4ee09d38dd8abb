"""Tells which objects the entries of the log name: data files, and files of deletion vectors."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.wire import PathRule, canonical_paths, combined, decode_path, text_array
from indextables.split.file import dv

__all__ = ["data_keys", "keys_of_paths"]


def data_keys(files: pa.Table, root_url: str, rule: PathRule) -> pa.Array:
    """The keys of data files and of vector files that rows of `add` or `remove` name. Raises PathEscape, DvCorrupt."""
    keys = keys_of_paths(files["path"], root_url, rule)
    vectors = combined(files["deletionVector"])
    if vectors.null_count == len(vectors):
        return keys
    held = vectors.drop_null()
    named = held.filter(pc.equal(pc.struct_field(held, "storageType"), "u"))
    texts = pc.unique(pc.struct_field(named, "pathOrInlineDv")).to_pylist()
    return pa.concat_arrays([keys, text_array([dv.file_key(text, "a logged vector") for text in texts])])


def keys_of_paths(paths: pa.Array | pa.ChunkedArray, root_url: str = "", rule: PathRule = PathRule.ENCODED) -> pa.Array:
    """The keys that logged paths name. Folders repeat, so that each is decoded once. Raises PathEscape."""
    column = canonical_paths(paths, root_url, rule)
    if rule is PathRule.ON_DISK:
        return column
    escaped = pc.match_substring(column, "%")
    if not pc.any(escaped, min_count=0).as_py():
        return column
    odd = column.filter(escaped)
    parts = pc.split_pattern(odd, "/", max_splits=1, reverse=True)
    if not pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        return pc.replace_with_mask(column, escaped, text_array([decode_path(path) for path in odd.to_pylist()]))
    folders = pc.list_element(parts, 0).dictionary_encode()
    names = pc.list_element(parts, 1)
    decoded = text_array([decode_path(folder) for folder in folders.dictionary.to_pylist()])
    if pc.any(pc.match_substring(names, "%"), min_count=0).as_py():
        names = text_array([decode_path(name) for name in names.to_pylist()])
    fixed = pc.binary_join_element_wise(decoded.take(folders.indices), names, "/")
    return pc.replace_with_mask(column, escaped, fixed)
