"""Which checkpoints are there? Read off a listing, without opening one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from indextables.env import Env
from indextables.log.wire import LOG_DIR, LogFile, StateFormat, StateRef, parse_key
from indextables.storage.store import ObjectMeta

__all__ = ["find_states", "list_checkpoints", "newest_at"]

# The order of preference where one version has several: the cheapest to read first.
_RANK: dict[StateFormat, int] = {"avro-state": 2, "parquet": 1, "json": 0}


def find_states(listing: Iterable[ObjectMeta]) -> list[StateRef]:
    """Every checkpoint whose parts are all in `listing` (of the log folder), newest version first.

    Complete is what the names can tell: a multi-part Parquet set has all of its parts. A JSON head comes with every
    part of its version, ordered by set and number; which of them it needs is known once it is read. `modified_ms` is
    the newest part's, `size` the sum.
    """
    refs: list[StateRef] = []
    parquet: dict[tuple[int, int], list[tuple[int, ObjectMeta]]] = defaultdict(list)
    heads: dict[int, ObjectMeta] = {}
    json_parts: dict[int, list[tuple[str, int, ObjectMeta]]] = defaultdict(list)
    for meta in listing:
        file = parse_key(meta.key)
        if file is None:
            continue
        if file.kind == "state":
            refs.append(_ref(file.version, "avro-state", [meta]))
        elif file.kind in {"parquet-checkpoint", "flat-checkpoint"}:
            refs.append(_ref(file.version, "parquet", [meta]))
        elif file.kind == "parquet-checkpoint-part":
            parquet[file.version, file.parts or 0].append((file.part or 0, meta))
        elif file.kind == "json-checkpoint":
            heads[file.version] = meta
        elif file.kind == "json-checkpoint-part":
            json_parts[file.version].append((_set_of(file), file.part or 0, meta))
    for (version, count), members in parquet.items():
        if len(members) == count:
            refs.append(_ref(version, "parquet", [meta for _, meta in sorted(members, key=lambda m: m[0])]))
    for version, head in heads.items():
        ordered = sorted(json_parts[version], key=lambda part: part[:2])
        refs.append(_ref(version, "json", [head, *(meta for _, _, meta in ordered)]))
    return sorted(refs, key=lambda ref: (ref.version, _RANK[ref.format], ref.keys), reverse=True)


def list_checkpoints(env: Env) -> Iterator[ObjectMeta]:
    """Version files and checkpoints, without the manifests that lie between them in the order of keys."""
    for meta in env.store.list_from(LOG_DIR):
        if not meta.key[len(LOG_DIR) : len(LOG_DIR) + 1].isdigit():
            break
        yield meta
    yield from env.store.list_from(LOG_DIR, LOG_DIR + "state-v")


def newest_at(states: Iterable[StateRef], version: int) -> StateRef | None:
    """The first of `states` (newest first) at or below `version`."""
    return next((ref for ref in states if ref.version <= version), None)


def _set_of(file: LogFile) -> str:
    return file.id or ""


def _ref(version: int, kind: StateFormat, metas: list[ObjectMeta]) -> StateRef:
    etags = [meta.etag for meta in metas if meta.etag]
    return StateRef(
        version=version,
        format=kind,
        keys=tuple(meta.key for meta in metas),
        modified_ms=max(meta.modified_ms for meta in metas),
        size=sum(meta.size for meta in metas),
        etag=" ".join(etags) if len(etags) == len(metas) else None,
    )
