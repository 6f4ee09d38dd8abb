"""Which columns does the index hold, and how? From an Arrow schema and options to a Tantivy schema and back.

A *kind* says what a Tantivy field means:

    text        analysed words                      string    the whole value as one term
    int         64-bit integer                      bool      boolean
    date        days since 1970-01-01, as integer   timestamp microseconds since the epoch (UTC), as integer
    ip          address, IPv4 as mapped IPv6        json      struct, map or array of structs, by dotted path

Times are integers because a Tantivy date field keeps whole seconds. Floating point, decimal, binary and whatever
else has no kind are stored only: the rows have them, the index does not. A list of a kind is the same kind with
several values (`multi`). Texts inside `json` are words, or with the analyzer `raw` whole values.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec
import pyarrow as pa
import tantivy

from indextables import options as opt
from indextables.errors import InvalidArgument, SplitCorrupt
from indextables.split.index.analyze import (
    DEFAULT_MAX_TOKEN_BYTES,
    MAX_RAW_BYTES,
    Analyzer,
    analyzer,
    register,
)

__all__ = [
    "ID_KEY",
    "FieldPlan",
    "IndexPlan",
    "Kind",
    "Record",
    "canonical_json",
    "column_id",
    "is_nested_list",
    "natural_kind",
    "plan_fields",
]

Kind = Literal["text", "string", "int", "bool", "date", "timestamp", "ip", "json"]
Record = Literal["basic", "freq", "position"]

ID_KEY = b"indextables.id"
"""Arrow field metadata: the permanent id of a column, which outlives its name."""

_PLAIN_NAME = re.compile(r"(?!x_[0-9a-f]*\Z)[A-Za-z_][A-Za-z0-9_]{0,254}\Z", re.ASCII)
_MADE = "x_"
"""How an id begins that is not the name of its column: a mapping that names no column for it has no values of it."""
_MAX_FIELDS = 10_000
_KINDS: tuple[Kind, ...] = ("text", "string", "int", "bool", "date", "timestamp", "ip", "json")
_STRING_KINDS = ("text", "string", "ip")
_TERM_KINDS = ("text", "string", "json")
_NESTED_KINDS = ("text", "string")
"""What texts inside a struct, a map or a list of structs can be."""
_KEPT_PLANS = 64
"""A process writes to few tables at a time, again and again."""
_LENGTHS = {"default": DEFAULT_MAX_TOKEN_BYTES, "legacy": 40, "min_safe": 100, "tantivy_max": MAX_RAW_BYTES}


class FieldPlan(msgspec.Struct, frozen=True):
    """One field of the Tantivy schema. Its ordinal is its place in `IndexPlan.fields`.

    `column` is None where the table has no such column (any more), or does not index it: the field keeps its place,
    without values.
    `tokenizer` and `token_length` are as in the options, in canonical form.
    """

    id: str
    kind: Kind
    column: str | None
    source: str
    indexed: bool
    fast: bool
    record: Record
    tokenizer: str
    token_length: int
    multi: bool = False

    @property
    def analyzer(self) -> Analyzer:
        """How values become terms; its `registered_name` stands in Tantivy's schema."""
        return Analyzer(self.tokenizer, self.token_length)


class IndexPlan(msgspec.Struct, frozen=True):
    """Everything that decides how rows become an index: equal plans, equal Tantivy schemas.

    Field ordinals are the places in `fields`. `stored_only` names the columns that the index does not hold.
    """

    fields: tuple[FieldPlan, ...]
    stored_only: tuple[str, ...] = ()

    def by_column(self, name: str) -> FieldPlan | None:
        """The field of a column, matched in any case; None if the index does not hold it."""
        wanted = name.lower()
        return next((f for f in self.fields if f.column is not None and f.column.lower() == wanted), None)

    def by_id(self, field_id: str) -> FieldPlan | None:
        """The field of this id."""
        return next((f for f in self.fields if f.id == field_id), None)

    def renamed(self, rename: Callable[[str], str | None]) -> IndexPlan:
        """The same plan where columns are called otherwise; a column that gets None is none of the table's."""
        fields = tuple(
            f if f.column is None else msgspec.structs.replace(f, column=rename(f.column)) for f in self.fields
        )
        names = (rename(name) for name in self.stored_only)
        return IndexPlan(fields, tuple(name for name in names if name is not None))

    def schema(self) -> tantivy.Schema:
        """The Tantivy schema: fields by ordinal, nothing stored."""
        builder = tantivy.SchemaBuilder()
        for field in self.fields:
            _add_field(builder, field)
        return builder.build()

    def register_analyzers(self, index: tantivy.Index) -> None:
        """Make the analyzers of all fields known to an open index; needed after every open."""
        register(index, {f.analyzer for f in self.fields if f.kind in _TERM_KINDS})
        whole = Analyzer("raw").build()
        for name in {f.analyzer.registered_name for f in self.fields if f.kind in _TERM_KINDS and f.fast}:
            # Fast values go through an analyzer of their own, of the same name: sorting and grouping want whole values.
            index.register_fast_field_tokenizer(name, whole)

    def doc_mapping(self) -> str:
        """The plan as canonical JSON: what the log keeps as `docMappingJson`."""
        return _mapping_of(self.fields)

    def doc_mapping_ref(self) -> str:
        """The 16 characters under which the log registers `doc_mapping()`."""
        return _ref_of(self.doc_mapping())

    @staticmethod
    def from_doc_mapping(text: str | bytes) -> IndexPlan:
        """The plan that `doc_mapping()` described. Raises SplitCorrupt."""
        return IndexPlan(fields=_fields_of(text))


def plan_fields(schema: pa.Schema, options: opt.Options, *, previous: IndexPlan | None = None) -> IndexPlan:
    """The plan for rows of `schema`.

    Fields of `previous` keep their ordinals, dropped columns their place; new columns come last. Options that name
    columns this schema lacks are ignored, because a session's options serve many tables. Where the table's own
    properties cannot be read, a column is indexed as in `previous`, else as by default.

    Raises:
        InvalidArgument: An option asks for what a column's type cannot do, or cannot be understood.
    """
    settings = _Settings(options)
    fresh: dict[str, FieldPlan] = {}
    stored_only: list[str] = []
    for column in schema:
        planned = _plan_column(column, settings)
        if column.name in settings.excused and previous is not None:
            known = (f for f in previous.fields if f.id == column_id(column))
            planned = next((msgspec.structs.replace(f, column=column.name) for f in known), planned)
        if planned is None:
            stored_only.append(column.name)
        else:
            fresh[planned.id] = planned
    if previous is not None:
        ordered = [fresh[f.id] if f.id in fresh else msgspec.structs.replace(f, column=None) for f in previous.fields]
    else:
        ordered = []
    kept = {f.id for f in ordered}
    return IndexPlan(
        fields=(*ordered, *(f for f in fresh.values() if f.id not in kept)), stored_only=tuple(stored_only)
    )


def column_id(column: pa.Field) -> str:
    """The permanent id of a column, safe as a Tantivy field name: its `indextables.id`, else made from its name."""
    given = (column.metadata or {}).get(ID_KEY)
    name: str = column.name if given is None else given.decode()
    if _PLAIN_NAME.match(name):
        return name
    return _MADE + name.encode().hex()


def canonical_json(value: object) -> str:
    """JSON with sorted keys, arrays of named objects sorted by name, and no blanks."""
    return msgspec.json.encode(_sorted(value), order="sorted").decode()


class _Settings:
    """The per-column options, by lower-case column."""

    def __init__(self, options: opt.Options) -> None:
        self.kinds = options.below(opt.INDEXING_TYPEMAP)
        self.families = {
            "tokenizer": options.below(opt.INDEXING_TOKENIZER),
            "indexrecordoption": options.below(opt.INDEXING_RECORD_OPTION),
            "tokenlength": options.below(opt.INDEXING_TOKEN_LENGTH),
        }
        self.excused: set[str] = set()
        self._options = options
        self.fast = _names(options[opt.INDEXING_FAST_FIELDS])
        self.non_fast = _names(options[opt.INDEXING_NON_FAST_FIELDS])

    def excuses(self, family: str, column: pa.Field) -> bool:
        """True if a value that cannot be read is the table's own: then the column is as it was."""
        excused = self._options.excuses(family + column.name)
        if excused:
            self.excused.add(column.name)
        return excused


class _WireField(msgspec.Struct, frozen=True):
    """One field in a docMapping; `name` is the column id, `column` its name where that differs.

    Written in full: `omit_defaults` compares strings by identity, and a canonical form must not depend on that.
    """

    name: str
    ordinal: int
    type: Kind
    source: str
    column: str | None = None
    indexed: bool = False
    fast: bool = False
    record: Record = "basic"
    tokenizer: str = "raw"
    tokenLength: int = DEFAULT_MAX_TOKEN_BYTES
    multi: bool = False


class _WireMapping(msgspec.Struct, frozen=True):
    version: int
    fields: list[_WireField]


def _to_wire(ordinal: int, field: FieldPlan) -> Any:
    # A dropped column writes what a present one does: the mapping of the splits did not change with the table.
    column = None if field.column in (None, field.id) else field.column
    wire = _WireField(
        name=field.id,
        ordinal=ordinal,
        type=field.kind,
        source=field.source,
        column=column,
        indexed=field.indexed,
        fast=field.fast,
        record=field.record,
        tokenizer=field.tokenizer,
        tokenLength=field.token_length,
        multi=field.multi,
    )
    return {key: value for key, value in msgspec.to_builtins(wire).items() if value is not None}


def _from_wire(wire: _WireMapping) -> tuple[FieldPlan, ...]:
    ordered = sorted(wire.fields, key=lambda f: f.ordinal)
    places = [f.ordinal for f in ordered]
    names = {f.name for f in ordered}
    if wire.version != 1 or places != list(range(len(ordered))) or len(names) != len(ordered):
        message = f"a docMapping of version {wire.version} has unknown form: it needs a newer library or a reindex"
        raise SplitCorrupt(message, part="docMapping")
    if len(ordered) > _MAX_FIELDS or not all(_PLAIN_NAME.match(n) or n.startswith(_MADE) for n in names):
        raise SplitCorrupt("a docMapping names fields that no column can have", part="docMapping")
    fields = []
    for field in ordered:
        try:
            analysis = analyzer(field.tokenizer, field.tokenLength)
        except InvalidArgument as error:
            raise SplitCorrupt(f"a docMapping names an unknown analyzer: {error}", part="docMapping") from error
        fields.append(
            FieldPlan(
                id=field.name,
                kind=field.type,
                column=field.column or (None if field.name.startswith(_MADE) else field.name),
                source=field.source,
                indexed=field.indexed,
                fast=field.fast,
                record=field.record,
                tokenizer=analysis.name,
                token_length=analysis.max_token_bytes,
                multi=field.multi,
            )
        )
    return tuple(fields)


def _plan_column(column: pa.Field, settings: _Settings) -> FieldPlan | None:
    name = column.name.lower()
    multi, value_type = _element(column.type)
    natural = natural_kind(value_type) if not (multi and is_nested_list(value_type)) else None
    asked = settings.kinds.get(name)
    kind = natural if asked is None else _asked_kind(column, natural, asked, settings)
    if kind is None:
        return None
    text = kind == "text" or (kind == "json" and not _is_whole(asked))
    tokenizer = _parsed(column, "tokenizer", settings, _tokenizer)
    length = _parsed(column, "tokenlength", settings, _token_length)
    record = _parsed(column, "indexrecordoption", settings, _record)
    indexed = kind in ("text", "string", "ip", "json") or record is not None
    fast = kind in ("int", "bool", "date", "timestamp")
    fast = (fast or name in settings.fast) and name not in settings.non_fast
    if not indexed and not fast:
        return None
    return FieldPlan(
        id=column_id(column),
        kind=kind,
        column=column.name,
        source=str(value_type),
        indexed=indexed,
        fast=fast,
        record=record or ("position" if text else "basic"),
        tokenizer=(tokenizer or "default") if text else "raw",
        token_length=(length if text else None) or DEFAULT_MAX_TOKEN_BYTES,
        multi=multi,
    )


def natural_kind(value_type: pa.DataType) -> Kind | None:
    """The kind of a type where no option says otherwise; None is stored only."""
    types = pa.types
    if types.is_string(value_type) or types.is_large_string(value_type) or types.is_string_view(value_type):
        return "string"
    if types.is_dictionary(value_type):
        return natural_kind(value_type.value_type)
    if types.is_integer(value_type) and not types.is_uint64(value_type):
        return "int"
    if types.is_boolean(value_type):
        return "bool"
    if types.is_date(value_type):
        return "date"
    if types.is_timestamp(value_type) and value_type.unit != "ns":
        return "timestamp"
    if types.is_struct(value_type) or types.is_map(value_type):
        return "json"
    return None


def is_nested_list(value_type: pa.DataType) -> bool:
    """True for a list type of any width; maps are not lists here."""
    types = pa.types
    return bool(
        types.is_list(value_type)
        or types.is_large_list(value_type)
        or types.is_fixed_size_list(value_type)
        or types.is_list_view(value_type)
        or types.is_large_list_view(value_type)
    )


def _element(arrow_type: pa.DataType) -> tuple[bool, pa.DataType]:
    return (True, arrow_type.value_type) if is_nested_list(arrow_type) else (False, arrow_type)


def _asked_kind(column: pa.Field, natural: Kind | None, asked: str, settings: _Settings) -> Kind | None:
    wanted = asked.strip().lower()
    if wanted == "none":
        return None
    if natural == "string" and wanted in _STRING_KINDS:
        return next(k for k in _KINDS if k == wanted)
    if natural is not None and wanted in (natural, *(_NESTED_KINDS if natural == "json" else ())):
        return natural
    if settings.excuses(opt.INDEXING_TYPEMAP, column):
        return natural
    offered = {"string": _STRING_KINDS, "json": _NESTED_KINDS, None: ()}
    choices = ", ".join(("none", *offered.get(natural, (natural,))))
    message = f"{opt.INDEXING_TYPEMAP}{column.name} = {asked!r}: a column of type {column.type} can be one of {choices}"
    raise InvalidArgument(message, option=opt.INDEXING_TYPEMAP + column.name, value=asked)


def _is_whole(asked: str | None) -> bool:
    """True if texts inside a nested column are asked to be whole values."""
    return asked is not None and asked.strip().lower() == "string"


def _parsed(column: pa.Field, family: str, settings: _Settings, parse: Any) -> Any:
    text = settings.families[family].get(column.name.lower())
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        if settings.excuses(f"indexing.{family}.", column):
            return None
        message = f"option indexing.{family}.{column.name} = {text!r} cannot be used: {error}"
        raise InvalidArgument(message, option=f"indexing.{family}.{column.name}", value=text) from error


def _record(text: str) -> Record:
    lower = text.strip().lower()
    if lower == "basic":
        return "basic"
    if lower == "freq":
        return "freq"
    if lower == "position":
        return "position"
    raise ValueError("it is one of basic, freq, position")


def _tokenizer(text: str) -> str:
    return analyzer(text).name


def _token_length(text: str) -> int:
    name = text.strip().lower()
    if name in _LENGTHS:
        return _LENGTHS[name]
    if name.isascii() and name.isdigit() and len(name) <= 5 and 1 <= int(name) <= MAX_RAW_BYTES:
        return int(name)
    raise ValueError(f"it is 1 to {MAX_RAW_BYTES} or one of {', '.join(_LENGTHS)}")


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip().lower() for part in text.split(",") if part.strip())


def _add_field(builder: tantivy.SchemaBuilder, field: FieldPlan) -> None:
    match field.kind:
        case "text" | "string":
            builder.add_text_field(
                field.id, fast=field.fast, tokenizer_name=field.analyzer.registered_name, index_option=field.record
            )
        case "json":
            builder.add_json_field(
                field.id, fast=field.fast, tokenizer_name=field.analyzer.registered_name, index_option=field.record
            )
        case "bool":
            builder.add_boolean_field(field.id, indexed=field.indexed, fast=field.fast)
        case "ip":
            builder.add_ip_addr_field(field.id, indexed=field.indexed, fast=field.fast)
        case _:
            builder.add_integer_field(field.id, indexed=field.indexed, fast=field.fast)


@lru_cache(maxsize=_KEPT_PLANS)
def _mapping_of(fields: tuple[FieldPlan, ...]) -> str:
    return canonical_json({"version": 1, "fields": [_to_wire(i, f) for i, f in enumerate(fields)]})


@lru_cache(maxsize=_KEPT_PLANS)
def _ref_of(doc_mapping: str) -> str:
    digest = hashlib.sha256(doc_mapping.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:16]


@lru_cache(maxsize=_KEPT_PLANS)
def _fields_of(doc_mapping: str | bytes) -> tuple[FieldPlan, ...]:
    try:
        wire = _MAPPING.decode(doc_mapping)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"a docMapping cannot be read ({error}): rebuild the index of the splits that use it"
        raise SplitCorrupt(message, part="docMapping") from error
    return _from_wire(wire)


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(k): _sorted(v) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        items = [_sorted(v) for v in value]
        if items and all(isinstance(v, dict) and isinstance(v.get("name"), str) for v in items):
            items.sort(key=lambda v: v["name"] if isinstance(v, dict) else "")
        return items
    return value


# Made on import: msgspec publishes what it knows of a Struct before it is complete, and a second thread that decodes
# one for the first time reads a null pointer.
_MAPPING = msgspec.json.Decoder(_WireMapping)
