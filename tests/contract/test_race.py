"""Of all who try to create a key, one does: on every store, by threads and by processes."""

from __future__ import annotations

import pytest
from tests.contract.places import KINDS, Place
from tests.contract.race import Racers, race_threads, verdict
from tests.servers.s3 import S3Server

from indextables.storage import PutAnswer

ROUNDS = [20, pytest.param(200, marks=pytest.mark.soak)]


def keys(rounds: int) -> list[str]:
    return [f"_transaction_log/{number:05d}" for number in range(rounds)]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_one_of_sixteen_threads_creates_a_key(place: Place, rounds: int):
    answers = race_threads(lambda racer: place.open(door=racer), keys(rounds))
    assert len(answers) == 16 * rounds
    assert verdict(place.open(), keys(rounds), answers) == []


@pytest.mark.parametrize(
    ("racers", "rounds"), [(6, 20), pytest.param(16, 200, marks=pytest.mark.soak)], indirect=["racers"]
)
@pytest.mark.parametrize("place", [kind for kind in KINDS if kind != "memory"], indirect=True)
def test_one_of_many_processes_creates_a_key(place: Place, racers: Racers, rounds: int):
    answers = racers.race(place, keys(rounds))
    assert verdict(place.open(), keys(rounds), answers) == []


@pytest.mark.parametrize("racers", [6], indirect=True)
def test_the_race_test_detects_a_store_that_checks_and_then_acts(s3: S3Server, table_name: str, racers: Racers):
    place = Place("s3", s3.table_url(table_name), s3.settings())
    s3.is_atomic = False
    for answers in (
        race_threads(lambda _racer: place.open(), ["slot"], racers=4),
        racers.race(place, ["another slot"]),
    ):
        raced = next(key for _, key in answers)
        faults = verdict(place.open(), [raced], answers)
        assert any("were told that they created it" in fault for fault in faults)


def test_the_race_test_detects_a_winner_whose_bytes_are_not_there(s3: S3Server, table_name: str):
    place = Place("s3", s3.table_url(table_name), s3.settings())
    answers = race_threads(lambda _racer: place.open(), ["slot"], racers=2)
    place.open().put("slot", b"somebody else's")
    assert any("but the bytes are" in fault for fault in verdict(place.open(), ["slot"], answers))


def test_the_race_test_detects_answers_that_say_nothing(s3: S3Server, table_name: str):
    place = Place("s3", s3.table_url(table_name), s3.settings())
    answers = {(0, "slot"): place.open().put_if_absent("slot", b"0 slot " * 50), (1, "slot"): PutAnswer.UNKNOWN}
    assert any("unknown" in fault for fault in verdict(place.open(), ["slot"], answers))
