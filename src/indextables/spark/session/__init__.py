"""What a Spark session tells us: its settings, time zones, dialect, errors, names and schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.spark.session import registry
    from indextables.spark.session.dialect import reads_otherwise
    from indextables.spark.session.failures import (
        is_temporary_reference,
        is_unknown_search,
        jvm_errors,
        raising_ours,
        unknown_table,
    )
    from indextables.spark.session.frames import (
        BASE,
        DataFrame,
        SparkSession,
        column_named,
        expression_text,
        fingerprint,
        frame_class,
        frame_of,
        is_column,
        is_of_server,
        note_rows,
        path_at,
        plain_reader,
        rows_of_frame,
        select_of,
    )
    from indextables.spark.session.hadoop import HadoopPlace, hadoop_place, have_plain_names
    from indextables.spark.session.registry import (
        COLUMN_KEY,
        NOT_TOLD,
        OWN_KEY,
        PATH_KEY,
        REGISTRY_PREFIX,
        carried_path,
        how_to_renew,
    )
    from indextables.spark.session.schema import arrow_schema, spark_schema
    from indextables.spark.session.settings import (
        READING,
        SESSION,
        WRITING,
        CallOptions,
        ReadOptions,
        Settings,
        WriteOptions,
        check_predicate,
        check_session,
        names_text,
        planning,
        session_overwrites,
        task_session,
    )
    from indextables.spark.session.zones import instant_ms, session_zone

__all__ = [
    "BASE",
    "COLUMN_KEY",
    "NOT_TOLD",
    "OWN_KEY",
    "PATH_KEY",
    "READING",
    "REGISTRY_PREFIX",
    "SESSION",
    "WRITING",
    "CallOptions",
    "DataFrame",
    "HadoopPlace",
    "ReadOptions",
    "Settings",
    "SparkSession",
    "WriteOptions",
    "arrow_schema",
    "carried_path",
    "check_predicate",
    "check_session",
    "column_named",
    "expression_text",
    "fingerprint",
    "frame_class",
    "frame_of",
    "hadoop_place",
    "have_plain_names",
    "how_to_renew",
    "instant_ms",
    "is_column",
    "is_of_server",
    "is_temporary_reference",
    "is_unknown_search",
    "jvm_errors",
    "names_text",
    "note_rows",
    "path_at",
    "plain_reader",
    "planning",
    "raising_ours",
    "reads_otherwise",
    "registry",
    "rows_of_frame",
    "select_of",
    "session_overwrites",
    "session_zone",
    "spark_schema",
    "task_session",
    "unknown_table",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "dialect": ("reads_otherwise",),
            "failures": ("is_temporary_reference", "is_unknown_search", "jvm_errors", "raising_ours", "unknown_table"),
            "frames": (
                "BASE",
                "DataFrame",
                "SparkSession",
                "column_named",
                "expression_text",
                "fingerprint",
                "frame_class",
                "frame_of",
                "is_column",
                "is_of_server",
                "note_rows",
                "path_at",
                "plain_reader",
                "rows_of_frame",
                "select_of",
            ),
            "hadoop": ("HadoopPlace", "hadoop_place", "have_plain_names"),
            "registry": (
                "COLUMN_KEY",
                "NOT_TOLD",
                "OWN_KEY",
                "PATH_KEY",
                "REGISTRY_PREFIX",
                "carried_path",
                "how_to_renew",
            ),
            "schema": ("arrow_schema", "spark_schema"),
            "settings": (
                "CallOptions",
                "READING",
                "ReadOptions",
                "SESSION",
                "Settings",
                "WRITING",
                "WriteOptions",
                "check_predicate",
                "check_session",
                "names_text",
                "planning",
                "session_overwrites",
                "task_session",
            ),
            "zones": ("instant_ms", "session_zone"),
        },
    )
