"""Finds files of an Iceberg table in a store, and lets pyiceberg read them there, and nowhere else."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from indextables.errors import (
    CheckpointCorrupt,
    IndexTablesError,
    LimitExceeded,
    LogCorrupt,
    NotSupported,
    ObjectNotFound,
    PathEscape,
    ProtocolUnsupported,
    TableNotFound,
    not_installed,
)
from indextables.foreign.iceberg.columns import check_types
from indextables.log.checkpoint.avro import plain_container
from indextables.storage.store import Store

__all__ = ["METADATA_DIR", "Locations", "guarded", "is_metadata", "newest_metadata", "read_metadata", "store_io"]

METADATA_DIR = "metadata/"
_NAME = re.compile(METADATA_DIR + r"(?:v([0-9]{1,18})|([0-9]{1,18})-[^/]+?)(\.gz)?\.metadata\.json(\.gz)?")
_MAX_BYTES = 1 << 30
_AVRO = b"Obj\x01"
_NEWEST_FORM = 3
_SCHEMES = re.compile(r"^(s3a|s3n|abfs|wasb|wasbs)://")
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}


class _Form(msgspec.Struct):
    version: int = msgspec.field(name="format-version")


_FORM = msgspec.json.Decoder(_Form)


def is_metadata(key: str) -> bool:
    """True for the name of a metadata file of Iceberg below the root of its table."""
    return _NAME.fullmatch(key) is not None


def newest_metadata(store: Store) -> str:
    """The metadata file with the highest number. Raises NotSupported where two have it, TableNotFound for none."""
    found: dict[int, list[str]] = {}
    for meta in store.list_from(METADATA_DIR):
        match = _NAME.fullmatch(meta.key)
        if match is not None:
            found.setdefault(int(match[1] or match[2]), []).append(meta.key)
    if not found:
        raise TableNotFound(f"there is no Iceberg table at {store.url}: {METADATA_DIR} has no metadata", url=store.url)
    newest = found[max(found)]
    if len(newest) > 1:
        message = (
            f"the Iceberg table at {store.url} has two newest metadata files ({', '.join(sorted(newest))}): only its "
            "catalog knows which one counts; read it through the catalog, or delete the one that was never committed"
        )
        raise NotSupported(message, url=store.url, path=newest[0])
    return newest[0]


def read_metadata(store: Store, key: str) -> Any:
    """The table's metadata, as pyiceberg understands them. Raises LogCorrupt, LimitExceeded, NotInstalled."""
    with guarded(store.url, key):
        from pyiceberg.table.metadata import TableMetadataUtil

        data = _bounded(store, key)
        if ".gz" in key:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(_MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                raise _too_large(key, len(data))
        _check_form(data, store.url)
        return TableMetadataUtil.parse_raw(data.decode())


@contextlib.contextmanager
def guarded(url: str, what: str) -> Iterator[None]:
    """Whatever pyiceberg raises for damaged or hostile files is LogCorrupt; that it is missing is NotInstalled."""
    try:
        yield
    except IndexTablesError:
        raise
    except ModuleNotFoundError as error:
        raise not_installed("reading a table of Iceberg", error) from error
    except NotImplementedError as error:
        raise NotSupported(f"the Iceberg table at {url} is not read here: {error}", url=url) from error
    except Exception as error:
        # A library reads bytes of others here, and has no error of its own for them.
        reason = f"{type(error).__name__}: {str(error)[:300]}"
        raise LogCorrupt(
            f"{what} of the Iceberg table at {url} cannot be read: {reason}", path=what, reason=reason
        ) from error


def _check_form(data: bytes, url: str) -> None:
    """Raises NotSupported for a form of the metadata, and for types of columns, that are newer than this library."""
    check_types(data, url)
    try:
        form = _FORM.decode(data).version
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return
    if form > _NEWEST_FORM:
        message = (
            f"the Iceberg table at {url} has format version {form}, and this library reads up to {_NEWEST_FORM}: read "
            "it with the library that wrote it, or install a newer indextables"
        )
        raise ProtocolUnsupported(message, url=url, required=form, supported=_NEWEST_FORM)


class Locations:
    """Turns locations, which Iceberg writes in full, into keys of the store.

    A location counts from the one that the metadata give for the table: so a table that was moved or copied is read
    where it lies.
    """

    def __init__(self, store: Store, location: str) -> None:
        self._store = store
        self._roots = [_plain(root) + "/" for root in (location, store.url)]

    def key(self, location: str) -> str:
        """Raises PathEscape for a file that is not below the table's folder."""
        plain = _plain(location)
        for root in self._roots:
            key = plain.removeprefix(root)
            parts = key.split("/")
            if key != plain and "\0" not in key and not any(part in ("", ".", "..") for part in parts):
                return key
        message = (
            f"the Iceberg table at {self._store.url} has a file elsewhere, {location[:300]!r}: nothing outside of the "
            "table's folder is read; copy its rows with the library that wrote it"
        )
        raise PathEscape(message, path=location[:300], reason="a file elsewhere")


def store_io(store: Store, places: Locations) -> Any:
    """What pyiceberg opens files with: it reads whole ones, and writes nothing. Raises ModuleNotFoundError."""
    from pyiceberg.io import FileIO, InputFile

    class Input(InputFile):  # type: ignore[misc]
        def __len__(self) -> int:
            return store.head(places.key(self.location)).size

        def exists(self) -> bool:
            try:
                store.head(places.key(self.location))
            except ObjectNotFound:
                return False
            return True

        def open(self, seekable: bool = True) -> Any:  # noqa: ARG002, FBT001, FBT002 - as pyiceberg calls it
            key = places.key(self.location)
            return io.BytesIO(_plain_avro(_bounded(store, key), key))

    class Reading(FileIO):  # type: ignore[misc]
        def new_input(self, location: str) -> Any:
            return Input(location)

        def new_output(self, location: str) -> Any:
            raise NotSupported(f"{location} is only read here")

        def delete(self, location: Any) -> None:
            raise NotSupported(f"{location} is only read here")

    return Reading()


def _plain(location: str) -> str:
    """One spelling of a place: schemes by one name, files without one, no slash at the end."""
    text = _SCHEMES.sub(lambda match: _OTHER_NAMES[match[1]] + "://", location)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    return text.rstrip("/")


def _bounded(store: Store, key: str) -> bytes:
    size = store.head(key).size
    if size > _MAX_BYTES:
        raise _too_large(key, size)
    return store.get(key)


def _plain_avro(data: bytes, key: str) -> bytes:
    """An Avro file without compression: pyiceberg believes blocks, however long they become. Others are as they are."""
    if not data.startswith(_AVRO):
        return data
    try:
        return plain_container(data, name=key, limit=_MAX_BYTES)
    except CheckpointCorrupt as damage:
        raise LogCorrupt(str(damage), path=key, reason=str(damage)) from damage


def _too_large(key: str, size: int) -> LimitExceeded:
    message = f"{key} has {size} bytes, and no metadata of Iceberg have more than {_MAX_BYTES}"
    return LimitExceeded(message, path=key, limit=_MAX_BYTES, actual=size)
