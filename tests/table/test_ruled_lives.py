"""Lives of a table with rules: whatever is done in whatever order, no row breaks one, and no number is given twice."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import indextables
from indextables.errors import ConstraintViolation

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("twice", pa.int64()), ("tag", pa.string())])
GENERATED = {"id": "ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY -2)", "twice": "n * 2"}
FEW = 50
NUMBERS = st.one_of(st.none(), st.integers(0, 60))
SOME = st.lists(NUMBERS, min_size=1, max_size=4)


class Life(RuleBasedStateMachine):
    """The table, and the same rows in plain Python: by tag the number `n`."""

    @initialize(partitioned=st.booleans())
    def born(self, partitioned: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ruled-"))
        by = ["twice"] if partitioned else []
        self.table = indextables.create(self.folder / "t", SCHEMA, generated=GENERATED, partition_by=by)
        self.rows: dict[str, int | None] = {}
        self.ruled = False
        self.ids: dict[str, int] = {}
        self.tags = 0
        self.past = {0: (dict(self.rows), self.ruled)}

    def teardown(self) -> None:
        if hasattr(self, "table"):
            assert indextables.verify(self.table.url, rules=True).ok
            self.table.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self, numbers: list[int | None]) -> dict[str, int | None]:
        self.tags += len(numbers)
        return {f"t{self.tags - place}": number for place, number in enumerate(numbers)}

    def does(self, call, wanted: dict[str, int | None], changed: list[int | None]) -> None:
        """The call leaves `wanted`, unless what it writes breaks the rule: then nothing is written."""
        before = self.table.version
        if self.ruled and any(number is None or number >= FEW for number in changed):
            with pytest.raises(ConstraintViolation, match="few"):
                call()
            return
        call()
        self.rows = wanted
        if self.table.version != before:
            self.past[self.table.version] = (dict(self.rows), self.ruled)

    @rule(numbers=SOME)
    def append(self, numbers: list[int | None]) -> None:
        new = self.fresh(numbers)
        given = [{"n": n, "tag": tag} for tag, n in new.items()]
        self.does(lambda: self.table.append(given), {**self.rows, **new}, numbers)

    @rule(number=st.integers(0, 40))
    def append_wrongly(self, number: int) -> None:
        for bad in ({"twice": number}, {"id": 1}):
            with pytest.raises(ConstraintViolation):
                self.table.append([{"n": number + 1, "tag": "bad"}, {"n": number + 1, "tag": "worse", **bad}])

    @rule(rest=st.integers(0, 2), more=st.integers(-20, 20))
    def update(self, rest: int, more: int) -> None:
        new = {tag: n + more for tag, n in self.rows.items() if n is not None and n % 3 == rest and n + more >= 0}
        where = f"n % 3 = {rest} AND n + {more} >= 0"
        self.does(lambda: self.table.update({"n": f"n + {more}"}, where), {**self.rows, **new}, list(new.values()))

    @rule(rest=st.integers(0, 2))
    def delete(self, rest: int) -> None:
        left = {tag: n for tag, n in self.rows.items() if n is None or n % 3 != rest}
        self.does(lambda: self.table.delete(f"n % 3 = {rest}"), left, [])

    @rule(numbers=SOME, known=st.integers(0, 3), by_merge=st.booleans())
    def upsert(self, numbers: list[int | None], known: int, by_merge: bool) -> None:
        new = {**self.fresh(numbers), **dict.fromkeys(sorted(self.rows)[:known], 7)}
        source = [{"n": n, "tag": tag} for tag, n in new.items()]

        def merge() -> object:
            numbered = pa.Table.from_pylist([{"id": -5, **row} for row in source])
            merging = self.table.merge(numbered, "t.tag = s.tag")
            return merging.when_matched_update_all().when_not_matched_insert_all().execute()

        call = merge if by_merge else lambda: self.table.upsert(source, on="tag")
        self.does(call, {**self.rows, **new}, list(new.values()))

    @rule()
    def constrain(self) -> None:
        if self.ruled:
            return
        if any(n is None or n >= FEW for n in self.rows.values()):
            with pytest.raises(ConstraintViolation, match="few"):
                self.table.add_constraint("few", f"n < {FEW}")
            return
        self.table.add_constraint("few", f"n < {FEW}")
        self.ruled = True
        self.past[self.table.version] = (dict(self.rows), True)

    @rule()
    def release(self) -> None:
        if self.ruled:
            self.table.drop_constraint("few")
            self.ruled = False
            self.past[self.table.version] = (dict(self.rows), False)

    @rule(place=st.integers(0, 50))
    def restore(self, place: int) -> None:
        version = sorted(self.past)[place % len(self.past)]
        self.table.restore(version=version)
        self.rows, self.ruled = dict(self.past[version][0]), self.past[version][1]
        self.past[self.table.version] = self.past[version]

    @rule(how=st.integers(0, 4))
    def care(self, how: int) -> None:
        if how == 0:
            self.table.merge_splits()
        elif how == 1:
            self.table.checkpoint()
        elif how == 2:
            self.table.reindex(force=True)
        else:
            indextables.invalidate_caches()
            self.table = indextables.open(self.table.url)

    @invariant()
    def rows_are_right(self) -> None:
        if not hasattr(self, "table"):
            return
        self.table.refresh()
        found = self.table.to_arrow().to_pylist()
        assert {row["tag"]: row["n"] for row in found} == self.rows
        assert len(found) == len(self.rows)
        assert self.ruled == ("constraints.few" in self.table.metadata.configuration)
        for row in found:
            assert row["twice"] == (None if row["n"] is None else 2 * row["n"])
            assert self.ids.setdefault(row["tag"], row["id"]) == row["id"], "a row keeps its number"
        assert len(set(self.ids.values())) == len(self.ids), "a number is one row's for ever"


@pytest.mark.slow
def test_any_order_of_changes_keeps_the_rules():
    chosen = settings(max_examples=8, stateful_step_count=12, suppress_health_check=list(HealthCheck), deadline=None)
    run_state_machine_as_test(Life, settings=chosen)
