"""Where a log is cut: the decision, held against its four rules as they stand in the text."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from indextables.log.care.retention import Candidate, Rules, choose_cut
from indextables.log.checkpoint.find import find_states
from indextables.log.wire import StateRef, json_checkpoint_key, parquet_checkpoint_key, state_key, version_key
from indextables.storage.store import ObjectMeta

NOW = 1_000
KEYS = {"avro-state": state_key, "parquet": parquet_checkpoint_key, "json": json_checkpoint_key}


@st.composite
def logs(draw: st.DrawFn) -> list[ObjectMeta]:
    """Version files from somewhere on, perhaps with gaps, and checkpoints of all formats at and between them."""
    head = draw(st.integers(0, 12))
    slots = draw(st.sets(st.integers(0, head), max_size=13))
    kinds = st.sampled_from(sorted(KEYS))
    states = draw(st.sets(st.tuples(kinds, st.integers(0, head)), max_size=8))
    keys = [version_key(slot) for slot in sorted(slots)] + [KEYS[kind](version) for kind, version in sorted(states)]
    # Most logs are written in their order; some were copied.
    # Some times are still to come: of a clock that was ahead.
    ages = draw(st.lists(st.integers(-20, 100), min_size=len(keys), max_size=len(keys)))
    return sorted((ObjectMeta(key, 1, NOW - age) for key, age in zip(keys, ages, strict=True)), key=lambda m: m.key)


rules = st.builds(
    Rules,
    now_ms=st.just(NOW),
    log_ms=st.integers(0, 60),
    min_versions=st.integers(0, 4),
    old_states=st.integers(1, 3),
    state_ms=st.integers(0, 60),
    checkpoint_ms=st.integers(0, 60),
    manifest_ms=st.just(0),
    keep_from=st.none() | st.integers(0, 12),
)
facts = st.dictionaries(
    st.integers(0, 12),
    st.none() | st.builds(Candidate, commit_ms=st.integers(NOW - 100, NOW + 20), has_tokens=st.booleans()),
)


@given(logs(), rules, facts)
def test_the_cut_is_the_newest_checkpoint_for_which_every_rule_holds(listing, rules, facts):
    def fact(ref: StateRef) -> Candidate | None:
        return facts.get(ref.version, Candidate(commit_ms=NOW - 100, has_tokens=True))

    slots = {v: meta for v in range(13) for meta in listing if meta.key == version_key(v)}
    states = find_states(listing)
    head = max([*slots, *(ref.version for ref in states)], default=0)
    wanted = next((ref for ref in states if _may_cut(ref, states, slots, rules, fact(ref))), None)
    older = [v for v in slots if wanted is not None and v <= wanted.version and v != head]
    if wanted is not None and wanted.version == states[-1].version and not older:
        wanted = None  # There is nothing that a cut would take.
    cut = choose_cut(listing, rules, fact)
    assert cut.at == wanted
    if wanted is None:
        assert cut.reason
        assert not cut.states
        assert not cut.versions
    else:
        lower = {key for ref in states if ref.version < wanted.version for key in ref.keys}
        assert set(cut.states) == lower
        assert set(cut.versions) == {slots[v].key for v in older}


def _may_cut(
    ref: StateRef, states: Sequence[StateRef], slots: dict[int, ObjectMeta], rules: Rules, fact: Candidate | None
) -> bool:
    head = max([*slots, states[0].version])
    of_state = {s: rules.state_ms if s.format == "avro-state" else rules.checkpoint_ms for s in states}
    below = [s for s in states if s.version < ref.version]
    come = {v: m.modified_ms for v, m in slots.items() if m.modified_ms <= NOW}
    age = {v: NOW - next((come[u] for u in range(v, 13) if u in come), NOW) for v in slots}
    old_files = all(age[v] > rules.log_ms for v in slots if v <= ref.version)
    told = None if fact is None else fact.commit_ms
    old_commit = told is not None and (told > NOW or NOW - told > rules.log_ms)
    state_age = {
        s: NOW - next((n.modified_ms for n in reversed(states[: at + 1]) if n.modified_ms <= NOW), NOW)
        for at, s in enumerate(states)
    }
    let_go = all(
        state_age[s] > of_state[s]
        and (
            state_age[s] > rules.log_ms or len({n.version for n in states if n.version > s.version}) > rules.old_states
        )
        for s in below
    )
    whole = all(v in slots for v in range(ref.version + 1, head + 1))
    unread = rules.keep_from is None or ref.version <= rules.keep_from
    kept = head - ref.version >= rules.min_versions
    return old_files and old_commit and let_go and whole and unread and kept and fact is not None and fact.has_tokens
