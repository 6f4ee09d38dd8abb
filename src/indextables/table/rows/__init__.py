"""Data of callers becomes rows of the table: this room casts, checks, partitions and evolves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.rows.ddl import DEFAULT_PREFIX, schema_from_ddl, table_from_ddl
    from indextables.table.rows.evolve import (
        Evolution,
        check_merge_options,
        keep_ids,
        merged_schema,
        replaced_schema,
        typed_only,
        with_schema,
    )
    from indextables.table.rows.generated import (
        check_as_personal,
        check_not_generated,
        generators,
        split_generated,
        with_generated,
        without_generated,
    )
    from indextables.table.rows.identity import (
        check_identities,
        check_not_numbered,
        identity_from_words,
        places_of_identity,
        with_identity,
    )
    from indextables.table.rows.indexing import (
        check_indexing,
        indexing_properties,
        nested_texts,
        renamed_settings,
        wanted_indexing,
        without_settings,
    )
    from indextables.table.rows.partitions import (
        check_partition_columns,
        columns_of_folders,
        folder_of,
        folder_pattern,
        partitionings,
        remembering,
        split_rows,
    )
    from indextables.table.rows.rows import SPARK_DOOR, FittedRows, Rows, fit, fits, left_out, read_rows, schema_of
    from indextables.table.rows.rules import (
        Check,
        Rules,
        bound,
        check_name,
        constraint_properties,
        rules_of,
        shown_row,
        words_of,
    )

__all__ = [
    "DEFAULT_PREFIX",
    "SPARK_DOOR",
    "Check",
    "Evolution",
    "FittedRows",
    "Rows",
    "Rules",
    "bound",
    "check_as_personal",
    "check_identities",
    "check_indexing",
    "check_merge_options",
    "check_name",
    "check_not_generated",
    "check_not_numbered",
    "check_partition_columns",
    "columns_of_folders",
    "constraint_properties",
    "fit",
    "fits",
    "folder_of",
    "folder_pattern",
    "generators",
    "identity_from_words",
    "indexing_properties",
    "keep_ids",
    "left_out",
    "merged_schema",
    "nested_texts",
    "partitionings",
    "places_of_identity",
    "read_rows",
    "remembering",
    "renamed_settings",
    "replaced_schema",
    "rules_of",
    "schema_from_ddl",
    "schema_of",
    "shown_row",
    "split_generated",
    "split_rows",
    "table_from_ddl",
    "typed_only",
    "wanted_indexing",
    "with_generated",
    "with_identity",
    "with_schema",
    "without_generated",
    "without_settings",
    "words_of",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "ddl": ("DEFAULT_PREFIX", "schema_from_ddl", "table_from_ddl"),
            "evolve": (
                "Evolution",
                "check_merge_options",
                "keep_ids",
                "merged_schema",
                "replaced_schema",
                "typed_only",
                "with_schema",
            ),
            "generated": (
                "check_as_personal",
                "check_not_generated",
                "generators",
                "split_generated",
                "with_generated",
                "without_generated",
            ),
            "identity": (
                "check_identities",
                "check_not_numbered",
                "identity_from_words",
                "places_of_identity",
                "with_identity",
            ),
            "indexing": (
                "check_indexing",
                "indexing_properties",
                "nested_texts",
                "renamed_settings",
                "wanted_indexing",
                "without_settings",
            ),
            "partitions": (
                "check_partition_columns",
                "columns_of_folders",
                "folder_of",
                "folder_pattern",
                "partitionings",
                "remembering",
                "split_rows",
            ),
            "rules": (
                "Check",
                "Rules",
                "bound",
                "check_name",
                "constraint_properties",
                "rules_of",
                "shown_row",
                "words_of",
            ),
            "rows": (
                "FittedRows",
                "Rows",
                "SPARK_DOOR",
                "fit",
                "fits",
                "left_out",
                "read_rows",
                "schema_of",
            ),
        },
    )
