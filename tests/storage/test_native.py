from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys

import obstore.exceptions
import pytest
from tests.servers.azurite import ACCOUNT, CONTAINER
from tests.world.clock import QuickAmbient

from indextables.errors import ForkUnsafe, IndexTablesError, InvalidArgument, NotSupported, StoreError
from indextables.log.wire.names import parse_key
from indextables.options import Options
from indextables.storage import Store, open_store
from indextables.storage.config import read_config
from indextables.storage.native import MEANINGS, NATIVE_ERRORS, make_client
from indextables.storage.probe import PROBE_PREFIX
from indextables.storage.url import parse_location

S3_KEYS = {"storage.accessKey": "AK", "storage.secretKey": "SK"}


def native_exceptions() -> list[type[Exception]]:
    found = [getattr(obstore.exceptions, name) for name in dir(obstore.exceptions)]
    return [kind for kind in found if inspect.isclass(kind) and issubclass(kind, Exception)]


def test_every_native_exception_has_a_meaning():
    assert len(native_exceptions()) >= 12
    assert [kind for kind in native_exceptions() if kind not in MEANINGS] == []
    assert all(issubclass(kind, NATIVE_ERRORS) for kind in MEANINGS)
    assert all(issubclass(meaning, IndexTablesError) for meaning in MEANINGS.values())


def test_opening_a_store_loads_no_native_client_and_no_arrow():
    script = (
        "import sys, indextables.storage as s\n"
        "s.open_store('/tmp/nowhere/t'); s.open_store('memory://m'); s.open_store('s3://bucket/t')\n"
        "print([m for m in ('obstore', 'pyarrow', 'pandas', 'datafusion') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_stores_have_the_methods_of_the_protocol(tmp_path):
    for url in (tmp_path / "t", "memory://protocol", "s3://bucket/t", "az://container/t", "gs://bucket/t"):
        store = open_store(url)
        assert isinstance(store, Store)
        assert store.is_local is (url == tmp_path / "t")
        assert store.outlives_process is (url != "memory://protocol")


def test_hdfs_is_not_supported_yet():
    with pytest.raises(NotSupported):
        open_store("hdfs://namenode/t")


def test_memory_does_not_travel_to_another_process():
    store = open_store("memory://travels")
    store.put("key", b"")
    data = pickle.dumps(store)
    pid = os.fork()
    if pid == 0:
        try:
            pickle.loads(data)  # noqa: S301 - our own bytes
            os._exit(1)
        except NotSupported:
            os._exit(0)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_fork_unsafe_is_a_store_error():
    assert issubclass(ForkUnsafe, StoreError)


def test_the_s3_server_runs_as_a_process_of_its_own(table_name: str):
    command = [sys.executable, "-m", "tests.servers.s3", "--fault-rate", "0.3", "--seed", "5"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        settings = {"storage.endpoint": process.stdout.readline().strip(), "storage.retries": "20"}
        settings |= {"storage.accessKey": "any", "storage.secretKey": "thing"}
        store = open_store(f"s3://bucket/{table_name}", Options(settings), ambient=QuickAmbient())
        for number in range(30):
            store.put(f"key-{number:02d}", b"%d" % number)
        assert [store.get(meta.key) for meta in store.list_from("")] == [b"%d" % number for number in range(30)]
    finally:
        process.communicate()
    assert process.returncode == 0


def test_a_probe_object_that_was_left_behind_means_nothing_to_the_log():
    assert parse_key(f"{PROBE_PREFIX}{'0' * 32}") is None


def test_an_azure_url_that_names_its_account_reaches_it(azurite: dict[str, str], table_name: str):
    settings = {key: value for key, value in azurite.items() if key != "storage.azure.account"}
    url = f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/{table_name}"
    store = open_store(url, Options(settings))
    store.put("key", b"data")
    assert store.url == url
    other = open_store(f"az://{CONTAINER}/{table_name}", Options(azurite))
    assert other.get("key") == b"data"


def native_settings(url: str, given: dict[str, str]) -> dict[str, str]:
    location = parse_location(url)
    client = make_client(location, read_config(location, given), timeout_s=1, retries=0)
    assert "Provider" in repr(client.credential_provider) or client.credential_provider is None
    return dict(client.config)


@pytest.mark.parametrize(
    ("url", "given", "expected"),
    [
        ("abfss://c@acct.dfs.core.windows.net/t", {}, {"account_name": "acct", "container_name": "c"}),
        (
            "abfss://c@acct.dfs.core.chinacloudapi.cn/t",
            {"storage.azure.sasToken": "?sv=1&sig=x"},
            {"account_name": "acct", "endpoint": "https://acct.blob.core.chinacloudapi.cn"},
        ),
        (
            "abfss://c@acct.dfs.fabric.microsoft.com/t",
            {"storage.azure.bearerToken": "x"},
            {"use_fabric_endpoint": "true"},
        ),
        (
            "s3://bucket/t",
            {"storage.pathStyle": "false", "storage.endpoint": "https://host:1", **S3_KEYS},
            {"virtual_hosted_style_request": "true", "endpoint": "https://bucket.host:1"},
        ),
        (
            "s3://bucket/t",
            {"storage.pathStyle": "false", "storage.endpoint": "https://bucket.host:1", **S3_KEYS},
            {"endpoint": "https://bucket.host:1"},
        ),
        ("s3://bucket/t", {"storage.region": "eu-west-1", **S3_KEYS}, {"region": "eu-west-1"}),
        (
            "gs://bucket/t",
            {"storage.gcs.bearerToken": "x", "storage.endpoint": "http://h:1/"},
            {"base_url": "http://h:1"},
        ),
    ],
)
def test_settings_reach_the_native_client(url: str, given: dict[str, str], expected: dict[str, str]):
    found = native_settings(url, given)
    assert {key: found.get(key) for key in expected} == expected
    assert not {"secret_access_key", "account_key", "sas_key", "token", "bearer_token"} & found.keys()


def test_a_key_file_that_is_not_there_is_told(tmp_path):
    options = Options({"storage.gcs.serviceAccountFile": str(tmp_path / "nothing.json")})
    with pytest.raises(InvalidArgument) as caught:
        open_store("gs://bucket/t", options).get("key")
    assert "nothing.json" in str(caught.value)
