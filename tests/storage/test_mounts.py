"""File systems that show the deletes of other machines late are refused for writing, and can be read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.world.commits import append

import indextables
from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.errors import StoreUnsafe
from indextables.log.care.cleanup import clean_up
from indextables.log.care.opening import open_log
from indextables.log.wire.actions import Add
from indextables.options import Options
from indextables.storage.local import LocalStore
from indextables.storage.mounts import file_system_of, system_mounts
from indextables.storage.url import parse_location

TABLE = r"""22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw
28 0 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 28 0:38 / /srv/shared rw,relatime shared:20 - nfs4 server:/export rw,vers=4.2,addr=10.0.0.1
41 40 254:1 / /srv/shared/disk rw,relatime - xfs /dev/vdb rw
42 28 0:39 / /mnt/my\040share rw - cifs //server/share rw
43 28 0:40 / /over rw - nfs server:/a rw
44 28 0:41 / /over rw - tmpfs tmpfs rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/t", "ext4"),
        ("/srv/shared", "nfs4"),
        ("/srv/shared/team/t", "nfs4"),
        ("/srv/shared-not/t", "ext4"),
        ("/srv/shared/disk/t", "xfs"),
        ("/mnt/my share/t", "cifs"),
        ("/over/t", "tmpfs"),
        ("/", "ext4"),
    ],
)
def test_the_innermost_and_latest_mount_tells_the_kind(path, kind):
    assert file_system_of(path, TABLE) == kind
    assert file_system_of(path, "") is None


def test_this_machine_tells_of_a_temporary_folder(tmp_path):
    told = system_mounts()
    assert file_system_of(str(tmp_path), told) is not None or told == ""


def environment(path, kind):
    table = f"28 0 254:0 / / rw - ext4 /dev/vda rw\n40 28 0:38 / {path.parent} rw - {kind} server:/export rw\n"
    store = LocalStore(parse_location(path), mounts=lambda: table)
    return Env(store, SystemAmbient(), Options({"cache.enabled": "false"}))


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3"])
def test_a_table_on_a_network_file_system_is_read_but_not_written(tmp_path, kind):
    table = indextables.create(tmp_path / "t", pa.schema([("x", pa.int64())]))
    table.append(pa.table({"x": [1]}))
    (tmp_path / "mounted").mkdir()
    (tmp_path / "t").rename(tmp_path / "mounted" / "t")
    before = sorted(tmp_path.rglob("*"))
    log = open_log(environment(tmp_path / "mounted" / "t", kind))
    assert log.snapshot().files.num_rows == 1
    for call in (lambda: append(log, [Add("x", {}, 1, 1, dataChange=True)]), lambda: clean_up(log.env)):
        with pytest.raises(StoreUnsafe, match=kind) as told:
            call()
        assert told.value.details["file_system"] == kind
    assert sorted(tmp_path.rglob("*")) == before
    other = open_log(environment(tmp_path / "mounted" / "t", "xfs"))
    with pytest.raises(StoreUnsafe):
        append(log, [Add("x", {}, 1, 1, dataChange=True)])
    assert append(other, [Add("x", {}, 1, 1, dataChange=True)]).version == 2
