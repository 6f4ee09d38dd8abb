"""An object store after fork() raises at once, instead of hanging or taking its parent down."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from tests.servers.s3 import S3Server

PROLOGUE = """
import os, sys
from indextables.errors import ForkUnsafe
from indextables.options import Options
from indextables.storage import open_store

def store():
    return open_store("s3://bucket/{name}", Options({settings!r}))

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except ForkUnsafe:
            os._exit(7)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(s3: S3Server, name: str, body: str) -> None:
    script = PROLOGUE.format(name=name, settings=s3.settings()) + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("whose", ["inherited", "new"])
def test_a_child_of_a_process_that_used_an_object_store_is_refused(s3: S3Server, table_name: str, whose: str):
    run(
        s3,
        table_name,
        f"""
        mine = store()
        mine.put("key", b"parent")
        child = (lambda: mine.get("key")) if {whose!r} == "inherited" else (lambda: store().get("key"))
        for _ in range(3):
            assert in_child(child) == 7
        assert mine.get("key") == b"parent"
        """,
    )


def test_every_call_of_the_child_is_refused(s3: S3Server, table_name: str):
    run(
        s3,
        table_name,
        """
        from pathlib import Path
        mine = store()
        mine.put("key", b"parent")
        for work in (
            lambda: mine.get("key"),
            lambda: mine.get_range("key", 0, 1),
            lambda: mine.put("key", b""),
            lambda: mine.put_file("key", Path(sys.executable)),
            lambda: mine.put_if_absent("key", b""),
            lambda: mine.head("key"),
            lambda: mine.exists("key"),
            lambda: list(mine.list_from("")),
            lambda: mine.delete_many(["key"]),
            lambda: mine.probe(),
        ):
            assert in_child(work) == 7
        assert mine.get("key") == b"parent"
        """,
    )


def test_a_child_may_use_what_its_parent_only_opened(s3: S3Server, table_name: str):
    run(
        s3,
        table_name,
        """
        mine = store()
        assert in_child(lambda: mine.put("key", b"child")) == 0
        assert mine.get("key") == b"child"
        """,
    )


def test_local_files_work_on_both_sides_of_a_fork(s3: S3Server, table_name: str, tmp_path):
    run(
        s3,
        table_name,
        f"""
        store().put("key", b"parent")
        local = open_store({str(tmp_path)!r} + "/t")
        local.put("key", b"parent")
        assert in_child(lambda: local.put("key", b"child")) == 0
        assert local.get("key") == b"child"
        """,
    )
