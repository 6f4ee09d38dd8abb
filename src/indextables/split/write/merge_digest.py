"""Are these the same rows in the same order? A digest of content that does not depend on how rows were batched."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.split.index import is_nested_list

__all__ = ["RowDigest"]


class RowDigest:
    """Running digests of every leaf: validity, lengths and bytes. Equal digests, equal rows, bit for bit.

    NaN with the same bits is equal to itself, 0.0 and -0.0 differ. Bytes under nulls do not count.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._streams: dict[str, hashlib.blake2b] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        """Take account of the rows of a batch."""
        self.rows += batch.num_rows
        for place, column in enumerate(batch.columns):
            self._add(str(place), column)

    def value(self) -> tuple[int, bytes]:
        """The number of rows, and a digest of all of them."""
        total = hashlib.blake2b(digest_size=16)
        for name in sorted(self._streams):
            total.update(name.encode() + b"\0" + self._streams[name].digest())
        return self.rows, total.digest()

    def _add(self, path: str, values: pa.Array) -> None:
        kind = values.type
        if pa.types.is_null(kind):
            return
        self._stream(f"{path}.valid", np.asarray(values.is_valid().to_numpy(zero_copy_only=False)))
        if pa.types.is_struct(kind):
            for number, child in enumerate(values.flatten()):
                self._add(f"{path}.{number}", child)
        elif pa.types.is_map(kind) or is_nested_list(kind):
            self._add_list(path, values)
        else:
            self._add_leaf(path, values.drop_null())

    def _add_list(self, path: str, values: pa.Array) -> None:
        kept = values.drop_null()
        if pa.types.is_map(kept.type):
            offsets = kept.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
            self._stream(f"{path}.length", np.diff(offsets))
            window = slice(int(offsets[0]), int(offsets[-1])) if len(kept) else slice(0, 0)
            self._add(f"{path}.key", kept.keys[window])
            self._add(f"{path}.value", kept.items[window])
        else:
            lengths = pc.list_value_length(kept).cast(pa.int64())
            self._stream(f"{path}.length", lengths.to_numpy(zero_copy_only=False))
            self._add(f"{path}.item", kept.flatten())

    def _add_leaf(self, path: str, values: pa.Array) -> None:
        kind = values.type
        if pa.types.is_boolean(kind):
            self._stream(f"{path}.data", np.asarray(values.to_numpy(zero_copy_only=False)))
        elif pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
            width = kind.byte_width
            data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
            self._stream(f"{path}.data", data[values.offset * width : (values.offset + len(values)) * width])
        else:
            wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
            lengths = pc.binary_length(values).cast(pa.int64())
            self._stream(f"{path}.length", lengths.to_numpy(zero_copy_only=False))
            offsets = np.frombuffer(values.buffers()[1] or bytes(8), np.int64 if wide else np.int32)
            start, end = (
                (int(offsets[values.offset]), int(offsets[values.offset + len(values)])) if len(values) else (0, 0)
            )
            self._stream(f"{path}.data", np.frombuffer(values.buffers()[2] or b"", np.uint8)[start:end])

    def _stream(self, name: str, data: npt.NDArray[Any]) -> None:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = hashlib.blake2b(digest_size=16)
        stream.update(np.ascontiguousarray(data).view(np.uint8).data)
