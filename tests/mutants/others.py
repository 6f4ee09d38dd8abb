"""The planted bugs of what other systems read and write: the Delta mirror, tables of others."""

from __future__ import annotations

from tests.mutants.planted import Bug

MIRROR = "indextables/log/mirror/"
MIRROR_TESTS = "tests/table/test_mirror.py::"
ICEBERG = "indextables/foreign/iceberg/"
ICEBERG_TESTS = "tests/foreign/test_iceberg.py::"

BUGS = [
    Bug(
        "the mirror shows a renamed column under a name that no file has",
        MIRROR + "actions.py",
        'physical = (field.get("metadata") or {}).get(_STORED, field["name"])',
        'physical = field["name"]',
        (MIRROR_TESTS + "test_columns_that_were_renamed_dropped_and_named_anew_are_the_same_for_every_reader",),
    ),
    Bug(
        "the mirror does not tell readers that files may hold narrower types",
        MIRROR + "actions.py",
        '"typeWidening": TYPE_WIDENING in (basis.protocol.readerFeatures or []),',
        '"typeWidening": False,',
        (MIRROR_TESTS + "test_widened_columns_are_shown_to_readers_that_know_them_and_to_no_others",),
    ),
    Bug(
        "rows that Iceberg deletes by their values are shown",
        ICEBERG + "snapshot.py",
        "        if content == _EQUALITY:\n",
        "        if False:\n",
        (ICEBERG_TESTS + "test_deletes_by_values_are_refused_by_name",),
    ),
    Bug(
        "rows that Iceberg deletes by position are shown",
        ICEBERG + "snapshot.py",
        "        mask[positions] = False\n",
        "        pass\n",
        (ICEBERG_TESTS + "test_deleted_positions_are_gone_and_only_those_of_older_files",),
    ),
    Bug(
        "statistics of Delta are taken for exact instants, although parts of milliseconds are cut",
        "indextables/foreign/delta/skipping.py",
        "        return _end_of_milliseconds(values)\n",
        "        return values\n",
        ("tests/foreign/test_delta_skipping.py",),
    ),
]
