"""A process that ends gives up what nobody asked it for, and nothing else; the table is as if it had never begun."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from tests.table.merge_world import SCHEMA, ids, row

import indextables
from indextables.ambient import SystemAmbient

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("with_upkeep")]

QUICK = {"storage.fsync": "false"}


class Ending(SystemAmbient):
    """A process that ends, and has waited long enough, when the thread that merges has asked so many times."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def gives_up(self) -> bool:
        is_unasked = threading.current_thread().name.startswith("indextables-upkeep")
        self.left -= is_unasked
        return is_unasked and self.left < 0


@pytest.mark.parametrize("after", [0, 1, 9, 20, 40, 53, 58, 64, 66, 67, 70, 75, 90, 105])
def test_what_was_begun_unasked_is_given_up_between_two_requests(tmp_path, after, caplog):
    path = tmp_path / "t"
    quiet = indextables.create(path, SCHEMA, options={**QUICK, "mergeOnWrite.enabled": "false"})
    for number in range(17):
        quiet.append([row(number)])
    with indextables.open(path, QUICK, ambient=Ending(after)) as last:
        assert last.append([row(17)]) == 18
    quiet.refresh()
    # The put of a version file is made or not.
    is_merged = quiet.version == 19
    assert not is_merged or after > 60
    assert quiet.files().num_rows == (1 if is_merged else 18)
    assert ids(quiet.to_arrow(["id"])) == list(range(18))
    assert not quiet.verify().findings
    assert is_merged or not [record for record in caplog.records if record.levelname == "WARNING"]
    assert quiet.merge_splits().versions == ([] if is_merged else [19])
    assert quiet.skips().num_rows == 0
    assert ids(quiet.to_arrow(["id"])) == list(range(18))


ENDS = """
import threading
from indextables.ambient import SystemAmbient

hasty, moment = SystemAmbient(), threading.Event()

def unasked():
    while not hasty.gives_up():
        moment.wait(0.01)
    print("given up", flush=True)

def asked():
    ended.result()
    print("asked", hasty.gives_up(), flush=True)

ended = hasty.submit("upkeep", unasked)
hasty.submit("checkpoint", asked)
print("while it lives", ended.done(), flush=True)
"""


def test_only_a_process_whose_main_thread_is_through_gives_up_and_only_what_was_not_asked_for():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == ["while it lives False", "given up", "asked False"]
    assert done.stderr == ""
