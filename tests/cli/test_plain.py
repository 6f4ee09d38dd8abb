"""What is read without Typer is read as Typer reads it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.cli import plain
from indextables.cli.app import COMMANDS, commands_named
from indextables.cli.declared import Argument, parameters_of
from indextables.cli.typed import app_of

ALL = commands_named(COMMANDS)
WORDS = ["logs", "message:timeout", "-", "a=b", "0", "1", "2", "007", "+3", " 4", "1_0", "5.0", "", "--", "-n", "-x"]
WORDS += ["--json", "--no-highlight", "Grüße", "\udcff", "9" * 30, "--option", "-o", "--help", "-o=a=b", "-qq", "1e3"]
GRAMMARS = {}
seen = []


def typer_reads(name, line):
    """What Typer calls the command with, or None where it refuses."""
    called = []
    if name not in GRAMMARS:
        GRAMMARS[name] = app_of({name: ALL[name]}, lambda _, values: seen[-1].append(values) or 0)
    seen.append(called)
    try:
        GRAMMARS[name](args=[name, *line], prog_name="indextables")
    except SystemExit:
        return called[0] if called else None
    raise AssertionError("Typer always leaves")


def spellings(name):
    found = []
    for parameter in parameters_of(ALL[name]):
        if not isinstance(parameter.declared, Argument):
            found += [flag for flags in parameter.declared.flags for flag in flags.split("/")]
    return found


@st.composite
def lines(draw):
    name = draw(st.sampled_from(sorted(ALL)))
    word = st.sampled_from(WORDS) | st.text(max_size=6)
    flag = st.sampled_from(spellings(name))
    piece = st.one_of(
        word.map(lambda text: [text]),
        flag.map(lambda text: [text]),
        st.tuples(flag, word).map(list),
        st.tuples(flag, word).map(lambda pair: ["=".join(pair)]),
    )
    pieces = draw(st.lists(piece, max_size=4))
    return name, ["logs", *(text for piece in pieces for text in piece)]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(lines())
def test_a_line_is_read_as_typer_reads_it_or_left_to_it(asked):
    name, line = asked
    read = plain.read(ALL[name], line)
    if read is not None:
        assert read == typer_reads(name, line)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("search logs timeout", {"query": "timeout", "limit": 10, "as_json": False, "highlight": None}),
        ("search logs x -n 5 --json -o a=b --option c=d", {"limit": 5, "as_json": True, "option": ["a=b", "c=d"]}),
        ("search --no-highlight logs --offset=3 x", {"highlight": False, "offset": 3, "query": "x"}),
        ("count logs", {"query": None}),
        ("ingest logs a.jsonl b.csv --text m --text n", {"files": ["a.jsonl", "b.csv"], "text": ["m", "n"]}),
        ("ingest logs - --format csv", {"files": ["-"], "kind": "csv"}),
        ("log logs 3", {"number": 3}),
        ("doctor", {"table": None}),
        ("drop-partitions logs -w d=1 --yes", {"where": "d=1", "yes": True}),
    ],
)
def test_the_usual_line_does_without_typer(line, values):
    name, *rest = line.split()
    read = plain.read(ALL[name], rest)
    assert {key: read[key] for key in values} == values
    assert read == typer_reads(name, rest)


@pytest.mark.parametrize(
    "line",
    [
        "search logs",
        "search logs x y",
        "search logs x --nope",
        "search logs x --limit 0",
        "search logs x --limit five",
        "search logs x --limit",
        "search logs x --json=1",
        "search logs x --help",
        "search logs x -c --json",
        "search -- logs x",
        "drop-partitions logs",
        "purge logs --older-than-hours 3",
        "ingest logs",
    ],
)
def test_what_is_not_plainly_right_is_left_to_typer(line):
    name, *rest = line.split()
    assert plain.read(ALL[name], rest) is None
