"""Claims ranges of the sequences from which identity columns are numbered.

A claim is a file `_transaction_log/_sequences/<field id>/<first>` that says how many places, from `first` on, are its
writer's. The next claim begins where the newest one ends, and a name is created once: so no place is claimed twice,
without a commit and without a conflict. A claim is durable before a row is written with its numbers. Whatever a writer
does not use, because it needs less, fails or gets no answer, is a gap.

Of old claims only the newest is needed, and the writers delete the others. A writer that was held up between looking
for the newest claim and creating its own could create the name of one that is deleted by then: so claims stay for an
hour, and one that took longer than ten minutes is not used.
"""

from __future__ import annotations

import contextlib

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import LogCorrupt, ObjectNotFound, StoreUnavailable
from indextables.log.read import clock
from indextables.log.wire import SEQUENCE_DIR, claim_key, parse_key, sequence_dir
from indextables.storage.store import ObjectMeta, PutAnswer

__all__ = ["Claim", "claim", "newest_claims", "reserve"]

_PATIENCE_MS = 600_000
_KEPT_MS = 3_600_000
_TIDY_ABOVE = 32
_MAX_BYTES = 1_024
_MAX_PLACE = 10**20 - 1


class Claim(msgspec.Struct, frozen=True):
    """Places of a sequence, counted from 0: `count` of them from `first` on."""

    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count


class _Content(msgspec.Struct, frozen=True):
    count: int


_CONTENT = msgspec.json.Decoder(_Content)


def claim(env: Env, field: int, *, least: int, wanted: int, places: int) -> Claim | None:
    """Places of the sequence of the column `field` that nobody else has or will have: `wanted` many, at least `least`.

    The sequence has `places` places; None where fewer than `least` are left. Raises LogCorrupt for a claim that says
    nothing, StoreUnavailable if no claim gets an answer, StoreError.
    """
    faults = 0
    before: int | None = None
    while True:
        started = _elapsed(env)
        listing = _listing(env, field)
        try:
            first = 0 if not listing else _read(env, listing[-1]).end
        except ObjectNotFound:
            # Tidied away because there is a newer one.
            continue
        if places - first < least:
            return None
        made = Claim(first, min(wanted, places - first))
        answer = env.store.put_if_absent(claim_key(field, first), msgspec.json.encode(_Content(made.count)))
        late = max(now - then for now, then in zip(_elapsed(env), started, strict=True)) > _PATIENCE_MS
        if answer is PutAnswer.CREATED and not late:
            _tidy(env, listing)
            return made
        # Where another one got on, it is no fault; without an answer the claim may be there: then it is a gap.
        faults = faults + 1 if first == before else 0
        before = first
        if faults >= env.options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS]:
            message = (
                f"the store at {env.store.url} answers no claim of numbers for an identity column. Nothing was "
                "written; try again"
            )
            raise StoreUnavailable(message, url=env.store.url, key=claim_key(field, first))
        env.ambient.sleep(env.ambient.random() * 0.01 * 2 ** min(faults, 8))


def reserve(env: Env, field: int, places: int) -> None:
    """Let the sequence of the column `field` go on behind its first `places` places. Raises as `claim`."""
    while True:
        listing = _listing(env, field)
        taken = 0
        with contextlib.suppress(ObjectNotFound):
            taken = _read(env, listing[-1]).end if listing else 0
        if taken >= places:
            return
        claim(env, field, least=places - taken, wanted=places - taken, places=_MAX_PLACE)


def newest_claims(env: Env) -> dict[int, Claim]:
    """The newest claim of each sequence of the table, by the id of its column. Raises LogCorrupt, StoreError."""
    newest: dict[int, ObjectMeta] = {}
    for meta in env.store.list_from(SEQUENCE_DIR):
        file = parse_key(meta.key)
        if file is not None and file.kind == "claim":
            newest[int(file.id or "0")] = meta
    return {field: _read(env, meta) for field, meta in newest.items()}


def _listing(env: Env, field: int) -> list[ObjectMeta]:
    """The claims of a sequence in ascending order."""
    found = env.store.list_from(sequence_dir(field))
    return [meta for meta in found if (file := parse_key(meta.key)) is not None and file.kind == "claim"]


def _read(env: Env, meta: ObjectMeta) -> Claim:
    first = int(meta.key.rpartition("/")[2])
    try:
        count = _CONTENT.decode(env.store.get(meta.key) if meta.size <= _MAX_BYTES else b"").count
    except msgspec.DecodeError as error:
        raise _corrupt(env, meta, str(error)) from error
    if not 0 < count <= _MAX_PLACE - first:
        raise _corrupt(env, meta, f"it claims {count} places")
    return Claim(first, count)


def _corrupt(env: Env, meta: ObjectMeta, why: str) -> LogCorrupt:
    message = (
        f"{meta.key} of the table at {env.store.url}, which says how many numbers of an identity column are taken, "
        f'cannot be read: {why}. Put it back from a copy, or write {{"count": n}} into it, n so large that no row has '
        "a later number"
    )
    return LogCorrupt(message, url=env.store.url, key=meta.key)


def _elapsed(env: Env) -> tuple[float, float]:
    """Milliseconds by two clocks: one stands still while a machine sleeps, the other can be set."""
    return env.ambient.monotonic() * 1_000, float(env.ambient.now_ms())


def _tidy(env: Env, listing: list[ObjectMeta]) -> None:
    """Delete claims behind which there is a newer one, once they are many. What cannot be deleted stays."""
    if len(listing) <= _TIDY_ABOVE:
        return
    now_ms = env.ambient.now_ms() + clock.skew_ms(env)
    old = [meta.key for meta in listing[:-1] if now_ms - meta.modified_ms > _KEPT_MS]
    if len(old) > _TIDY_ABOVE:
        env.store.delete_many(old)
