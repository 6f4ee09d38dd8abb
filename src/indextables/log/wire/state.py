"""`TableState` is what a checkpoint holds, whatever its format: replay starts from it and writers store it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, overload

import msgspec
import pyarrow as pa

from indextables.log.wire.actions import DomainMetadata, MergeSkip, Metadata, Protocol, Txn

__all__ = [
    "Header",
    "PrunedState",
    "StateFormat",
    "StateHeader",
    "StateRef",
    "StateTotals",
    "TableState",
    "TokenWindow",
    "Tokens",
    "header_fields",
    "token_of",
]

StateFormat = Literal["avro-state", "parquet", "json"]

_TOKEN_BYTES = 16
_NO_TOKEN = bytes(_TOKEN_BYTES)


class Tokens(Sequence[str | None]):
    """Tokens as a checkpoint packs them, 16 bytes each (zeros stand for "no token"), and some more after these.

    A checkpoint brings thousands, of which one or two are ever asked for: none is unpacked before. Equal to a tuple of
    the same tokens.
    """

    __slots__ = ("_more", "_packed")

    def __init__(self, packed: bytes = b"", more: tuple[str | None, ...] = ()) -> None:
        """Raises ValueError if `packed` ends within a token."""
        if len(packed) % _TOKEN_BYTES:
            raise ValueError(f"{len(packed)} bytes are no tokens of {_TOKEN_BYTES}")
        self._packed, self._more = packed, more

    @property
    def packed(self) -> bytes:
        """All of them, packed. One that is no 32 hexadecimal digits is none of ours and packs as "no token"."""
        return b"".join((self._packed, *map(_pack, self._more)))

    def __len__(self) -> int:
        return len(self._packed) // _TOKEN_BYTES + len(self._more)

    @overload
    def __getitem__(self, place: int) -> str | None: ...
    @overload
    def __getitem__(self, place: slice) -> Tokens: ...
    def __getitem__(self, place: int | slice) -> str | Tokens | None:
        count = len(self._packed) // _TOKEN_BYTES
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return Tokens(b"", tuple(self)[place])
            packed = self._packed[start * _TOKEN_BYTES : stop * _TOKEN_BYTES]
            return Tokens(packed, self._more[max(0, start - count) : max(0, stop - count)])
        at = range(len(self))[place]
        return _unpack(self._packed, at) if at < count else self._more[at - count]

    def __add__(self, more: tuple[str | None, ...]) -> Tokens:
        return Tokens(self._packed, self._more + more)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (tuple, Tokens)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Tokens({len(self)})"


def _pack(token: str | None) -> bytes:
    if token is None or len(token) != 2 * _TOKEN_BYTES:
        return _NO_TOKEN
    try:
        return bytes.fromhex(token)
    except ValueError:
        return _NO_TOKEN


def _unpack(packed: bytes, at: int) -> str | None:
    token = packed[at * _TOKEN_BYTES : (at + 1) * _TOKEN_BYTES]
    return None if token == _NO_TOKEN else token.hex()


class TokenWindow(msgspec.Struct, frozen=True):
    """The tokens of the versions `first` .. `first + len(tokens) - 1`, without holes, the newest last.

    `None` stands for a version whose file carried no token (written by another system).
    """

    first: int
    tokens: tuple[str | None, ...] | Tokens

    def covers(self, version: int) -> bool:
        """True if the window can say which token version `version` carries."""
        return self.first <= version < self.first + len(self.tokens)

    def token_at(self, version: int) -> str | None:
        """The token of a covered version."""
        return self.tokens[version - self.first]

    def last(self, count: int) -> TokenWindow:
        """The newest `count` of them."""
        cut = max(0, len(self.tokens) - count)
        return TokenWindow(first=self.first + cut, tokens=self.tokens[cut:])


def token_of(window: TokenWindow | None, version: int) -> str | None:
    """The token of a version, None where the window does not tell it."""
    return window.token_at(version) if window is not None and window.covers(version) else None


class StateTotals(msgspec.Struct, frozen=True):
    """What a checkpoint says about its files, to be compared with a recount."""

    num_files: int
    total_bytes: int
    set_hash: str | None = None


class Header(NamedTuple):
    """What a table is at one version, as far as everybody asks: who may use it, and its schema and properties."""

    version: int
    protocol: Protocol
    metadata: Metadata


class StateHeader(msgspec.Struct, frozen=True):
    """What a table is at one version, apart from its files.

    1. `txns`, `domains` and `skips` are keyed by application id, domain and path; removed domains are absent.
    2. `tokens` is None where the source carried none (another system's checkpoint).
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    txns: dict[str, Txn] = {}
    domains: dict[str, DomainMetadata] = {}
    skips: dict[str, MergeSkip] = {}
    tokens: TokenWindow | None = None
    in_commit_timestamp: int | None = None

    @property
    def token(self) -> str | None:
        """The token of the commit of this version, None where the source does not tell it."""
        return token_of(self.tokens, self.version)


def header_fields(known: object) -> dict[str, Any]:
    """The fields of a `StateHeader` that something with attributes of the same names has."""
    return {name: getattr(known, name) for name in StateHeader.__struct_fields__}


class TableState(StateHeader, frozen=True, kw_only=True):
    """The whole table at one version: `files` has `FILES_SCHEMA` and one row for each live path.

    Only this may be cached, checkpointed and written upon. A part of the files is a `PrunedState`, which is no
    `TableState`: mixing them up is an error of types.
    """

    files: pa.Table


class PrunedState(StateHeader, frozen=True, kw_only=True):
    """Some files of a table at one version: those that a read with a filter is about, perhaps with others.

    It answers that read, and what the table is apart from its files. `num_entries` counts the files of the checkpoint
    that it was read from, removed ones and those that were left out included.
    """

    files: pa.Table
    num_entries: int = 0


class StateRef(msgspec.Struct, frozen=True):
    """A checkpoint as found by listing: its version, its format and the keys that make it up, relative to the store.

    For Avro `keys` is the one `_manifest.avro`; for multi-part forms all parts, in order. `etag` changes when one of
    them is replaced; None where nobody told.
    """

    version: int
    format: StateFormat
    keys: tuple[str, ...]
    modified_ms: int = 0
    size: int = 0
    etag: str | None = None
