"""Arguments that are no versions, times or limits: a typed error at once, whatever they are."""

from __future__ import annotations

import pytest
from tests.log.commits import add, new_table
from tests.world.commits import append

from indextables.errors import InvalidArgument, ProtocolUnsupported, VersionExpired, VersionNotFound
from indextables.log.commit.resolve import resolve_token, upgrade_protocol
from indextables.log.read.histories import history, version_at


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    log = new_table(tmp_path_factory.mktemp("log") / "table")
    append(log, [add("a")])
    log.snapshot().state  # noqa: B018 - what is loaded is kept, so that later versions build on it
    return log


CALLS = {
    "snapshot": lambda log, value: log.snapshot(value),
    "snapshot of a time": lambda log, value: log.snapshot(timestamp_ms=value),
    "read_version": lambda log, value: log.read_version(value),
    "metadata_at": lambda log, value: log.metadata_at(value),
    "latest_version": lambda log, value: log.latest_version(value),
    "history": history,
    "version_at": version_at,
    "resolve_token": lambda log, value: resolve_token(log, "0" * 32, value),
    "upgrade_protocol": lambda log, value: upgrade_protocol(log, value, value),
}


@pytest.mark.parametrize("value", ["1", 1.5, True, b"1", float("nan"), [1]], ids=repr)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_whole_number_is_refused(log, call, value):
    with pytest.raises(InvalidArgument):
        CALLS[call](log, value)


@pytest.mark.parametrize("version", [-1, -(10**30), 2, 10**9, 2**63 - 1, 2**63, 10**30])
@pytest.mark.parametrize("call", ["snapshot", "read_version", "metadata_at"])
def test_a_version_that_does_not_exist_is_said_to_be_missing(log, call, version):
    with pytest.raises(VersionNotFound) as caught:
        CALLS[call](log, version)
    assert caught.value.latest == 1


def test_other_numbers_out_of_range_are_refused_or_mean_what_they_say(log):
    with pytest.raises((VersionNotFound, VersionExpired)):
        version_at(log, -(10**30))
    assert version_at(log, 10**30) == 1
    assert history(log, 10**30).num_rows == 2
    for limit in (0, -1):
        with pytest.raises(InvalidArgument):
            history(log, limit)
    for version in (-1, 2**63):
        with pytest.raises(InvalidArgument):
            resolve_token(log, "0" * 32, version)
    with pytest.raises(ProtocolUnsupported):
        upgrade_protocol(log, 10**30, 4)
