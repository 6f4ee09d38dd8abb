"""Binds what columns are set to: a text of SQL or a value becomes a node that computes the column's type."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument
from indextables.query.convert import as_array
from indextables.query.evaluate import evaluate_value
from indextables.query.expr import Literal, Node
from indextables.query.functions import is_number
from indextables.query.parse import parse_value
from indextables.query.scope import Scope, shown_names
from indextables.query.stored import default_meant
from indextables.table.rows import check_not_generated, fit, fits, read_rows

__all__ = ["check_storable", "computed", "is_storable", "named", "stored"]


def _assigned(value: object, scope: pa.Schema | Scope, field: pa.Field, zone: str) -> Node:
    """What a column is set to: a text is computed from the columns of `scope`, anything else is taken as it is.

    The text DEFAULT is the default of the column.

    Raises QueryInvalid for a text, SchemaMismatch for a value.
    """
    value = default_meant(value, field)
    if isinstance(value, str):
        return parse_value(value, scope, time_zone=zone)
    # As a row that is appended: nothing is cut or rounded.
    nullable = field.with_nullable(nullable=True)
    (batch,) = fit(read_rows([{field.name: value}], pa.schema([nullable])), pa.schema([nullable])).batches
    return Literal(batch.column(0)[0])


def named(values: Mapping[str, object], scope: pa.Schema | Scope, schema: pa.Schema, zone: str) -> dict[str, Node]:
    """What each column of `schema` that is named, in any case, is set to.

    Raises InvalidArgument for a column that is not there or is set twice, QueryInvalid for a text, SchemaMismatch for
    a value.
    """
    check_not_generated(values, schema)
    spelled = {name.lower(): name for name in schema.names}
    found: dict[str, Node] = {}
    for given, value in values.items():
        name = spelled.get(given.lower())
        if name is None:
            message = f"there is no column {given}: the table has {shown_names(schema.names, given)}"
            raise InvalidArgument(message, columns=[given])
        if name in found:
            raise InvalidArgument(f"column {name} is set twice", columns=[given])
        found[name] = _assigned(value, scope, schema.field(name), zone)
    return found


def computed(node: Node, rows: pa.Table, wanted: pa.DataType, name: str) -> pa.Array:
    """The values of a node for each row, as the column `name` of this type holds them.

    Raises InvalidArgument where they do not fit, QueryInvalid where they cannot be computed.
    """
    values = evaluate_value(node, rows, what=f"the new value of {name}")
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, rows.num_rows) if values.is_valid else pa.nulls(rows.num_rows, wanted)
    return stored(as_array(values), wanted, name)


def is_storable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """True if a column of the type `wanted` takes values of this one, some of them at least."""
    return fits(given, wanted) or (is_number(given) and is_number(wanted))


def check_storable(given: pa.DataType, wanted: pa.DataType, name: str) -> None:
    """Raises InvalidArgument if a column of the type `wanted` never takes values of this one."""
    if not is_storable(given, wanted):
        message = f"column {name} is {wanted}, and is set to {given}: write a CAST. Nothing was written"
        raise InvalidArgument(message, columns=[name])


def stored(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    """Values as the column `name` of this type holds them; none is cut, and no double is rounded.

    Raises InvalidArgument where they do not fit.
    """
    if values.type == wanted:
        return values
    check_storable(values.type, wanted, name)
    try:
        kept = pc.cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        message = f"what column {name} is set to does not fit {wanted}: {cause}. Nothing was written"
        raise InvalidArgument(message, columns=[name]) from cause
    if pa.types.is_floating(wanted) and len(other := _other_numbers(values, kept)):
        message = (
            f"what column {name} is set to does not fit {wanted}: {other[0].as_py()!r} would become another number. "
            f"Nothing was written; cast it to {wanted} to have it rounded"
        )
        raise InvalidArgument(message, columns=[name])
    return kept


def _other_numbers(values: pa.Array, kept: pa.Array) -> pa.Array:
    """Those values that a cast to a float, which Arrow does not check, made another number of.

    A decimal is seldom a float: it becomes the nearest one, but neither infinite nor 0.
    """
    if fits(values.type, kept.type):
        return values.slice(0, 0)
    if pa.types.is_floating(values.type):
        same = pc.or_(pc.equal(pc.cast(kept, values.type), values), pc.is_nan(values))
    elif pa.types.is_decimal(values.type):
        vanished = pc.and_(pc.equal(kept, pa.scalar(0, kept.type)), pc.not_equal(pc.sign(values), 0))
        same = pc.invert(pc.or_(pc.is_inf(kept), vanished))
    else:
        return values.slice(0, 0)
    return values.filter(pc.invert(same))
