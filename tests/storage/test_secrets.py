"""No secret leaves by itself: 12 canaries, every way out."""

from __future__ import annotations

import gzip
import io
import logging
import pickle
import traceback

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.s3 import Fault, S3Server

import indextables
from indextables.errors import IndexTablesError
from indextables.options import Options
from indextables.storage import CallPolicy, Store, open_store
from indextables.storage.redact import HIDDEN, Redactor, Secret, SecretMap, is_secret_name, redacted

ONCE = CallPolicy(deadline_s=2, attempts=1)
DEAD = "http://127.0.0.1:9"


def canary(number: int) -> str:
    return f"cAnArY{number:02d}/+=sEcReT"


S3_URL, AZURE_URL, GCS_URL = "s3://bucket/t", "abfss://c@acct.dfs.core.windows.net/t", "gs://bucket/t"
S3_KEYS = {"storage.accessKey": "AKIDPLAIN", "storage.secretKey": "some-secret-key"}
SERVICE_ACCOUNT = (
    '{"private_key": "-----BEGIN CERTIFICATE----- %s", "private_key_id": "x", "client_email": "e", '
    '"gcs_base_url": "http://127.0.0.1:9", "disable_oauth": true}'
)
PLANTED = {
    "access key": (S3_URL, {**S3_KEYS, "storage.accessKey": canary(1)}, {}),
    "secret key": (S3_URL, {**S3_KEYS, "storage.secretKey": canary(2)}, {}),
    "session token": (S3_URL, {**S3_KEYS, "storage.sessionToken": canary(3)}, {}),
    "hadoop secret": (S3_URL, {"fs.s3a.access.key": "AK", "fs.s3a.secret.key": canary(4)}, {}),
    "azure account key": (AZURE_URL, {"fs.azure.account.key.acct.dfs.core.windows.net": canary(5)}, {}),
    "azure sas": (AZURE_URL, {"storage.azure.sasToken": f"sv=2024&sig={canary(6)}"}, {}),
    "azure bearer": (AZURE_URL, {"storage.azure.bearerToken": canary(7)}, {}),
    "azure client secret": (
        AZURE_URL,
        {"storage.azure.tenantId": "t", "storage.azure.clientId": "c", "storage.azure.clientSecret": canary(8)},
        {},
    ),
    "service account": (GCS_URL, {"storage.gcs.serviceAccountKey": SERVICE_ACCOUNT % canary(9)}, {}),
    "google bearer": (GCS_URL, {"storage.gcs.bearerToken": canary(10)}, {}),
    "proxy password": (S3_URL, {**S3_KEYS, "storage.proxyUrl": f"http://user:{canary(11)[:8]}@127.0.0.1:9"}, {}),
    "environment": (
        S3_URL,
        {},
        {"AWS_ACCESS_KEY_ID": "AKENV", "AWS_SECRET_ACCESS_KEY": canary(12), "AWS_SESSION_TOKEN": canary(12)},
    ),
}


def open_planted(name: str, monkeypatch: pytest.MonkeyPatch, endpoint: str = DEAD) -> Store:
    url, settings, environment = PLANTED[name]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    return open_store(url, Options({**settings, "storage.endpoint": endpoint}))


def all_that_is_shown(error: BaseException) -> str:
    """As the most talkative reporter would print it: causes, contexts and local variables included."""
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format(chain=True)
    chained = [error]
    while (chained[-1].__cause__ or chained[-1].__context__) is not None:
        chained.append(chained[-1].__cause__ or chained[-1].__context__)
    return "".join(lines) + "".join(f"{link!r} {link} {link.args} {vars(link)}" for link in chained)


def failures(store: Store) -> list[IndexTablesError]:
    found = []
    for call in (
        lambda: store.get("key", policy=ONCE),
        lambda: store.get_range("key", 0, 1, policy=ONCE),
        lambda: store.put("key", b"", policy=ONCE),
        lambda: store.head("key", policy=ONCE),
        lambda: list(store.list_from("", policy=ONCE)),
    ):
        with pytest.raises(IndexTablesError) as caught:
            call()
        # The frames of this test are not the library's.
        caught.value.__traceback__ = caught.value.__traceback__.tb_next.tb_next
        found.append(caught.value)
    return found


@pytest.mark.parametrize("name", PLANTED)
def test_no_canary_sings(name: str, monkeypatch: pytest.MonkeyPatch):
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        store = open_planted(name, monkeypatch)
        shown = [repr(store), str(store), store.url, repr(vars(store)), repr(store.delete_many(["key"], policy=ONCE))]
        shown += [all_that_is_shown(error) for error in failures(store)]
        logging.getLogger("indextables").warning("%r %s %s", store, store, vars(store))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    for text in (*shown, output.getvalue()):
        assert "cAnArY" not in text


def test_a_server_that_echoes_what_it_was_sent_does_not_betray_it(s3: S3Server, monkeypatch: pytest.MonkeyPatch):
    s3.access_keys = {"nobody"}
    s3.echoes_requests = True
    for name in ("access key", "session token", "environment"):
        store = open_planted(name, monkeypatch, s3.endpoint)
        for error in failures(store):
            assert "cAnArY" not in all_that_is_shown(error)


@pytest.mark.parametrize("name", PLANTED)
def test_a_pickle_carries_what_was_given_and_nothing_from_the_environment(name: str, monkeypatch: pytest.MonkeyPatch):
    data = pickle.dumps(open_planted(name, monkeypatch))
    assert (b"cAnArY" in data) is (name != "environment")
    copy = pickle.loads(data)  # noqa: S301 - our own bytes
    assert "cAnArY" not in repr(copy) + repr(vars(copy))


def test_errors_that_travel_between_processes_carry_no_canary(s3: S3Server, monkeypatch: pytest.MonkeyPatch):
    s3.access_keys = {"nobody"}
    s3.echoes_requests = True
    for error in failures(open_planted("session token", monkeypatch, s3.endpoint)):
        assert b"cAnArY" not in pickle.dumps(error)


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        (GCS_URL, {"storage.gcs.serviceAccountKey": f'{{"private_key": "{canary(9)}"'}),
        (S3_URL, {**S3_KEYS, "storage.proxyUrl": f"not a url://user:{canary(11)[:8]}@"}),
        (AZURE_URL, {"storage.azure.accountKey": f"not base64 {canary(5)}"}),
    ],
)
def test_settings_that_the_client_refuses_are_not_shown(url: str, settings: dict[str, str]):
    with pytest.raises(IndexTablesError) as caught:
        open_store(url, Options(settings)).get("key", policy=ONCE)
    caught.value.__traceback__ = caught.value.__traceback__.tb_next
    assert "cAnArY" not in all_that_is_shown(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "storage.secretKey",
        "storage.accessKey",
        "storage.sessionToken",
        "fs.s3a.secret.key",
        "fs.s3a.bucket.b.access.key",
        "fs.azure.account.key.acct.dfs.core.windows.net",
        "fs.azure.sas.fixed.token.acct",
        "storage.azure.clientSecret",
        "storage.gcs.serviceAccountKey",
        "storage.proxyUrl",
        "AWS_SECRET_ACCESS_KEY",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_MASTER_KEY",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "my.password",
        "apiKey",
        "Authorization",
    ],
)
def test_names_of_secrets_are_known(name: str):
    assert is_secret_name(name)
    assert redacted({name: "value"}) == {name: HIDDEN}
    assert "value" not in repr(SecretMap({name: "value"}))


@pytest.mark.parametrize(
    "name",
    [
        "storage.endpoint",
        "storage.region",
        "checkpoint.interval",
        "commit.tokenWindow",
        "fs.s3a.aws.credentials.provider",
        "indexing.typemap.message",
        "AWS_REGION",
    ],
)
def test_other_names_stay_readable(name: str):
    assert redacted({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "text",
    [
        "https://user:cAnArY@host/path",
        "https://cAnArY@host/path",
        "GET http://h/x?sv=1&sig=cAnArY%2B&se=2",
        "GET http://h/x?X-Amz-Credential=cAnArY&X-Amz-Signature=cAnArY",
        "DefaultEndpointsProtocol=https;AccountKey=cAnArY==;EndpointSuffix=x",
        "authorization: Bearer cAnArY.abc.def",
        "Authorization: AWS4-HMAC-SHA256 Credential=cAnArY/2024/us-east-1, Signature=cAnArY",
        "SharedKey acct:cAnArY",
    ],
)
def test_shapes_of_secrets_are_hidden_in_any_text(text: str):
    scrubbed = Redactor().scrub(text)
    assert "cAnArY" not in scrubbed
    assert HIDDEN in scrubbed


def test_a_container_is_no_secret():
    url = "abfss://container@acct.dfs.core.windows.net/t"
    assert Redactor().scrub(url) == url


@given(st.text(min_size=4, max_size=20), st.text(max_size=10), st.text(max_size=10))
def test_a_known_secret_never_survives(secret: str, before: str, after: str):
    scrubbed = Redactor([secret]).scrub(before + secret + after)
    # What stood around it may give the secret once more if it is joined: "aa" and "bb" around "aabb".
    assert not [piece for piece in scrubbed.split(HIDDEN) if secret in piece]


def test_a_secret_shows_itself_only_when_asked():
    secret = Secret("cAnArY")
    assert "cAnArY" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "cAnArY"
    assert secret == Secret("cAnArY")
    assert not Secret("")


def test_options_do_not_show_their_values(s3: S3Server):
    options = s3.options()
    s3.inject(Fault(before=500))
    assert s3.secret_key not in f"{options!r} {options}"


def test_no_secret_is_written_into_the_table(s3: S3Server, table_name: str):
    settings = s3.settings() | {"storage.secretKey": canary(2), "storage.sessionToken": canary(3)}
    table = indextables.create(s3.table_url(table_name), pa.schema([("id", pa.int64())]), options=settings)
    for number in range(12):
        table.append(pa.table({"id": [number]}))
    assert "cAnArY" not in f"{table!r} {table._repr_html_()} {table.history()} {table.log(1)}"
    keys = s3.keys(table_name)
    assert len(keys) > 24
    for key in keys:
        data = s3.data(key)
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        assert b"cAnArY" not in data
