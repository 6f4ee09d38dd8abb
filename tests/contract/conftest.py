"""One suite, every store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.places import KINDS, Place, make_place
from tests.contract.race import Racers

from indextables.storage import Store


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, table_name: str) -> Place:
    return make_place(request, table_name)


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()


@pytest.fixture(scope="session")
def racers(request: pytest.FixtureRequest) -> Iterator[Racers]:
    """Processes that race each other to create keys, as many as the test is parametrised with."""
    with Racers(request.param) as started:
        yield started
