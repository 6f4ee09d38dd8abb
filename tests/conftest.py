"""What every test may ask for by name."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import Phase, settings

from indextables import process
from tests.servers.fixtures import (
    azurite,
    fake_gcs,
    ministack,
    s3,
    s3_of_the_run,
    spark_cluster,
    table_name,
    versitygws,
)
from tests.spark_session import spark

__all__ = [
    "azurite",
    "fake_gcs",
    "forget_everything",
    "ministack",
    "s3",
    "s3_of_the_run",
    "spark",
    "spark_cluster",
    "table_name",
    "versitygws",
    "with_upkeep",
]

# Tables of tests are left as the test made them: a merge in the background would come between versions that it counts.
# Where a test or its table says otherwise, that counts; those of upkeep (`with_upkeep`) have it on as users do.
QUIET = "INDEXTABLES_MERGEONWRITE_ENABLED"
os.environ[QUIET] = "false"

# Property tests are judged by what they find, not by how busy the machine is. The gate gives one answer for the same
# sources; `make soak` runs these tests too and looks in new places each time, and what it finds can be played again.
settings.register_profile("explore", deadline=None, print_blob=True, derandomize=False)
settings.register_profile("tests", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("tests")

# Whether a planted bug is found is all that `tests.mutants` asks: nobody reads the smallest example.
settings.register_profile("mutants", settings.get_profile("tests"), phases=(Phase.explicit, Phase.generate))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="of each test with parameters run at most so many cases, spread evenly")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases beyond `--cases`; every test function keeps at least one."""
    most = config.getoption("--cases")
    if most is None:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {id(some[at * len(some) // most]) for some in cases.values() for at in range(most)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


@pytest.fixture
def with_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables merge small splits by themselves, as they do where nobody says otherwise; so do processes of this test."""
    monkeypatch.delenv(QUIET)


@pytest.fixture
def forget_everything() -> Callable[[], None]:
    """Makes this process forget all that it can, as if it had just begun."""

    def forget() -> None:
        for memory in process.memories():
            if memory.clear is not None:
                memory.clear()

    forget()
    return forget
