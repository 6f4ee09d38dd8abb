"""Joins rows of a table with rows of a source: which belong together, which clause takes them, what they become.

The target is read once. Values are computed where a pair is found, so that a frame of pairs is all that a MERGE needs
afterwards; columns that no clause needs are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from indextables.errors import SchemaMismatch
from indextables.query.stored import default_meant
from indextables.spark.change.addresses import CLAUSE
from indextables.spark.change.conditions import (
    Text,
    analysed,
    check_text_or_column,
    expression,
    fitting,
    named_columns,
    quoted,
    value,
)
from indextables.spark.change.source import SID, Source
from indextables.spark.scan import FILE, ROW
from indextables.split.file import ROW_ID
from indextables.table.change import Clause, left_by_star

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

__all__ = ["Pairing"]

_OF_TARGET, _OF_SOURCE, _VALUE, _ID = "_it_t", "_it_s", "_it_v", "_it_id"


class Pairing(msgspec.Struct, frozen=True):
    """A MERGE over a table with the columns `before`, which has `after` when it is done.

    `lenient`: columns that the source lacks stay as they are. `logged` is the schema as the log has it, which tells
    the columns that follow by themselves, and what new rows hold in columns without a value.
    """

    source: Source
    on: Text
    clauses: tuple[Clause, ...]
    before: StructType
    after: StructType
    lenient: bool = False
    logged: pa.Schema = pa.schema([])

    def of(self, when: str) -> list[tuple[int, Clause]]:
        """The clauses for these rows, in order, with their numbers."""
        return [(number, clause) for number, clause in enumerate(self.clauses) if clause.when == when]

    def pairs(self, target: DataFrame, source: DataFrame, *, values: bool) -> DataFrame:
        """Rows of the target that match, or that a clause takes without a match: `FILE`, `ROW`, `SID`, `CLAUSE`.

        -1 is no clause. With `values` the ids, where there are some, and the columns of the table as they become.
        """
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        matched, alone = self.of("matched"), self.of("not matched by source")
        if alone:
            with analysed("a clause 'when not matched by source'"):
                # It sees the table alone.
                _ = target.select(_case(alone)).schema
        ids = [F.col(ROW_ID).alias(_ID)] if ROW_ID in target.columns else []
        left = target.select("*", *_renamed(self.before.names, _OF_TARGET), *ids)
        right = source.select("*", *_renamed(self.source.columns, _OF_SOURCE))
        with analysed("the condition of the merge"):
            joined = left.join(right, expression(self.on), "left" if alone else "inner")
        with analysed("the condition of a clause"):
            clause = _case(matched)
            if alone:
                clause = F.when(F.col(SID).isNotNull(), clause).otherwise(_case(alone))
            chosen = joined.select("*", clause.alias(CLAUSE)).where((F.col(CLAUSE) >= 0) | F.col(SID).isNotNull())
            if not values:
                return chosen.select(FILE, ROW, SID, CLAUSE)
        # A source may have a column of that name: the change feed has.
        ids = [F.col(_ID).alias(ROW_ID)] if ids else []
        updates = [(number, one) for number, one in enumerate(self.clauses) if one.action == "update"]
        return chosen.select(FILE, ROW, SID, CLAUSE, *ids, *self._values(chosen, updates))

    def inserts(self, source: DataFrame, pairs: DataFrame | None) -> DataFrame:
        """The rows that come: those of the source that no pair has and that a clause takes; as `pairs` with values."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        if pairs is not None:
            matches = pairs.where(F.col(SID).isNotNull()).select(F.col(SID).alias(_OF_TARGET))
            source = source.join(matches, F.col(SID) == F.col(_OF_TARGET), "left_anti")
        new = self.of("not matched")
        renamed = source.select("*", *_renamed(self.source.columns, _OF_SOURCE))
        with analysed("a clause 'when not matched'"):
            chosen = renamed.select("*", _case(new).alias(CLAUSE)).where(F.col(CLAUSE) >= 0)
        nothing = [
            F.lit(None).cast("string").alias(FILE),
            F.lit(None).cast("long").alias(ROW),
            F.lit(None).cast("long").alias(ROW_ID),
        ]
        return chosen.select(SID, CLAUSE, *nothing, *self._values(chosen, new))

    def _values(self, chosen: DataFrame, clauses: Sequence[tuple[int, Clause]]) -> list[Column]:
        """Each column of the table as the clause of a row says; null where it says nothing."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        given = [(number, self._assigned(clause)) for number, clause in clauses]
        raw = [
            (number, place, column)
            for number, columns in given
            for place, column in enumerate(columns)
            if column is not None
        ]
        with analysed("a value of a clause"):
            kinds = chosen.select(*(column.alias(f"{_VALUE}{n}_{place}") for n, place, column in raw)).schema
        result: list[Column] = []
        for place, field in enumerate(self.after.fields):
            made: Column = F.lit(None).cast(field.dataType)
            for number, columns in given:
                column = columns[place]
                if column is None:
                    continue
                kind = kinds[f"{_VALUE}{number}_{place}"].dataType
                fitted = fitting(column, kind, field.dataType, field.name)
                made = F.when(F.col(CLAUSE) == number, fitted).otherwise(made)
            result.append(made.alias(field.name))
        return result

    def _assigned(self, clause: Clause) -> list[Column | None]:
        """What a clause sets each column to; a row that was there keeps the others."""
        names = self.after.names
        if clause.is_star:
            values = self._star(clause)
        else:
            what = "values" if clause.action == "insert" else "set"
            named = named_columns(clause.values or {}, names, what)
            meant = {name: default_meant(given, self._logged(name)) for name, given in named.items()}
            values = {name: value(f"{what}[{name!r}]", given) for name, given in meant.items()}
        left = self._default if clause.action == "insert" else self._kept
        return [values[field.name] if field.name in values else left(field) for field in self.after]

    def _logged(self, name: str) -> pa.Field:
        place = self.logged.get_field_index(name)
        return self.logged.field(place) if place >= 0 else pa.field(name, pa.null())

    def _default(self, field: StructField) -> Column | None:
        text = default_meant("DEFAULT", self._logged(field.name))
        return None if text == "NULL" else value(field.name, text)

    def _kept(self, field: StructField) -> Column | None:
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        return F.col(f"{_OF_TARGET}{self.before.names.index(field.name)}") if field.name in self.before.names else None

    def _star(self, clause: Clause) -> dict[str, Column]:
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        places = {name.lower(): place for place, name in enumerate(self.source.columns)}
        left = {name.lower() for name in (*clause.but, *left_by_star(clause, self.logged, self.source.columns))}
        wanted = [name for name in self.after.names if name.lower() not in left]
        missing = [name for name in wanted if name.lower() not in places]
        if missing and not self.lenient:
            message = (
                f"the source has no column {', '.join(missing)}, which every row is to be set to: name the columns, or "
                "leave these as they are with withSchemaEvolution(). Nothing was written"
            )
            raise SchemaMismatch(message, differences=[f"{name} is missing" for name in missing])
        known = [name for name in wanted if name.lower() in places]
        return {name: F.col(f"{_OF_SOURCE}{places[name.lower()]}") for name in known}


def _case(clauses: Sequence[tuple[int, Clause]]) -> Column:
    """The number of the first clause whose condition is true, -1 for none."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    result: Column = F.lit(-1)
    for number, clause in reversed(clauses):
        if clause.condition is None:
            result = F.lit(number)
        else:
            condition = expression(check_text_or_column("condition", clause.condition))
            result = F.when(condition, F.lit(number)).otherwise(result)
    return result


def _renamed(names: Sequence[str], prefix: str) -> list[Column]:
    """Every column once more, under a name that no text means."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    return [F.col(quoted(name)).alias(f"{prefix}{place}") for place, name in enumerate(names)]
