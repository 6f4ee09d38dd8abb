from __future__ import annotations

import pytest

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.options import Options


def test_an_option_nobody_set_has_its_default():
    options = Options(environ={})
    assert options[opt.CHECKPOINT_INTERVAL] == 10
    assert not options.given(opt.CHECKPOINT_INTERVAL)


@pytest.mark.parametrize(
    "key",
    ["checkpoint.interval", "spark.indextables.checkpoint.interval", "CHECKPOINT.Interval", "delta.checkpointInterval"],
)
def test_a_key_works_with_and_without_prefix_in_any_case_and_by_its_alias(key):
    options = Options({key: 7}, environ={})
    assert options[opt.CHECKPOINT_INTERVAL] == 7
    assert options.given(opt.CHECKPOINT_INTERVAL)


def test_the_nearest_place_wins():
    layers = {
        "session": {"spark.indextables.checkpoint.interval": "2"},
        "table": {"checkpoint.interval": "3"},
        "environ": {"INDEXTABLES_CHECKPOINT_INTERVAL": "4"},
    }
    assert Options({"checkpoint.interval": "1"}, **layers)[opt.CHECKPOINT_INTERVAL] == 1
    assert Options(**layers)[opt.CHECKPOINT_INTERVAL] == 2
    assert Options(table=layers["table"], environ=layers["environ"])[opt.CHECKPOINT_INTERVAL] == 3
    assert Options(environ=layers["environ"])[opt.CHECKPOINT_INTERVAL] == 4


def test_a_session_key_without_our_prefix_is_not_ours():
    assert Options(session={"checkpoint.interval": "2"}, environ={})[opt.CHECKPOINT_INTERVAL] == 10


def test_one_key_in_two_spellings_with_two_values_is_refused():
    with pytest.raises(InvalidArgument, match="given twice"):
        Options({"checkpoint.interval": 1, "spark.indextables.checkpoint.interval": 2}, environ={})


def test_one_key_in_two_spellings_with_one_value_is_fine():
    options = Options({"checkpoint.interval": 5, "spark.indextables.checkpoint.interval": "5"}, environ={})
    assert options[opt.CHECKPOINT_INTERVAL] == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("checkpoint.interval", "0"),
        ("checkpoint.interval", "-1"),
        ("checkpoint.interval", "ten"),
        ("checkpoint.interval", str(2**63)),
        ("checkpoint.enabled", "yes"),
        ("state.format", "orc"),
        ("state.compaction.tombstoneThreshold", "1.5"),
        ("state.compaction.tombstoneThreshold", "nan"),
    ],
)
def test_a_wrong_value_is_refused_when_options_are_made_and_names_the_key(key, value):
    with pytest.raises(InvalidArgument, match=key.replace(".", r"\.")) as caught:
        Options({key: value}, environ={})
    assert caught.value.option == key


def test_every_default_passes_its_own_check():
    for option in opt.known_options():
        assert option.check is None or option.check(option.default), option.key


def test_every_option_has_help_and_a_key_that_no_other_has():
    known = opt.known_options()
    assert all(option.help for option in known)
    assert len({option.key.lower() for option in known}) == len(known)


def test_keys_below_a_prefix_come_from_all_places_nearest_first():
    options = Options({"indexing.typemap.message": "text"}, table={"indexing.typemap.Message": "string"}, environ={})
    assert options.below("indexing.typemap.") == {"message": "text"}
