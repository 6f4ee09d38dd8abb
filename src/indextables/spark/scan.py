"""The native scan: Spark's own vectorised Parquet reader over the splits that a snapshot leaves after pruning.

Planning happens on the driver. The files go to Spark by name with the table's schema, so that nothing is inferred;
column pruning, pushed filters and code generation are Spark's; filters on floating columns are not pushed, because NaN
and -0.0 mean something else to Parquet. Rows that a deletion vector hides are dropped by row number: the words of the
bitmaps are one constant of a predicate (`alive.py`), or broadcast and joined by file where they are many, in a branch
of their own, so that files without a vector cost nothing extra. Where Spark cannot reach the files, the Python reader
gives the same rows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import InvalidArgument, ObjectNotFound, VersionExpired
from indextables.log.read import Snapshot
from indextables.query.expr import Node, walk
from indextables.query.stored import CURRENT_DEFAULT, EXISTS_DEFAULT, stored_name
from indextables.spark.alive import FILE_NAME, ROW_INDEX, alive_predicate, alive_words, is_set, missing, name_of
from indextables.spark.session import (
    HadoopPlace,
    hadoop_place,
    have_plain_names,
    jvm_errors,
    plain_reader,
    reads_otherwise,
    session_zone,
    spark_schema,
)
from indextables.split.file import Columns, SplitRef, check_identity
from indextables.table.read import check_rows_readable, column_names, planned_files, refs_of, scan_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

__all__ = ["FILE", "ROW", "addressed_scan", "means_another_zone", "native_scan"]

_LOGGER = logging.getLogger("indextables")

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MOST_LISTED_HERE = 20_000
"""More paths than this are listed by a job of Spark's, which is slower per file but does not keep the driver."""

_MOST_VECTOR_BYTES = 512 << 20
"""Bitmaps that are broadcast; tables with more deletions are read by the Python reader."""

_MOST_CONSTANTS, _MOST_CONSTANT_BYTES = 16, 512 << 10
"""Files and bytes of bitmaps that stand in a predicate: each row is compared with the files in turn."""

_MOST_ROWS_TOGETHER = 8_000_000
"""Rows of a table that is one scan although only some of its files have a vector."""

FILE, ROW, _WORDS = "_it_file", "_it_row", "_it_words"
"""Columns with the address of a row: the name of its file, and its number in it."""

_READING = {
    # Rows are never lost silently, whatever the session says.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "recursiveFileLookup": "false",
    # Days and times are written in the calendar that Arrow has.
    "datetimeRebaseMode": "CORRECTED",
}

_NO_SKIPPING = {
    "parquet.filter.stats.enabled": "false",
    "parquet.filter.columnindex.enabled": "false",
    "parquet.filter.dictionary.enabled": "false",
}

# What Spark says when there is no class for a scheme.
_NO_FILE_SYSTEM = ("No FileSystem for scheme", "UnsupportedFileSystem", "ClassNotFoundException", "NoClassDefFound")

_DEFAULTS = frozenset({CURRENT_DEFAULT, EXISTS_DEFAULT})

_CONF_LOCK = threading.Lock()


def native_scan(
    spark: SparkSession,
    env: Env,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None,
    where: Node | None,
    text: str | None,
    fallback: Mapping[str, str],
) -> DataFrame:
    """The rows of one version for which `where` (written as `text`) is true, in the columns of the table.

    `fallback` are the options that the Python reader needs in place of the environment. The DataFrame stays at this
    version. Raises NotSupported for tables of another system, InvalidArgument, VersionExpired where purge was faster,
    LogError, DvCorrupt.
    """
    check_rows_readable(snapshot, env.store.url)
    names = column_names(snapshot.schema, columns)
    if not names:
        raise InvalidArgument("columns = []: name at least one column, or use count()", columns=[])
    schema = spark_schema(snapshot.metadata.schemaString)
    stored = _stored(schema, snapshot.schema)
    place = hadoop_place(env.store.url, env.options)
    if place is None:
        return _from_memory(spark, env, snapshot, names, where, schema)
    files = planned_files(env, snapshot, where)
    by_spark = not _is_odd(schema) and not means_another_zone(spark, env, where)
    if text is not None and reads_otherwise(spark, text, snapshot.schema):
        by_spark = False
    refs = refs_of(env, files, snapshot.schema) if by_spark else []
    frame = _read_splits(spark, env, snapshot, place, refs, stored) if by_spark else None
    if frame is None:
        return _by_python_reader(spark, env.store.url, snapshot.version, _only(schema, names), text, fallback)
    if stored is not schema:
        frame = _renamed(frame, schema)
    if text is not None:
        frame = frame.where(text)
    # Each column that is named is a call into the JVM.
    return frame if names == schema.names else frame.select(*(_quoted(name) for name in names))


def addressed_scan(
    spark: SparkSession, env: Env, snapshot: Snapshot, refs: Sequence[SplitRef], more: Sequence[StructField] = ()
) -> DataFrame | None:
    """The rows of splits that no vector hides, in the columns of the table, with `more`, `FILE` and `ROW` behind them.

    `more` are columns that files may have besides; one that a split lacks is null. None if Spark cannot read them, or
    would not tell two of them apart. Raises VersionExpired where purge was faster, DvCorrupt.
    """
    from pyspark.sql.types import StructType as Struct

    schema = spark_schema(snapshot.metadata.schemaString)
    place = hadoop_place(env.store.url, env.options)
    stored = _stored(schema, snapshot.schema)
    if place is None or _is_odd(schema) or _hides_metadata(schema) or _hides_metadata(stored):
        return None
    if len({name_of(ref.key) for ref in refs}) < len(refs):
        return None
    read = Struct([*stored.fields, *more])
    frame = _read_splits(spark, env, snapshot, place, refs, read, addressed=True)
    if frame is None or stored is schema:
        return frame
    return _renamed(frame, _with_addresses(Struct([*schema.fields, *more])))


def _read_splits(
    spark: SparkSession,
    env: Env,
    snapshot: Snapshot,
    place: HadoopPlace,
    refs: Sequence[SplitRef],
    schema: StructType,
    *,
    addressed: bool = False,
) -> DataFrame | None:
    """All rows of these splits that are alive, in the columns that files have; None if Spark cannot read them."""
    if not refs:
        return spark.createDataFrame([], _with_addresses(schema) if addressed else schema)
    url = env.store.url
    others = [ref for ref in refs if ref.vector is None]
    deleted = [ref for ref in refs if ref.vector is not None]
    if env.store.is_local:
        # Spark reads whatever Parquet file lies there. On an object store a look at each would be a request more.
        try:
            check_identity(env.store, [*others, *deleted], env.ambient)
        except ObjectNotFound as error:
            raise _gone(snapshot, url) from error
    if not have_plain_names([ref.key for ref in refs]):
        return None
    if deleted and (_hides_metadata(schema) or _vector_bytes(deleted) > _MOST_VECTOR_BYTES):
        return None
    try:
        with _listing_here(spark, len(refs)):
            rows = sum(ref.num_rows or 0 for ref in refs)
            frames = _frames(spark, place, others, deleted, schema, rows=rows, addressed=addressed)
            if _is_remote(spark):
                # Connect analyses late: now, while the setting holds.
                for frame in frames:
                    _ = frame.schema
    except jvm_errors() as error:
        _check_unreachable(error, snapshot, url)
        return None
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return _unpushed(whole, schema, [FILE, ROW] if addressed else [])


def _frames(
    spark: SparkSession,
    place: HadoopPlace,
    plain: list[SplitRef],
    deleted: list[SplitRef],
    schema: StructType,
    *,
    rows: int,
    addressed: bool,
) -> list[DataFrame]:
    """Files without a vector, and those with one in branches of their own.

    A small table with few vectors is one scan of everything: planning a second one takes longer than asking each row
    whether its file has a vector.
    """
    groups = list(_unique_names(deleted))
    if len(groups) == 1 and rows <= _MOST_ROWS_TOGETHER and _are_few(deleted):
        names = {name_of(ref.key) for ref in deleted}
        if not any(name_of(ref.key) in names for ref in plain):
            return [_read_alive(spark, place, deleted, schema, plain, addressed=addressed)]
    frames = [_read(spark, place, [ref.key for ref in plain], schema)] if plain else []
    if addressed:
        frames = [_addressed(frame) for frame in frames]
    return [*frames, *(_read_alive(spark, place, group, schema, addressed=addressed) for group in groups)]


def _addressed(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    return frame.select("*", F.expr(FILE_NAME).alias(FILE), F.expr(ROW_INDEX).alias(ROW))


def _with_addresses(schema: StructType) -> StructType:
    from pyspark.sql.types import LongType, StringType
    from pyspark.sql.types import StructType as Struct

    return Struct([*schema.fields]).add(FILE, StringType()).add(ROW, LongType())


def _check_unreachable(error: Exception, snapshot: Snapshot, url: str) -> None:
    """Returns where Spark has no way to this store; raises what else went wrong."""
    told = f"{type(error).__name__}: {error}"
    if any(sign in told for sign in _NO_FILE_SYSTEM):
        _LOGGER.warning(
            "%s: Spark has no file system for it on its class path, so that the Python reader takes over", url
        )
        return
    if "PATH_NOT_FOUND" in told:
        raise _gone(snapshot, url) from error
    raise error


def _gone(snapshot: Snapshot, url: str) -> VersionExpired:
    message = f"a file of version {snapshot.version} is gone from {url}: purge was faster; read the table again"
    return VersionExpired(message, version=snapshot.version, url=url)


def _read(spark: SparkSession, place: HadoopPlace, keys: Sequence[str], schema: StructType) -> DataFrame:
    skipping = _NO_SKIPPING if _has_nested_floats(schema) else {}
    reader = spark.read.schema(schema).options(**_READING, **skipping, **place.settings)
    return reader.parquet(*place.paths(keys))


def _read_alive(
    spark: SparkSession,
    place: HadoopPlace,
    refs: Sequence[SplitRef],
    schema: StructType,
    plain: Sequence[SplitRef] = (),
    *,
    addressed: bool = False,
) -> DataFrame:
    """Files with vectors, and `plain` ones without, which go with few vectors only.

    A few small vectors stand in the predicate itself, as one array that Spark makes once; more are broadcast, which
    takes a job of its own. Among files with vectors, one that does not find its words ends the query.
    """
    rows = _read(spark, place, [ref.key for ref in (*refs, *plain)], schema)
    if not _are_few(refs):
        joined = _join_vectors(spark, rows, refs, schema)
        return joined if addressed else joined.drop(FILE, ROW)
    alive = rows.where(alive_predicate(refs, plain))
    return _addressed(alive) if addressed else alive


def _join_vectors(spark: SparkSession, rows: DataFrame, refs: Sequence[SplitRef], schema: StructType) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    names = [_quoted(name) for name in schema.names]
    told = rows.select(*names, F.expr(FILE_NAME).alias(FILE), F.expr(ROW_INDEX).alias(ROW))
    told = told.join(F.broadcast(spark.createDataFrame(_words(refs))), FILE, "left")
    alive = is_set(f"{_WORDS}[cast(shiftright({ROW}, 6) as int)]", ROW)
    return told.where(f"coalesce({alive}, {missing(FILE)})").select(*names, FILE, ROW)


def _are_few(refs: Sequence[SplitRef]) -> bool:
    return len(refs) <= _MOST_CONSTANTS and _vector_bytes(refs) <= _MOST_CONSTANT_BYTES


def _words(refs: Sequence[SplitRef]) -> pa.Table:
    """File name and live rows as 64-bit words, one row per file."""
    words = [alive_words(ref) for ref in refs]
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in words])]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(words)))
    return pa.table({FILE: pa.array([name_of(ref.key) for ref in refs]), _WORDS: lists})


def _unique_names(refs: Sequence[SplitRef]) -> Iterator[list[SplitRef]]:
    """Groups in which no two files have one name, since that is what vectors are joined by."""
    left = list(refs)
    while left:
        group: dict[str, SplitRef] = {}
        rest = []
        for ref in left:
            if name_of(ref.key) in group:
                rest.append(ref)
            else:
                group[name_of(ref.key)] = ref
        yield list(group.values())
        left = rest


def _stored(schema: StructType, table: pa.Schema) -> StructType:
    """The schema of the files: stored names, and the defaults that Spark's reader fills in where a file lacks a column.

    The same object where files have what the table has.
    """
    from pyspark.sql.types import StructField
    from pyspark.sql.types import StructType as Struct

    if Columns.of(table) is None:
        return schema
    fields = []
    for field, known in zip(schema, table, strict=True):
        told = {key.decode(): text.decode() for key, text in (known.metadata or {}).items() if key in _DEFAULTS}
        fields.append(StructField(stored_name(known), field.dataType, field.nullable, {**field.metadata, **told}))
    return Struct(fields)


def _renamed(frame: DataFrame, schema: StructType) -> DataFrame:
    """The columns of files under the names of the table; filters are pushed through."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    pairs = zip(frame.columns, schema, strict=True)
    return frame.select(
        *(F.col(_quoted(stored)).alias(field.name, metadata=field.metadata or {}) for stored, field in pairs)
    )


def _by_python_reader(
    spark: SparkSession, url: str, version: int, schema: StructType, text: str | None, options: Mapping[str, str]
) -> DataFrame:
    reader = (
        plain_reader(spark).format("indextables").schema(schema).options(**options).option("versionAsOf", str(version))
    )
    if text is not None:
        reader = reader.option("where", text)
    return reader.load(url)


def _from_memory(
    spark: SparkSession, env: Env, snapshot: Snapshot, names: Sequence[str], where: Node | None, schema: StructType
) -> DataFrame:
    """A table that lives in this process: no task can see it, so its rows are sent."""
    rows = scan_table(env, snapshot, names, where, None).read_all()
    return spark.createDataFrame(rows, _only(schema, names))


@contextmanager
def _listing_here(spark: SparkSession, paths: int) -> Iterator[None]:
    """Spark asks for each file from the driver instead of starting a job for it, as long as they are not too many."""
    if paths > _MOST_LISTED_HERE:
        yield
        return
    with _CONF_LOCK:
        before = spark.conf.get(_LISTING)
        if before and before.isdigit() and paths <= int(before):
            yield
            return
        spark.conf.set(_LISTING, str(_MOST_LISTED_HERE))
        try:
            yield
        finally:
            spark.conf.set(_LISTING, before or "32")


def _unpushed(frame: DataFrame, schema: StructType, more: Sequence[str]) -> DataFrame:
    """The same columns, the floating ones behind an expression that no filter is pushed through.

    Parquet leaves NaN out of the bounds of pages and row groups, where it is the largest number for Spark, and takes
    -0.0 in a dictionary for another number than 0.0: a filter that is pushed would lose such rows.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    if not any(_is_float(field.dataType) for field in schema):
        return frame
    columns = []
    for field in schema:
        name = _quoted(field.name)
        kept = F.expr(f"nanvl({name}, {name})").alias(field.name, metadata=field.metadata or {})
        columns.append(kept if _is_float(field.dataType) else F.col(name))
    return frame.select(*columns, *more)


def _is_float(kind: DataType) -> bool:
    return kind.typeName() in ("float", "double")


def _has_nested_floats(schema: StructType) -> bool:
    """True if Spark may push a filter on a floating field of a struct."""
    texts = (field.dataType.simpleString() for field in schema if field.dataType.typeName() == "struct")
    return any(kind in text for text in texts for kind in ("float", "double"))


def _is_odd(schema: StructType) -> bool:
    """True for types that Spark's Parquet reader refuses."""
    return any(kind in schema.simpleString() for kind in ("void", "interval"))


def means_another_zone(spark: SparkSession, env: Env, where: Node | None) -> bool:
    """True if Spark would take times in the predicate for those of another zone than was asked for."""
    if where is None or env.options[opt.TIME_ZONE] == session_zone(spark):
        return False
    return any(pa.types.is_timestamp(node.type) for node in walk(where))


def _hides_metadata(schema: StructType) -> bool:
    taken = {"_metadata", FILE, ROW, _WORDS}
    return any(name.lower() in taken for name in schema.names)


def _vector_bytes(refs: Sequence[SplitRef]) -> int:
    return sum((ref.num_rows or 0) // 8 for ref in refs)


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _only(schema: StructType, names: Sequence[str]) -> StructType:
    from pyspark.sql.types import StructType as Struct

    return Struct([schema[name] for name in names])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
