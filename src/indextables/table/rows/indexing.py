"""Which settings `indexing.*` are for which columns, and are those there? Pure.

Who names a column in a call or a property means that column of that table: if it is not there, the name is wrong. A
session or an environment serves many tables, and what it says about columns of others is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.options import Options
from indextables.split.index import is_nested_list, natural_kind
from indextables.table.arguments import check_mapping, check_text

__all__ = [
    "check_indexing",
    "indexing_properties",
    "nested_texts",
    "renamed_settings",
    "wanted_indexing",
    "without_settings",
]

_FAMILIES = (
    opt.INDEXING_TYPEMAP,
    opt.INDEXING_TOKENIZER,
    opt.INDEXING_RECORD_OPTION,
    opt.INDEXING_TOKEN_LENGTH,
)
_LISTS = (opt.INDEXING_FAST_FIELDS.key, opt.INDEXING_NON_FAST_FIELDS.key, opt.INDEXING_PERSONAL.key)
_ALL = "indexing."
_WORDS = {
    "type": opt.INDEXING_TYPEMAP,
    "tokenizer": opt.INDEXING_TOKENIZER,
    "record": opt.INDEXING_RECORD_OPTION,
    "token_length": opt.INDEXING_TOKEN_LENGTH,
}


def check_indexing(given: Mapping[str, object], columns: Iterable[str], where: str) -> None:
    """Raises InvalidArgument for a setting of `given` that names a column which is not one of `columns`."""
    there = list(columns)
    known = {column.lower() for column in there}
    for key, column in _named(given):
        if column not in known:
            message = f"{key} (from the {where}) is about column {column!r}; the table has {', '.join(there)}"
            raise InvalidArgument(message, option=key, column=column)


def wanted_indexing(options: Options, columns: Iterable[str]) -> dict[str, str]:
    """What the call and the session say about indexing these columns, as properties of a table; the call wins.

    Raises InvalidArgument if the call names another column.
    """
    there = list(columns)
    call = options.from_call(_ALL)
    check_indexing(call, there, "call")
    known = {column.lower() for column in there}
    found: dict[str, str] = {}
    for key, value in options.from_operator(_ALL).items():
        if key in call or key not in {one.lower() for one in _LISTS}:
            if all(column in known for _, column in _named({key: value})):
                found[key] = value
        elif kept := [column for _, column in _named({key: value}) if column in known]:
            found[key] = ",".join(kept)
    return found


def nested_texts(columns: Iterable[pa.Field], properties: Mapping[str, str]) -> dict[str, str]:
    """Properties that make texts inside new nested columns whole values, unless something is said about a column.

    A table says so itself: one that was made when such texts were words has no such property, and keeps them.
    """
    told = {column for key, column in _named(properties) if not _is_list(key)}
    return {
        opt.INDEXING_TYPEMAP + column.name: "string"
        for column in columns
        if column.name.lower() not in told and _holds_texts(column.type)
    }


def _holds_texts(kind: pa.DataType) -> bool:
    """True if the index takes the column as nested and there are texts in it, at any depth."""
    element = kind.value_type if is_nested_list(kind) else kind
    return natural_kind(element) == "json" and any(map(_has_text, _inside(element)))


def _has_text(kind: pa.DataType) -> bool:
    return natural_kind(kind) == "string" or any(map(_has_text, _inside(kind)))


def _inside(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    if pa.types.is_map(kind):
        return [kind.item_type]
    return [kind.value_type] if is_nested_list(kind) else []


def _is_list(key: str) -> bool:
    return key.lower().removeprefix(opt.PREFIX) in {one.lower() for one in _LISTS}


def _named(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each key with each column that it names, in lower case."""
    for spelled, value in given.items():
        key = spelled.lower().removeprefix(opt.PREFIX)
        for family in _FAMILIES:
            if key.startswith(family.lower()):
                yield spelled, key[len(family) :]
        if key in (one.lower() for one in _LISTS):
            for column in str(value).split(","):
                if column.strip():
                    yield spelled, column.strip().lower()


def renamed_settings(properties: Mapping[str, str], column: str, to: str) -> dict[str, str]:
    """The properties of a table in which a column is called otherwise from now on: what is said of it follows."""
    return {_with_column(key, column, to): _with_name(key, value, column, to) for key, value in properties.items()}


def without_settings(properties: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """The properties of a table that loses these columns: a new one of the same name starts with nothing."""
    gone = {column.lower() for column in columns}
    kept: dict[str, str] = {}
    for key, value in properties.items():
        if any(_with_column(key, column, "") != key for column in gone):
            continue
        if not _names_columns(key):
            kept[key] = value
        elif left := [name for name in value.split(",") if name.strip().lower() not in gone]:
            kept[key] = ",".join(left)
    return kept


def _with_column(key: str, column: str, to: str) -> str:
    """The key of the same setting for another column; the key itself if it is about something else."""
    plain = key.lower().removeprefix(opt.PREFIX)
    for family in _FAMILIES:
        if plain == (family + column).lower():
            return key[: len(key) - len(column)] + to
    return key


def _with_name(key: str, value: str, column: str, to: str) -> str:
    if not _names_columns(key):
        return value
    return ",".join(to if name.strip().lower() == column.lower() else name for name in value.split(","))


def _names_columns(key: str) -> bool:
    """True for a setting whose value is a list of columns."""
    plain = key.lower().removeprefix(opt.PREFIX)
    return _is_list(key) or plain == opt.SEARCH_DEFAULT_FIELDS.key.lower()


def indexing_properties(indexing: Mapping[str, str | Mapping[str, object]] | None, schema: pa.Schema) -> dict[str, str]:
    """`{"message": "text"}` or `{"message": {"type": "text", "tokenizer": "en_stem"}}` as table properties.

    Raises InvalidArgument for a column that the schema does not have and for words that are not known.
    """
    spelled = {name.lower(): name for name in schema.names}
    properties: dict[str, str] = {}
    fast: list[str] = []
    personal: list[str] = []
    for column, wanted in check_mapping("indexing", indexing).items():
        if column.lower() not in spelled:
            message = f"indexing names column {column!r}, the schema has {', '.join(schema.names)}"
            raise InvalidArgument(message, column=column)
        name = spelled[column.lower()]
        settings = {"type": wanted} if isinstance(wanted, str) else check_mapping(f"indexing of {name!r}", wanted)
        for word, value in settings.items():
            if word == "fast" and value is True:
                fast.append(name)
            elif word == "personal" and value is True:
                personal.append(name)
            elif word in _WORDS:
                properties[_WORDS[word] + name] = check_text(f"{word} of {name!r}", str(value))
            else:
                known = ", ".join([*_WORDS, "fast", "personal"])
                raise InvalidArgument(f"indexing of {name!r} has {word!r}: it knows {known}", column=name)
    if fast:
        properties[opt.INDEXING_FAST_FIELDS.key] = ",".join(fast)
    if personal:
        properties[opt.INDEXING_PERSONAL.key] = ",".join(personal)
    return properties
