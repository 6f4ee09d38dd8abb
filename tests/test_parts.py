"""The runner of the parts: nothing is left out in silence."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from tests.parts import ROOT, Part, _all_parts, _report, _run, main


@pytest.fixture
def part(tmp_path):
    """A part with one file of tests of this text."""

    def make(text, *, budget_s=60):
        (tmp_path / "test_it.py").write_text(text)
        return Part("one", (str(tmp_path),), budget_s, "")

    return make


def test_the_paths_of_all_parts_exist():
    for part in _all_parts():
        assert [path for path in (*part.paths, *part.without) if not (ROOT / path).exists()] == []


def test_a_part_of_one_folder_has_its_name():
    named = {path: part.name for part in _all_parts() for path in part.paths if len(part.paths) == 1}
    assert {path: name for path, name in named.items() if path not in ("tests", f"tests/{name}")} == {}


def test_a_part_that_nobody_knows_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["parts", "serach"])
    with pytest.raises(SystemExit):
        main()
    assert "there is no part serach; the parts are spark, " in capsys.readouterr().err


def test_a_part_whose_path_is_gone_fails_and_says_which(capsys):
    outcome = _run(Part("moved", ("tests/no_such_folder",), 60), soak=False)
    assert _report([outcome]) == 1
    assert "tests/no_such_folder does not exist" in capsys.readouterr().out


def test_a_part_that_collects_nothing_fails(part, capsys):
    outcome = _run(part("x = 1\n"), soak=False)
    assert _report([outcome]) == 1
    assert "holds no test" in capsys.readouterr().out


def test_a_part_with_nothing_to_soak_does_not_fail():
    nothing = Part("one", ("tests/test_parts.py",), 60, "soak")
    assert _run(nothing, soak=True).code == 0
    assert _run(nothing, soak=False).code != 0


def test_a_quick_part_asks_every_test_in_few_of_its_cases():
    every = Part("one", ("tests/test_options.py",), 60)
    functions = len(re.findall(r"^def test_", (ROOT / "tests/test_options.py").read_text(), re.MULTILINE))
    one = _run(replace(every, cases=1), soak=False).counts["passed"]
    assert one == functions
    assert one < _run(replace(every, cases=3), soak=False).counts["passed"] <= 3 * functions


def test_a_skip_is_counted_and_named_with_its_reason(part, capsys):
    text = "import pytest\n\ndef test_a():\n    pytest.skip('no such machine')\n\ndef test_b():\n    pass\n"
    outcome = _run(part(text), soak=False)
    assert _report([outcome]) == 0
    told = capsys.readouterr().out
    assert (outcome.counts["passed"], outcome.counts["skipped"]) == (1, 1)
    assert "skipped in one:" in told.split("part      seconds")[1]
    assert "no such machine" in told.split("part      seconds")[1]


def test_a_test_that_fails_fails_the_whole(part):
    assert _report([_run(part("def test_a():\n    assert False\n"), soak=False)]) == 1
