"""What columns are set to: a text of SQL or a value becomes a node, and what it computes becomes the column's type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument
from indextables.query.convert import as_array
from indextables.query.evaluate import evaluate_value
from indextables.query.expr import Literal, Node
from indextables.query.functions import is_number
from indextables.query.parse import parse_value
from indextables.query.scope import Scope
from indextables.table.rows import fit, fits, read_rows

__all__ = ["assigned", "check_storable", "computed"]


def assigned(value: object, scope: pa.Schema | Scope, field: pa.Field, zone: str) -> Node:
    """What a column is set to: a text is computed from the columns of `scope`, anything else is taken as it is.

    Raises QueryInvalid for a text, SchemaMismatch for a value.
    """
    if isinstance(value, str):
        return parse_value(value, scope, time_zone=zone)
    # As a row that is appended: nothing is cut or rounded.
    nullable = field.with_nullable(nullable=True)
    (batch,) = fit(read_rows([{field.name: value}], pa.schema([nullable])), pa.schema([nullable])).batches
    return Literal(batch.column(0)[0])


def computed(node: Node, rows: pa.Table, wanted: pa.DataType, name: str) -> pa.Array:
    """The values of a node for each row, as the column `name` of this type holds them.

    Raises InvalidArgument where they do not fit, QueryInvalid where they cannot be computed.
    """
    values = evaluate_value(node, rows, what=f"the new value of {name}")
    return _stored(values, rows.num_rows, wanted, name)


def check_storable(given: pa.DataType, wanted: pa.DataType, name: str) -> None:
    """Raises InvalidArgument if a column of the type `wanted` never takes values of this one."""
    if not fits(given, wanted) and not (is_number(given) and is_number(wanted)):
        message = f"column {name} is {wanted}, and is set to {given}: write a CAST. Nothing was written"
        raise InvalidArgument(message, columns=[name])


def _stored(values: Any, count: int, wanted: pa.DataType, name: str) -> pa.Array:
    """Values, or one for all rows, as the column holds them; none is cut or rounded. Raises InvalidArgument."""
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, count) if values.is_valid else pa.nulls(count, wanted)
    values = as_array(values)
    if values.type == wanted:
        return values
    check_storable(values.type, wanted, name)
    try:
        return pc.cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        message = f"what column {name} is set to does not fit {wanted}: {cause}. Nothing was written"
        raise InvalidArgument(message, columns=[name]) from cause
