"""Tells which file in the log folder is what: keys from versions, and back."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import msgspec

from indextables.errors import InvalidArgument
from indextables.storage.store import LOG_DIR, ObjectMeta

__all__ = [
    "LOG_DIR",
    "MANIFEST_DIR",
    "MAX_VERSION",
    "POINTER_KEY",
    "SEQUENCE_DIR",
    "FileIdentity",
    "FileKind",
    "LogFile",
    "check_whole",
    "checkpoint_keys",
    "claim_key",
    "crc_key",
    "identity",
    "intent_key",
    "json_checkpoint_key",
    "json_checkpoint_part_key",
    "manifest_key",
    "parquet_checkpoint_key",
    "parquet_checkpoint_part_key",
    "parse_key",
    "sequence_dir",
    "state_dir",
    "state_key",
    "version_key",
]

MANIFEST_DIR = LOG_DIR + "manifests/"
SEQUENCE_DIR = LOG_DIR + "_sequences/"
POINTER_KEY = LOG_DIR + "_last_checkpoint"
MAX_VERSION = 2**63 - 1

FileKind = Literal[
    "version",
    "crc",
    "json-checkpoint",
    "json-checkpoint-part",
    "parquet-checkpoint",
    "parquet-checkpoint-part",
    "flat-checkpoint",
    "state",
    "manifest",
    "pointer",
    "intent",
    "claim",
]


class FileIdentity(NamedTuple):
    """What a store tells of a file, which no later file of the same name shares."""

    size: int
    modified_ms: int
    etag: str | None

    @property
    def text(self) -> str | None:
        """All of it as a text; None where the store tells no tag."""
        return None if self.etag is None else f"{self.size} {self.modified_ms} {self.etag}"


class LogFile(msgspec.Struct, frozen=True):
    """A key of the log folder whose name follows the protocol.

    `version` is -1 for kinds that belong to no version (manifest, pointer, intent, claim). `part` counts from 1 and
    `parts` is the total where the name tells it. `id` is the set of a JSON part, the name of a manifest or of an
    intent, the column of a claim.
    """

    kind: FileKind
    key: str
    version: int = -1
    part: int | None = None
    parts: int | None = None
    id: str | None = None


def check_whole(what: str, value: object) -> None:
    """Raises InvalidArgument unless `value` is a whole number; whether it is one that exists is for others to say."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgument(f"{what} is a whole number, not {value!r}", argument=what)


def version_key(version: int) -> str:
    """The slot of a version."""
    return f"{LOG_DIR}{_digits(version)}.json"


def crc_key(version: int) -> str:
    """The check file of a version."""
    return f"{LOG_DIR}{_digits(version)}.crc"


def json_checkpoint_key(version: int) -> str:
    """A JSON checkpoint in one file, or the head of one in parts."""
    return f"{LOG_DIR}{_digits(version)}.checkpoint.json"


def checkpoint_keys(version: int) -> tuple[str, ...]:
    """The names of the checkpoints of a version that are known without a listing, one for each format."""
    return (state_key(version), parquet_checkpoint_key(version), json_checkpoint_key(version))


def json_checkpoint_part_key(version: int, checkpoint_id: str, part: int) -> str:
    """Part `part` (from 1) of the JSON checkpoint `checkpoint_id`."""
    return f"{LOG_DIR}{_digits(version)}.checkpoint.{checkpoint_id}.{part:05d}.json"


def parquet_checkpoint_key(version: int) -> str:
    """A Parquet checkpoint in one file."""
    return f"{LOG_DIR}{_digits(version)}.checkpoint.parquet"


def parquet_checkpoint_part_key(version: int, part: int, parts: int) -> str:
    """Part `part` (from 1) of `parts` of a Parquet checkpoint."""
    return f"{LOG_DIR}{_digits(version)}.checkpoint.{part:010d}.{parts:010d}.parquet"


def state_dir(version: int) -> str:
    """The folder of an Avro state, with its trailing slash."""
    return f"{LOG_DIR}state-v{_digits(version)}/"


def state_key(version: int) -> str:
    """The file that makes an Avro state exist."""
    return state_dir(version) + "_manifest.avro"


def manifest_key(manifest_id: str) -> str:
    """A shared manifest."""
    return f"{MANIFEST_DIR}manifest-{manifest_id}.avro"


def intent_key(intent_id: str) -> str:
    """What a live writer or reader protects."""
    return f"{LOG_DIR}_intents/{intent_id}.json"


def sequence_dir(field: int) -> str:
    """Where the claims of an identity column lie, by the permanent id of the column, with its trailing slash."""
    return f"{SEQUENCE_DIR}{field}/"


def claim_key(field: int, first: int) -> str:
    """The claim of places of a sequence from `first` on."""
    return f"{sequence_dir(field)}{first:020d}"


def parse_key(key: str) -> LogFile | None:
    """What `key` is, or None for anything whose name does not follow the protocol exactly.

    Versions are 20 ASCII digits and at most 2^63 - 1; a `state-v` folder is also read unpadded.
    """
    if not key.startswith(LOG_DIR):
        return None
    name = key[len(LOG_DIR) :]
    if name[:1].isdigit():
        return _parse_numbered(key, name)
    if key == POINTER_KEY:
        return LogFile("pointer", key)
    for kind, pattern in _NAMED:
        match = pattern.fullmatch(name)
        if match is None:
            continue
        if kind in {"manifest", "intent", "claim"}:
            return LogFile(kind, key, id=match[1])
        version = int(match[1])
        return LogFile(kind, key, version) if version <= MAX_VERSION else None
    return None


_ID = r"([0-9A-Za-z-]{1,64})"
_NUMBERED = re.compile(
    r"([0-9]{20})\.(?:(json|crc|checkpoint\.json|checkpoint\.parquet)"
    rf"|checkpoint\.{_ID}\.([0-9]{{5}})\.json"
    r"|checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet)"
)
_NAMED: tuple[tuple[FileKind, re.Pattern[str]], ...] = (
    ("state", re.compile(r"state-v([0-9]{1,20})/_manifest\.avro")),
    ("manifest", re.compile(rf"manifests/manifest-{_ID}\.avro")),
    ("intent", re.compile(rf"_intents/{_ID}\.json")),
    ("claim", re.compile(r"_sequences/([1-9][0-9]{0,17})/[0-9]{20}")),
    ("flat-checkpoint", re.compile(r"_checkpoints/([0-9]{1,20})\.checkpoint\.parquet")),
)
_SIMPLE: dict[str, FileKind] = {
    "json": "version",
    "crc": "crc",
    "checkpoint.json": "json-checkpoint",
    "checkpoint.parquet": "parquet-checkpoint",
}


def _parse_numbered(key: str, name: str) -> LogFile | None:
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return None
    version = int(match[1])
    if version > MAX_VERSION:
        return None
    if match[2] is not None:
        return LogFile(_SIMPLE[match[2]], key, version)
    if match[3] is not None:
        part = int(match[4])
        return LogFile("json-checkpoint-part", key, version, part=part, id=match[3]) if part else None
    part, parts = int(match[5]), int(match[6])
    if not 1 <= part <= parts:
        return None
    return LogFile("parquet-checkpoint-part", key, version, part=part, parts=parts)


def _digits(version: int) -> str:
    if not 0 <= version <= MAX_VERSION:
        message = f"a version is a number from 0 to 2^63 - 1, not {version}"
        raise ValueError(message)
    return f"{version:020d}"


def identity(meta: ObjectMeta) -> FileIdentity:
    """What tells a file from a later one of the same name."""
    return FileIdentity(meta.size, meta.modified_ms, meta.etag or None)
