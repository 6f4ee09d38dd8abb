"""What people have are logs: lines of text, patterns in them, files that grow, and lines that are broken."""

import bz2
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.cli.input import Follower, blocks, inputs

LINE = [sys.executable, "-c", "from indextables.cli import main; raise SystemExit(main())"]
NGINX = (
    '1.2.3.4 - - [10/Oct/2026:13:55:36 -0700] "GET /a?b HTTP/1.1" 200 2326 "-" "curl/8"',
    '1.2.3.5 - bob [10/Oct/2026:13:55:37 -0700] "POST /b HTTP/1.1" 404 -',
)
SYSLOG = (
    "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
    "Oct  1 02:14:15 web1 sshd[123]: Accepted publickey",
    "<165>1 2026-10-11T22:14:15.003Z web2 app 12 ID47 - An event",
)


def rows(path, *columns):
    found = indextables.open(path).to_arrow()
    return found.select(list(columns)).to_pylist() if columns else found.to_pylist()


def messages(path):
    return sorted(indextables.open(path).to_arrow()["message"].to_pylist())


@pytest.mark.parametrize(
    "name", ["app.log", "notes.txt", "app.log.1", "app.log-20260101", "app.log.gz", "app.log.bz2", "-"]
)
def test_plain_lines_are_rows_that_can_be_searched_at_once(command, tmp_path, monkeypatch, name):
    text = "query timeout after 30 s\r\n\n  indented {x}\nGrüße ohne Ende".encode()
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(Path(name).suffix, lambda data: data)
    if name == "-":
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(text))))
        ran = command("ingest", tmp_path / "t", "-", "--format", "text")
    else:
        (tmp_path / name).write_bytes(pack(text))
        ran = command("ingest", tmp_path / "t", tmp_path / name)
    assert ran.code == 0, ran.err
    assert [row["message"] for row in rows(tmp_path / "t")] == [
        "query timeout after 30 s",
        "  indented {x}",
        "Grüße ohne Ende",
    ]
    assert command("search", tmp_path / "t", "timeout", "--json").lines[0]["message"] == "query timeout after 30 s"


def test_a_log_of_json_lines_is_still_json(command, tmp_path):
    (tmp_path / "app.log").write_text('{"a": 1}\n')
    assert command("ingest", tmp_path / "t", tmp_path / "app.log").code == 0
    assert rows(tmp_path / "t") == [{"a": 1}]


@pytest.mark.parametrize(
    ("pattern", "lines", "columns", "first"),
    [
        (
            "nginx",
            NGINX,
            "status bytes path user_agent",
            {"status": 200, "bytes": 2326, "path": "/a?b", "user_agent": "curl/8"},
        ),
        (
            "syslog",
            SYSLOG,
            "host app pid message",
            {"host": "mymachine", "app": "su", "pid": None, "message": "'su root' failed"},
        ),
        ("json", ('w1: {"n": 1, "t": {"u": 2}}', '{"n": 2}'), "prefix n t", {"prefix": "w1:", "n": 1, "t": {"u": 2}}),
        (r"(?<level>[A-Z]+) (?<n>\d+)", ("WARN 7", "INFO 08"), "level n", {"level": "WARN", "n": "7"}),
    ],
)
def test_a_pattern_makes_columns_of_lines(command, tmp_path, pattern, lines, columns, first):
    (tmp_path / "a").write_text("\n".join(lines) + "\n")
    ran = command("ingest", tmp_path / "t", tmp_path / "a", "--pattern", pattern)
    assert ran.code == 0, ran.err
    found = rows(tmp_path / "t", *columns.split())
    assert len(found) == len(lines)
    assert found[0] == first


def test_times_of_a_web_server_are_instants(command, tmp_path):
    (tmp_path / "a").write_text("\n".join(NGINX))
    assert command("ingest", tmp_path / "t", tmp_path / "a", "--pattern", "nginx").code == 0
    assert command("sql", tmp_path / "t", "SELECT min(time) AS t FROM t", "--json").lines == [
        {"t": "2026-10-10T20:55:36Z"}
    ]


BROKEN = {
    "a.jsonl": ('{"n": 1}\nnull\n\n{"n": "x"}\n{"n": 2, "new": 1}\n{broken\n{"n": 4}\n', [2, 4, 5, 6], [1, 4]),
    "a.csv": ('n,m\n1,a\n\n2\n"x",b\n3,"c\nd"\n4,"e\n', [4, 5, 8], [1, 3]),
    "a.txt": ("n=1\nnope\n\nn=x\nn=99999999999999999999\nn=5", [2, 4, 5], [1, 5]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_bad_lines_are_kept_aside_with_file_line_and_reason_and_the_others_taken(command, tmp_path, name):
    text, bad, good = BROKEN[name]
    file, kept, table = tmp_path / name, tmp_path / "bad.jsonl", tmp_path / "t"
    file.write_text(text)
    how = ["--pattern", r"^n=(?P<n>\w+)$"] if name == "a.txt" else []
    schema = ["--schema", "n int, m string" if name == "a.csv" else "n int"]
    ran = command("ingest", table, file, *how, *schema)
    assert ran.code == 2
    assert str(file) in ran.err
    assert not table.exists()
    ran = command("ingest", table, file, *how, *schema, "--bad-lines", kept)
    assert ran.code == 0, ran.err
    assert f"{len(good)} rows" in ran.err
    assert f"{len(bad)} bad lines in {kept}" in ran.err
    assert sorted(row["n"] for row in rows(table)) == good
    told = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [one["line"] for one in told] == bad
    assert all(one["file"] == str(file) and one["reason"] and one["text"] for one in told)
    assert told[0]["text"] == text.split("\n")[bad[0] - 1]


BLANKS = ["\u3000", "\u00a0", "\u2028", "\u0085", "\x1c", "\x1f", "\x0b", "\x0c", "\t", " ", "\r", ""]


@pytest.mark.parametrize("bad", [b"bad", b"ok \xff"], ids=["unmatched", "not UTF-8"])
@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
def test_a_line_of_blanks_of_any_kind_does_not_put_good_lines_aside(command, tmp_path, blank, bad):
    file = tmp_path / "a.log"
    file.write_bytes(blank.encode() + b"\nok one\n" + bad + b"\nok two\nok three\n")
    aside = tmp_path / "bad.jsonl"
    ran = command("ingest", tmp_path / "t", file, "--pattern", r"^ok (?P<rest>\w+)$", "--bad-lines", aside)
    assert ran.code == 0
    assert rows(tmp_path / "t", "rest") == [{"rest": rest} for rest in ("one", "two", "three")]
    kept = [json.loads(line)["line"] for line in aside.read_bytes().splitlines()]
    assert 3 in kept
    assert set(kept) <= {1, 3}


def test_a_new_table_takes_its_types_from_the_lines_that_can_be_read(command, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a":1}\n{"a":"x"}\nnull\n{"a":3}\n{broken\n')
    assert command("ingest", tmp_path / "t", tmp_path / "a.jsonl", "--bad-lines", tmp_path / "bad").code == 0
    assert rows(tmp_path / "t") == [{"a": 1}, {"a": 3}]


def test_a_file_of_another_kind_does_not_end_as_a_file_of_bad_lines(command, tmp_path):
    (tmp_path / "a.txt").write_text("no\n" * 2000)
    arguments = ["--pattern", "(?P<n>[0-9]+)", "--schema", "n int", "--bad-lines", tmp_path / "bad"]
    ran = command("ingest", tmp_path / "t", tmp_path / "a.txt", *arguments)
    assert ran.code == 2
    assert "none of the first" in ran.err
    assert (tmp_path / "bad").read_text() == ""


@pytest.mark.parametrize("kind", ["jsonl", "text"])
def test_a_line_may_be_long_and_one_beyond_the_limit_is_named(tmp_path, monkeypatch, kind):
    def line(size):
        return ('{"message":"%s"}' % ("x" * size) if kind == "jsonl" else "x" * size) + "\n"

    schema = pa.schema([("message", pa.string())])
    file = tmp_path / "a"
    file.write_text(line(1) + line(9 * 2**20) + line(2))
    found = [
        len(text)
        for batch in inputs.open_input(str(file), kind, schema).batches()
        for text in batch["message"].to_pylist()
    ]
    assert found == [1, 9 * 2**20, 2]
    monkeypatch.setattr(blocks.blocks_of, "__defaults__", (1, 2**20, 8 * 2**20))
    with pytest.raises(indextables.errors.InvalidArgument, match=r"line 2 has 9,437,\d+ bytes; a line can have"):
        list(inputs.open_input(str(file), kind, schema).batches())
    from indextables.cli.input import BadLines

    aside = BadLines(str(tmp_path / "bad"))
    batches = inputs.open_input(str(file), kind, schema, None, aside).batches()
    assert [len(text) for batch in batches for text in batch["message"].to_pylist()] == [1, 2]
    assert json.loads((tmp_path / "bad").read_text())["line"] == 2


@pytest.mark.parametrize("end", [b"\n", b""], ids=["ended", "open"])
@pytest.mark.parametrize("beyond", [0, 1, 3])
def test_the_limit_of_a_line_is_exact_wherever_a_block_ends(end, beyond):
    lines = [b"a\n", b"x" * (10 + beyond) + end]
    for size in range(1, 11):
        found = list(blocks.blocks_of(io.BytesIO(b"".join(lines)), blocks.end_of_lines, 1, size, 10))
        overlong = [(block.line, block.length) for block in found if block.length is not None]
        assert overlong == ([(2, len(lines[1]))] if beyond else []), size
        taken = b"".join(block.data for block in found if block.length is None)
        assert taken == (lines[0] if beyond else b"".join(lines)), size


def test_columns_that_come_later_are_added_where_that_is_asked_for(command, tmp_path):
    table, file = tmp_path / "t", tmp_path / "a.jsonl"
    file.write_text('{"n": 1, "s": {"a": 1}}\n')
    assert command("ingest", table, file).code == 0
    file.write_text('{"n": 2}\n' * 3 + '{"n": 3, "s": {"a": 2}, "new": 1.5}\n')
    ran = command("ingest", table, file)
    assert ran.code == 2
    assert "--merge-schema" in ran.err
    assert command("ingest", table, file, "--merge-schema").code == 0
    assert rows(table)[-1] == {"n": 3, "s": {"a": 2}, "new": 1.5}
    more = tmp_path / "b.csv"
    more.write_text("n,host\n4,db7\n")
    assert command("ingest", table, more, "--merge-schema").code == 0
    assert [(row["n"], row["host"]) for row in rows(table)][-1] == (4, "db7")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.jsonl", "--pattern", "nginx", "--format", "csv"], "--pattern is for lines of text"),
        (["a.jsonl", "--pattern", "ngin"], "is not one of syslog, nginx, apache, json"),
        (["a.jsonl", "--pattern", "(?P<a>"], "cannot be read as a regular expression"),
        (["a.jsonl", "--until-idle", "1"], "give --follow too"),
        (["-", "--follow"], "standard input"),
        (["a.jsonl", "--bad-lines", "no/such/folder"], "--bad-lines no/such/folder: No such file"),
        (["nothing*.log"], "no file has such a name"),
        (["a.jsonl", "--schema", "n string"], "its column n is int64, not string"),
        (["a.jsonl", "--schema", "other string"], "--schema names other"),
    ],
)
def test_flags_that_cannot_be_followed_are_refused_in_a_sentence(command, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    assert command("ingest", "t", "a.jsonl").code == 0
    ran = command("ingest", "t", *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert len(rows(tmp_path / "t")) == 1


def test_globs_and_folders_stand_for_their_files(command, tmp_path):
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    for place, name in enumerate(["a.log", "b.txt", "deep/c.log", ".hidden.log"]):
        (folder / name).write_text(f"line {place}\n")
    assert command("ingest", tmp_path / "g", f"{folder}/**/*.log").code == 0
    assert messages(tmp_path / "g") == ["line 0", "line 2"]
    assert command("ingest", tmp_path / "f", folder).code == 0
    assert messages(tmp_path / "f") == ["line 0", "line 1", "line 2"]


class Followed:
    """A folder and the table that follows it; each call is a process that starts again."""

    def __init__(self, command, tmp_path):
        self.folder, self.table = tmp_path / "in", tmp_path / "t"
        self.folder.mkdir()
        self._command = command

    def add(self, name, text):
        with (self.folder / name).open("a") as file:
            file.write(text)

    def take(self, *flags):
        ran = self._command("ingest", self.table, self.folder, "--follow", "--until-idle", "0", *flags)
        assert ran.code == 0, ran.err
        return messages(self.table)


def test_a_folder_that_is_followed_gives_each_line_once_whatever_becomes_of_its_files(command, tmp_path):
    one = Followed(command, tmp_path)
    one.add("a.log", "a1\na2\nhal")
    one.add("b.log", "a1\n")  # The same first line, and it is another file.
    assert one.take() == ["a1", "a1", "a2"]
    assert one.take() == ["a1", "a1", "a2"]
    one.add("a.log", "f\na4\n")
    one.add("b.log", "b2\n")
    assert one.take() == sorted(["a1", "a2", "half", "a4", "a1", "b2"])
    # Rotation: renamed, then compressed, and a new file in its place.
    (one.folder / "a.log").rename(one.folder / "a.log.1")
    one.add("a.log", "a5\n")
    assert len(one.take()) == 7
    (one.folder / "a.log.1.gz").write_bytes(gzip.compress((one.folder / "a.log.1").read_bytes()))
    (one.folder / "a.log.1").unlink()
    assert len(one.take()) == 7
    # Emptied in its place and filled again, longer than it was.
    (one.folder / "b.log").write_text("c1\nc2 is longer\nc3\n")
    assert one.take() == sorted(["a1", "a2", "half", "a4", "a1", "b2", "a5", "c1", "c2 is longer", "c3"])
    # A last line without its end is taken when its file has rested.
    one.add("b.log", "the end")
    assert "the end" not in one.take()
    old = time.time() - 3600
    os.utime(one.folder / "b.log", (old, old))
    assert "the end" in one.take()
    assert len(one.take()) == 11


def test_followed_csv_json_and_parquet_and_names_that_say_nothing(command, tmp_path):
    one = Followed(command, tmp_path)
    indextables.create(one.table, pa.schema([("message", pa.string()), ("n", pa.int64())]))
    one.add("a.csv", 'n,message\n1,"x\n')
    one.add("b.jsonl", '{"message": "j1"}\nbroken\n')
    one.add("c.bin", "?")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"message": ["p1"]}), one.folder / "d.parquet")
    (one.folder / "e.parquet").write_bytes(b"PAR1 not yet")
    aside = tmp_path / "bad"
    assert one.take("--bad-lines", aside) == ["j1", "p1"]
    one.add("a.csv", 'y"\n2,z\n')
    one.add("b.jsonl", '{"message": "j2"}\nworse\n')
    assert one.take("--bad-lines", aside) == ["j1", "j2", "p1", "x\ny", "z"]
    assert [(kept["line"], kept["text"]) for kept in map(json.loads, aside.read_text().splitlines())] == [
        (2, "broken"),
        (4, "worse"),
    ]
    assert len(one.take("--bad-lines", aside)) == 5


@pytest.mark.parametrize("name", ["a.log.gz", "a.jsonl.gz"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
def test_a_compressed_file_that_is_cut_off_is_named_and_one_that_is_being_written_is_waited_for(
    command, tmp_path, name, share
):
    one = Followed(command, tmp_path)
    texts = [f"{number} {hash(str(number))}" for number in range(1000)]
    lines = [json.dumps({"message": text}) if "json" in name else text for text in texts]
    whole = gzip.compress("".join(f"{line}\n" for line in lines).encode())
    file = one.folder / name
    file.write_bytes(whole[: int(len(whole) * share)])
    ran = command("ingest", one.table, file)
    assert ran.code == 2
    assert f"{file}: " in ran.err
    assert "output" not in ran.err
    one.add("b.log", "b1\n")
    assert one.take() == ["b1"]
    file.write_bytes(whole)
    assert one.take() == sorted([*texts, "b1"])


def test_a_mark_of_byte_order_is_dropped_at_the_start_of_a_file_only(command, tmp_path):
    one = Followed(command, tmp_path)
    one.add("a.log", "\ufeffone\n")
    assert one.take() == ["one"]
    one.add("a.log", "\ufefftwo\n")
    assert one.take() == ["one", "\ufefftwo"]


class Running:
    """A follower of a folder of logs that goes on: each look takes what is there, into a table that is a dict."""

    def __init__(self, folder):
        self.folder, self.lines, self._log = folder, [], {}
        self._follower = Follower(lambda: dict(self._log).get, time.time_ns)

    def write(self, name, text, mode="a"):
        with (self.folder / name).open(mode) as file:
            file.write(text)

    def look(self, *, backwards=False):
        names = sorted(map(str, self.folder.iterdir()), reverse=backwards)
        self._follower.forget_gone(names)
        for name in names:
            part = self._follower.next_part(name, "text")
            if part is not None:
                self.lines += part.stream().read().decode().splitlines()
                self._log.update([part.txn, part.along])
                self._follower.taken(part)
        return sorted(self.lines)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("between", ["", "four\n"], ids=["no new line", "a new line"])
@pytest.mark.parametrize("looks", [True, False], ids=["looks after the copy", "looks later"])
def test_a_file_that_is_copied_and_emptied_gives_each_line_once(tmp_path, backwards, between, looks):
    one = Running(tmp_path)
    one.write("app.log", "one\ntwo\n")
    assert one.look() == ["one", "two"]
    one.write("app.log", between)
    shutil.copy(tmp_path / "app.log", tmp_path / "app.log.1")
    if looks:
        one.look(backwards=backwards)
    one.write("app.log", "", "w")
    if looks:
        one.look(backwards=backwards)
    one.write("app.log", "one\nfive\n")  # It begins as the one before.
    wanted = sorted(["one", "two", *between.split(), "one", "five"])
    assert one.look(backwards=backwards) == wanted
    one.write("app.log", "six\n")
    assert one.look(backwards=backwards) == sorted([*wanted, "six"])


@pytest.mark.parametrize("backwards", [False, True])
def test_a_file_that_lies_beside_its_compressed_copy_gives_each_line_once(tmp_path, backwards):
    one = Running(tmp_path)
    one.write("app.log", "one\ntwo\n")
    one.look()
    one.write("app.log", "three\nno end")
    (tmp_path / "app.log").rename(tmp_path / "app.log.1")
    one.write("app.log", "one\n")
    (tmp_path / "app.log.1.gz").write_bytes(gzip.compress((tmp_path / "app.log.1").read_bytes()))
    one.look(backwards=backwards)
    one.look(backwards=backwards)
    (tmp_path / "app.log.1").unlink()
    assert one.look(backwards=backwards) == sorted(["one", "two", "three", "no end", "one"])


def test_files_that_begin_alike_and_go_on_in_other_ways_are_two(tmp_path):
    one = Running(tmp_path)
    one.write("app.log", "start\n")
    one.look()
    (tmp_path / "app.log").rename(tmp_path / "app.log.1")
    one.write("app.log", "start\n")
    assert one.look() == ["start"]  # As yet it is a copy.
    one.write("app.log", "b\n")
    assert one.look() == ["b", "start", "start"]


@pytest.mark.slow
def test_two_who_follow_one_folder_take_each_line_once_and_end_by_an_interrupt(command, tmp_path):
    one = Followed(command, tmp_path)
    for name in range(4):
        one.add(f"{name}.log", f"first of {name}\n")
    wanted = set(one.take())
    line = [*LINE, "ingest", str(one.table), str(one.folder), "--follow", "--quiet"]
    both = [subprocess.Popen(line, stderr=subprocess.PIPE) for _ in range(2)]
    try:
        for more in range(5):
            for name in range(4):
                one.add(f"{name}.log", f"line {more} of {name}\n")
                wanted.add(f"line {more} of {name}")
            deadline = time.monotonic() + 60
            while not wanted <= set(messages(one.table)):
                assert time.monotonic() < deadline
                assert all(process.poll() is None for process in both)
    finally:
        for process in both:
            process.send_signal(signal.SIGINT)
        ended = [(process.communicate(timeout=30)[1], process.returncode) for process in both]
    assert ended == [(b"indextables: interrupted\n", 130)] * 2
    assert messages(one.table) == sorted(wanted)
