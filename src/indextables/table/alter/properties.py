"""Decides what wishes about properties, names and features make of a table. Pure.

A property is kept only if somebody reads it or it means nothing to this library. What Delta calls by a key of its own
is done, or refused; it is never kept and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import msgspec

from indextables.errors import InvalidArgument
from indextables.log.wire import (
    COLUMN_DEFAULTS,
    COLUMN_MAPPING,
    CONSTRAINT_PREFIX,
    DELETION_VECTORS,
    FEATURES,
    REGISTRY_PREFIX,
    ROW_TRACKING,
    TYPE_WIDENING,
    Metadata,
    Protocol,
    field_id,
    schema_from_json,
    tracks_rows,
    with_feature,
)
from indextables.options import (
    INDEXING_FAST_FIELDS,
    INDEXING_PERSONAL,
    PREFIX,
    SEARCH_DEFAULT_FIELDS,
    known_options,
)
from indextables.table.alter.wishes import SetIndexing, SetNames, SetProperties, UnsetProperties, UpgradeProtocol
from indextables.table.rows import (
    DEFAULT_PREFIX,
    Evolution,
    check_indexing,
    indexing_properties,
    with_schema,
    without_settings,
)

__all__ = ["indexed", "named", "numbered", "settled", "wants_row_ids"]

_FROM_THE_START = {
    "generated.": "declares a generated column, which a table has from the start, or not at all",
    DEFAULT_PREFIX: "tells the default of a column of a new table: ALTER COLUMN ... SET DEFAULT changes it later",
}
_RULES = (CONSTRAINT_PREFIX, f"delta.{CONSTRAINT_PREFIX}")
_OWN = ("columnmapping.", REGISTRY_PREFIX.lower(), "partitioning.", *_RULES, "mirror.delta")
"""Properties that the library writes itself: nobody sets them by hand."""

_GIVEN = frozenset({"avroState", "checkpoints", COLUMN_DEFAULTS, COLUMN_MAPPING, "conditionalWrites", DELETION_VECTORS})
_ASKED = frozenset({*_GIVEN, "schemaDeduplication", TYPE_WIDENING})
"""Features that a table may name whatever is in it: what is there is right with them."""

_VECTORS, _MAPPING = "delta.enabledeletionvectors", "delta.columnmapping.mode"
_ROW_TRACKING = ("delta.enablerowtracking", "enablerowtracking")
_REFUSED = {
    "delta.appendonly": "rows of every table can be changed",
    "delta.enablechangedatafeed": "changes are read from the versions themselves, and nothing is written for them",
    "delta.enabletypewidening": "a column is widened with ALTER COLUMN ... TYPE, on every table",
    "delta.enableicebergcompatv1": "no metadata of Iceberg is written",
    "delta.enableicebergcompatv2": "no metadata of Iceberg is written",
    "delta.universalformat.enabledformats": "no metadata of Iceberg is written",
    "delta.enableincommittimestamps": "every commit has its time in it",
    "delta.minreaderversion": "features are asked for by name: upgrade_protocol([...])",
    "delta.minwriterversion": "features are asked for by name: upgrade_protocol([...])",
    "delta.logretentionduration": "logRetention.duration says how long versions are kept",
    "delta.deletedfileretentionduration": "purge.defaultRetentionHours says how long files are kept",
    "delta.isolationlevel": "isolationLevel says it",
    "delta.dataskippingnumindexedcols": "dataSkippingNumIndexedCols says it",
    "delta.autooptimize.optimizewrite": "optimizeWrite says it",
    "delta.autooptimize.autocompact": "mergeOnWrite.enabled says it",
}
_FEATURE = "delta.feature."
_FEATURES_OF_DELTA = {
    **{name.lower(): name for name in _ASKED},
    "allowcolumndefaults": COLUMN_DEFAULTS,
    "rowtracking": ROW_TRACKING,
}
_IN_DELTA = frozenset(alias.lower() for option in known_options() for alias in option.aliases)
"""Keys of Delta that are other names of options."""


def named(
    metadata: Metadata,
    protocol: Protocol,
    wish: SetProperties | UnsetProperties | SetIndexing | SetNames | UpgradeProtocol,
) -> Evolution | None:
    """What a commit brings that grants the wish; None if the table is like that already. Raises InvalidArgument."""
    changed, raised = metadata, protocol
    match wish:
        case SetProperties():
            kept, features = settled(wish.properties, protocol)
            check_indexing(kept, schema_from_json(metadata.schemaString).names, "properties")
            changed = _with(metadata, _replaced(metadata.configuration, kept))
            raised = with_feature(protocol, *features) if features else protocol
        case SetIndexing():
            changed = indexed(metadata, wish.columns)
        case UnsetProperties():
            changed = _with(metadata, _without(metadata.configuration, wish))
        case SetNames():
            told = {"name": wish.name, "description": wish.description}
            given = {key: text for key, text in told.items() if not isinstance(text, msgspec.UnsetType)}
            changed = msgspec.structs.replace(metadata, **given)
        case UpgradeProtocol():
            _check_features(wish.features, protocol)
            raised = with_feature(protocol, *wish.features)
        case _:
            assert_never(wish)
    if changed == metadata and raised == protocol:
        return None
    return Evolution(changed, None if raised is protocol else raised)


def wants_row_ids(properties: Mapping[str, str]) -> bool:
    """True if rows shall have ids, which takes a commit of its own in a table whose rows have none."""
    told = {key.lower().removeprefix(PREFIX): value.strip().lower() for key, value in properties.items()}
    return any(told.get(key) == "true" for key in _ROW_TRACKING)


def settled(properties: Mapping[str, str], protocol: Protocol) -> tuple[dict[str, str], list[str]]:
    """The properties to keep, and the features that the others stand for.

    Raises InvalidArgument for what is not the user's to set, and for a wish of Delta's that is not granted.
    """
    kept: dict[str, str] = {}
    features: list[str] = []
    for key, value in properties.items():
        plain = key.lower().removeprefix(PREFIX)
        if plain.startswith(_OWN):
            hint = "; MIRROR INDEXTABLES sets it" if plain == "mirror.delta" else ""
            hint = "; ADD CONSTRAINT looks at the rows and sets it" if plain.startswith(_RULES) else hint
            message = f"the property {key} is kept by the library itself: it cannot be set{hint}"
            raise InvalidArgument(message, option=key)
        for prefix, what in _FROM_THE_START.items():
            if plain.startswith(prefix):
                raise InvalidArgument(f"the property {key} {what}", option=key)
        if plain.startswith(_FEATURE):
            features += _feature(key, plain, value.strip().lower(), protocol)
        elif plain in (_VECTORS, _MAPPING, *_ROW_TRACKING):
            features += _meant(key, plain, value.strip().lower(), protocol)
        elif plain.startswith("delta.") and plain not in _IN_DELTA:
            why = _REFUSED.get(plain, "it is a key of Delta's that this library does not know")
            raise InvalidArgument(f"the property {key} has no meaning here: {why}; leave it out", option=key)
        else:
            kept[key] = value
    return kept, features


def _feature(key: str, plain: str, value: str, protocol: Protocol) -> list[str]:
    """The feature that Delta asks for by a property."""
    name = _FEATURES_OF_DELTA.get(plain.removeprefix(_FEATURE))
    if value not in ("supported", "enabled"):
        raise InvalidArgument(f"{key} = {value}: a feature is `supported`", option=key, value=value)
    if name is None or (name == ROW_TRACKING and not tracks_rows(protocol)):
        hint = "enable_row_tracking() gives rows their ids" if name else "a table gets it when something needs it"
        message = f"the property {key} has no meaning here: {hint}; leave it out"
        raise InvalidArgument(message, option=key)
    return [name]


def _meant(key: str, plain: str, value: str, protocol: Protocol) -> list[str]:
    """The features that a property of Delta's stands for."""
    if plain == _MAPPING:
        if value == "name":
            return [COLUMN_MAPPING]
        if value == "none" and COLUMN_MAPPING not in (protocol.readerFeatures or []):
            return []
        message = f"{key} = {value}: columns are told by name here, and that cannot be taken back; use `name`"
    elif plain == _VECTORS:
        if value == "true":
            return [DELETION_VECTORS]
        message = f"{key} = {value}: deleted rows are always told by vectors here; MERGE SPLITS removes them"
    else:
        if value == "true" and tracks_rows(protocol):
            return []
        message = f"{key} = {value}: rows have ids from the first version of a table on, and keep them"
    raise InvalidArgument(message, option=key, value=value)


def indexed(metadata: Metadata, indexing: Mapping[str, str | Mapping[str, object]]) -> Metadata:
    """The metadata in which these columns are indexed as asked for, whatever was said of them before.

    Raises InvalidArgument for a column that is not there, and for words that are not known.
    """
    metadata = numbered(metadata)
    schema = schema_from_json(metadata.schemaString)
    given = indexing_properties(indexing, schema)
    before, kept = metadata.configuration, without_settings(metadata.configuration, indexing)
    for lasting in (INDEXING_PERSONAL, SEARCH_DEFAULT_FIELDS):
        # What is said of a column beside its index stays; a mark as personal is never lost on the way.
        kept |= {key: text for key, text in before.items() if _spelling(key) == lasting.key.lower()}
    for listed in (INDEXING_FAST_FIELDS, INDEXING_PERSONAL):
        others = [text for key, text in kept.items() if _spelling(key) == listed.key.lower()]
        if others and listed.key in given:
            given[listed.key] = ",".join([*others, given[listed.key]])
    return _with(metadata, _replaced(kept, given))


def numbered(metadata: Metadata) -> Metadata:
    """The metadata with ids for columns that have none, before columns are indexed in another way.

    An index tells by the id of a column whether it has values of it; of a name it does not know since when.
    """
    schema = schema_from_json(metadata.schemaString)
    if all(field_id(field) is not None for field in schema):
        return metadata
    return with_schema(metadata, schema, {})


def _with(metadata: Metadata, configuration: dict[str, str]) -> Metadata:
    return msgspec.structs.replace(metadata, configuration=configuration)


def _replaced(configuration: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The properties with these set; one that is there in another spelling of its key is replaced."""
    new = {_spelling(key) for key in given}
    return {**{key: value for key, value in configuration.items() if _spelling(key) not in new}, **given}


def _without(configuration: Mapping[str, str], wish: UnsetProperties) -> dict[str, str]:
    there = {_spelling(key) for key in configuration}
    gone = {_spelling(key) for key in wish.keys}
    own = sorted(key for key in wish.keys if _spelling(key).startswith(_OWN))
    if own:
        hint = "; DROP CONSTRAINT takes it away" if _spelling(own[0]).startswith(_RULES) else ""
        raise InvalidArgument(f"the property {own[0]} is kept by the library itself: it stays{hint}", option=own[0])
    missing = [key for key in wish.keys if _spelling(key) not in there]
    if missing and not wish.if_exists:
        message = f"the table has no property {', '.join(missing)}: leave it out, or write IF EXISTS"
        raise InvalidArgument(message, option=missing[0])
    return {key: value for key, value in configuration.items() if _spelling(key) not in gone}


def _spelling(key: str) -> str:
    return key.lower().removeprefix(PREFIX)


def _check_features(features: tuple[str, ...], protocol: Protocol) -> None:
    there = {*(protocol.readerFeatures or []), *(protocol.writerFeatures or [])}
    for name in features:
        if name in there or name in _ASKED:
            continue
        if name not in FEATURES:
            known = ", ".join(sorted(_ASKED))
            raise InvalidArgument(f"{name} is no feature that this library knows: it knows {known}", feature=name)
        message = f"the feature {name} says something about the files of a table, which naming it does not make true"
        raise InvalidArgument(message, feature=name)
