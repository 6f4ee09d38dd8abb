"""Stores what JSON and Parquet checkpoints have no action for: tokens, live skips, in-commit time and totals.

It travels as one `domainMetadata` action of the domain `indextables.state`, whose configuration is the JSON of
`Extras`. The domain belongs to the checkpoint: it is no domain of the table and shows in no `TableState.domains`.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from indextables.errors import CheckpointCorrupt
from indextables.log.wire import DomainMetadata, MergeSkip, StateTotals, TableState, Tokens, TokenWindow

__all__ = ["STATE_DOMAIN", "Extras", "decode_extras", "encode_extras", "pack_tokens", "unpack_tokens"]

STATE_DOMAIN = "indextables.state"


class Extras(msgspec.Struct, frozen=True, omit_defaults=True):
    """The configuration of the domain. `tokens` is Base64 of 16 bytes a version; zeros stand for "no token"."""

    version: int
    tableId: str
    numFiles: int
    totalBytes: int
    setHash: str | None = None
    inCommitTimestamp: int | None = None
    tokensFrom: int | None = None
    tokens: str | None = None
    skips: list[MergeSkip] = []

    @property
    def totals(self) -> StateTotals:
        return StateTotals(num_files=self.numFiles, total_bytes=self.totalBytes, set_hash=self.setHash)

    @property
    def window(self) -> TokenWindow | None:
        """Raises CheckpointCorrupt."""
        return unpack_tokens(self.tokensFrom, self.tokens, self.version)


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_DECODER = msgspec.json.Decoder(Extras)


def encode_extras(state: TableState, totals: StateTotals) -> DomainMetadata:
    """The action that carries them."""
    tokens = state.tokens
    extras = Extras(
        version=state.version,
        tableId=state.metadata.id,
        numFiles=totals.num_files,
        totalBytes=totals.total_bytes,
        setHash=totals.set_hash,
        inCommitTimestamp=state.in_commit_timestamp,
        tokensFrom=None if tokens is None else tokens.first,
        tokens=None if tokens is None else pack_tokens(tokens),
        skips=list(state.skips.values()),
    )
    return DomainMetadata(domain=STATE_DOMAIN, configuration=msgspec.json.encode(extras).decode())


def decode_extras(action: DomainMetadata, key: str) -> Extras:
    """Raises CheckpointCorrupt; `key` names the checkpoint."""
    try:
        return _DECODER.decode(action.configuration)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{key} carries a broken domain {STATE_DOMAIN}: {error}"
        raise CheckpointCorrupt(message, path=key, reason=str(error)) from error


def pack_tokens(window: TokenWindow) -> str:
    """Base64 of the tokens as they are packed."""
    tokens = window.tokens if isinstance(window.tokens, Tokens) else Tokens(more=window.tokens)
    return base64.b64encode(tokens.packed).decode()


def unpack_tokens(first: int | None, text: str | None, version: int) -> TokenWindow | None:
    """None where the checkpoint carries no tokens. Raises CheckpointCorrupt unless the window ends at `version`."""
    if first is None or text is None:
        return None
    try:
        tokens = Tokens(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        message = f"the tokens of checkpoint {version} are not Base64 of whole tokens"
        raise CheckpointCorrupt(message, version=version, reason=str(error)) from error
    if first < 0 or first + len(tokens) != version + 1:
        message = f"the tokens of checkpoint {version} cover {first}..{first + len(tokens) - 1}, not up to {version}"
        raise CheckpointCorrupt(message, version=version, reason=message)
    return TokenWindow(first=first, tokens=tokens)
