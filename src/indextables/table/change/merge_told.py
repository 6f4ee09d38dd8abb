"""Says what the history tells of a MERGE, whoever found its rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from indextables.table.change.clauses import Clause
from indextables.table.change.located import Located, Tally
from indextables.table.change.losses import FileCounts
from indextables.table.change.statement import Counts, Prepared

__all__ = ["merge_counts", "merge_metrics", "merge_parameters"]

_KINDS = {
    "matched": "matchedPredicates",
    "not matched": "notMatchedPredicates",
    "not matched by source": "notMatchedBySourcePredicates",
}


def merge_parameters(on: str, clauses: Sequence[Clause]) -> dict[str, str | None]:
    """ON and the clauses, as Delta's history has them."""
    told: dict[str, str | None] = {"predicate": on}
    for when, name in _KINDS.items():
        chosen = [clause for clause in clauses if clause.when == when]
        forms = [{"predicate": clause.condition, "actionType": clause.action} for clause in chosen]
        told[name] = json.dumps([{key: text for key, text in form.items() if text is not None} for form in forms])
    return told


def merge_counts(clauses: Sequence[Clause], gone: int, located: Located) -> Counts:
    """What a MERGE does, where `gone` rows leave their files."""
    updated = sum(_by(clauses, located.tally, "update").values())
    return Counts(deleted=gone - updated, updated=updated, inserted=located.inserts)


def merge_metrics(
    clauses: Sequence[Clause], source_rows: int, counts: Counts, prepared: Prepared, files: FileCounts
) -> dict[str, str | None]:
    """By Delta's names."""
    updated, deleted = (_by(clauses, prepared.located.tally, action) for action in ("update", "delete"))
    told = {
        "numSourceRows": source_rows,
        "numTargetRowsInserted": counts.inserted,
        "numTargetRowsUpdated": counts.updated,
        "numTargetRowsDeleted": counts.deleted,
        "numTargetRowsMatchedUpdated": updated["matched"],
        "numTargetRowsMatchedDeleted": deleted["matched"],
        "numTargetRowsNotMatchedBySourceUpdated": updated["not matched by source"],
        "numTargetRowsNotMatchedBySourceDeleted": deleted["not matched by source"],
        "numTargetRowsCopied": 0,
        "numOutputRows": counts.updated + counts.inserted,
        "numTargetFilesAdded": len(prepared.adds),
        "numTargetFilesRemoved": files.removed,
    }
    return {**{name: str(number) for name, number in told.items()}, **files.metrics("Target")}


def _by(clauses: Sequence[Clause], tally: Tally | None, action: str) -> dict[str, int]:
    """How many rows of the table clauses of this action take, by their kind."""
    counts = {"matched": 0, "not matched by source": 0}
    for number, rows in tally.taken.items() if tally is not None else ():
        if clauses[number].action == action:
            counts[clauses[number].when] += rows
    return counts
