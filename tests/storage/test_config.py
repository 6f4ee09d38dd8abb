from __future__ import annotations

import pytest
from tests.servers.s3 import S3Server

from indextables.errors import InvalidArgument, StorePermissionDenied
from indextables.options import Options
from indextables.storage import open_store
from indextables.storage.config import AzureLogin, GcsLogin, S3Login, StoreConfig, given_options, read_config
from indextables.storage.url import parse_location

CLOUD = ("AWS_", "AZURE_", "GOOGLE_", "INDEXTABLES_")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch):
    import os

    for name in list(os.environ):
        if name.startswith(CLOUD):
            monkeypatch.delenv(name)


def config(url: str, call: dict[str, str] | None = None, session: dict[str, str] | None = None) -> StoreConfig:
    return read_config(parse_location(url), given_options(Options(call, session=session)))


def s3_login(found: StoreConfig) -> tuple[str, str, str]:
    assert isinstance(found.login, S3Login)
    return found.login.access_key.reveal(), found.login.secret_key.reveal(), found.login.session_token.reveal()


def test_nothing_given_leaves_everything_to_the_client():
    found = config("s3://bucket/t")
    assert (found.endpoint, found.region, found.login, found.anonymous) == ("", "", None, False)


def test_own_options_are_taken_with_and_without_the_prefix():
    given = {"storage.accessKey": "AK", "spark.indextables.storage.secretKey": "SK", "STORAGE.REGION": "eu-central-1"}
    found = config("s3://bucket/t", given)
    assert s3_login(found) == ("AK", "SK", "")
    assert found.region == "eu-central-1"


def test_hadoop_keys_reach_the_store():
    found = config(
        "s3a://bucket/t",
        session={
            "spark.hadoop.fs.s3a.access.key": "AK",
            "spark.hadoop.fs.s3a.secret.key": "SK",
            "fs.s3a.session.token": "ST",
            "fs.s3a.endpoint": "minio:9000",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.endpoint.region": "eu-west-1",
            "fs.s3a.path.style.access": "false",
            "spark.sql.shuffle.partitions": "7",
        },
    )
    assert s3_login(found) == ("AK", "SK", "ST")
    assert (found.endpoint, found.region, found.path_style) == ("http://minio:9000", "eu-west-1", False)


@pytest.mark.parametrize(
    ("keys", "endpoint"),
    [
        ({"fs.s3a.endpoint": "host"}, "https://host"),
        ({"fs.s3a.endpoint": "http://host:1"}, "http://host:1"),
        ({"fs.s3a.endpoint": "s3.amazonaws.com"}, ""),
        ({"fs.s3a.endpoint": "host", "storage.endpoint": "https://other"}, "https://other"),
        ({"fs.s3a.endpoint": "host", "fs.s3a.bucket.bucket.endpoint": "mine"}, "https://mine"),
        ({"fs.s3a.endpoint": "host", "fs.s3a.bucket.other.endpoint": "mine"}, "https://host"),
    ],
)
def test_the_nearest_endpoint_wins(keys: dict[str, str], endpoint: str):
    assert config("s3://bucket/t", keys).endpoint == endpoint


def test_credentials_of_a_bucket_replace_the_general_ones_as_a_whole():
    keys = {
        "fs.s3a.access.key": "AK",
        "fs.s3a.secret.key": "SK",
        "fs.s3a.session.token": "ST",
        "fs.s3a.bucket.bucket.access.key": "AK2",
        "fs.s3a.bucket.bucket.secret.key": "SK2",
    }
    assert s3_login(config("s3://bucket/t", keys)) == ("AK2", "SK2", "")
    assert s3_login(config("s3://other/t", keys)) == ("AK", "SK", "ST")


def test_own_credentials_are_not_completed_from_hadoop():
    keys = {"storage.accessKey": "AK", "fs.s3a.secret.key": "SK"}
    with pytest.raises(InvalidArgument) as caught:
        config("s3://bucket/t", keys)
    assert "storage.secretKey" in str(caught.value)


@pytest.mark.parametrize(
    "keys",
    [
        {"storage.secretKey": "SK"},
        {"storage.sessionToken": "ST"},
        {"fs.s3a.access.key": "AK"},
        {"storage.accessKey": "AK", "storage.secretKey": "SK", "storage.anonymous": "true"},
        {"storage.endpoint": "host:9000"},
        {"storage.endpoint": "http://user:pw@host"},
        {"storage.endpoint": "ftp://host"},
        {"storage.pathStyle": "maybe"},
        {"fs.s3a.path.style.access": "maybe"},
        {"storage.timeoutSeconds": "0"},
        {"storage.retries": "-1"},
    ],
)
def test_wrong_settings_are_refused_before_any_request(keys: dict[str, str]):
    with pytest.raises(InvalidArgument):
        open_store("s3://bucket/t", Options(keys))


def test_anonymous_access_is_asked_for_by_option_or_provider():
    provider = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert config("s3://b0/t", {"storage.anonymous": "true"}).anonymous
    assert config("s3://b0/t", {"fs.s3a.aws.credentials.provider": provider}).anonymous
    assert not config("s3://b0/t", {"fs.s3a.aws.credentials.provider": "SimpleAWSCredentialsProvider"}).anonymous


def test_the_configuration_of_the_table_cannot_move_it():
    options = Options(table={"storage.endpoint": "http://evil", "fs.s3a.endpoint": "evil", "storage.accessKey": "x"})
    assert given_options(options) == {}
    assert read_config(parse_location("s3://bucket/t"), given_options(options)).endpoint == ""


def test_the_environment_of_this_library_is_read_and_does_not_travel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INDEXTABLES_STORAGE_REGION", "eu-north-1")
    assert config("s3://bucket/t").region == "eu-north-1"
    assert given_options(Options()) == {}


ABFSS = "abfss://c@acct.dfs.core.windows.net/t"


@pytest.mark.parametrize(
    ("url", "keys", "login"),
    [
        (ABFSS, {"fs.azure.account.key.acct.dfs.core.windows.net": "K"}, ("K", "", "")),
        (ABFSS, {"fs.azure.account.key.acct.blob.core.windows.net": "K"}, ("K", "", "")),
        (ABFSS, {"fs.azure.sas.fixed.token.acct.dfs.core.windows.net": "S"}, ("", "S", "")),
        (ABFSS, {"storage.azure.accountKey": "K", "fs.azure.account.key.acct": "X"}, ("K", "", "")),
        (ABFSS, {"fs.azure.account.key.other.dfs.core.windows.net": "K"}, None),
        ("az://c/t", {"storage.azure.account": "acct", "fs.azure.account.key.acct": "K"}, ("K", "", "")),
        ("az://c/t", {"storage.azure.sasToken": "S"}, ("", "S", "")),
        ("az://c/t", {"storage.azure.bearerToken": "B"}, ("", "", "B")),
    ],
)
def test_azure_credentials(url: str, keys: dict[str, str], login: tuple[str, str, str] | None):
    found = config(url, keys).login
    if login is None:
        assert found is None
    else:
        assert isinstance(found, AzureLogin)
        assert tuple(s.reveal() for s in (found.account_key, found.sas_token, found.bearer_token)) == login


def test_an_azure_service_principal_is_complete_or_refused():
    keys = {f"storage.azure.{name}": name for name in ("tenantId", "clientId", "clientSecret")}
    login = config(ABFSS, keys).login
    assert isinstance(login, AzureLogin)
    assert (login.tenant_id, login.client_id, login.client_secret.reveal()) == ("tenantId", "clientId", "clientSecret")
    for name in keys:
        with pytest.raises(InvalidArgument):
            config(ABFSS, {key: value for key, value in keys.items() if key != name})


def test_google_credentials():
    assert config("gs://bucket/t", {"storage.gcs.bearerToken": "T"}).login == GcsLogin(
        bearer_token=config("gs://bucket/t", {"storage.gcs.bearerToken": "T"}).login.bearer_token
    )
    assert config("gs://bucket/t", {"fs.gs.auth.service.account.json.keyfile": "/f"}).login == GcsLogin(key_file="/f")
    assert config("gs://bucket/t").login is None


@pytest.mark.parametrize(
    ("url", "keys"),
    [
        ("az://c/t", {"storage.azure.sasToken": "S", "storage.azure.accountKey": "K"}),
        ("gs://bucket/t", {"storage.gcs.bearerToken": "T", "storage.gcs.serviceAccountFile": "/f"}),
    ],
)
def test_two_kinds_of_credentials_are_refused(url: str, keys: dict[str, str]):
    with pytest.raises(InvalidArgument):
        config(url, keys)


def test_given_keys_are_sent_without_a_token_of_the_environment(
    s3: S3Server, table_name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-environment")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    open_store(s3.table_url(table_name), s3.options()).put("key", b"")
    headers = s3.requests[-1].headers
    assert f"Credential={s3.access_key}/" in headers["authorization"]
    assert "x-amz-security-token" not in headers


def test_a_given_token_is_sent(s3: S3Server, table_name: str):
    open_store(s3.table_url(table_name), s3.options(**{"storage.sessionToken": "the-token"})).put("key", b"")
    assert s3.requests[-1].headers["x-amz-security-token"] == "the-token"


def test_without_given_keys_the_environment_is_used_whole(
    s3: S3Server, table_name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-environment")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    open_store(s3.table_url(table_name), Options({"storage.endpoint": s3.endpoint})).put("key", b"")
    headers = s3.requests[-1].headers
    assert "Credential=AKENVIRONMENT/" in headers["authorization"]
    assert "/eu-west-3/s3/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "token-of-the-environment"


def test_credentials_that_were_replaced_are_looked_up_once_more(
    s3: S3Server, table_name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKEXPIRED")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    store = open_store(s3.table_url(table_name), Options({"storage.endpoint": s3.endpoint}))
    store.put("key", b"data")
    s3.access_keys = {"AKFRESH"}
    with pytest.raises(StorePermissionDenied):
        store.get("key")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKFRESH")
    s3.requests.clear()
    assert store.get("key") == b"data"
    assert [request.status for request in s3.requests] == [403, 200]


def test_anonymous_requests_carry_no_credentials(s3: S3Server, table_name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    options = Options({"storage.endpoint": s3.endpoint, "storage.anonymous": "true"})
    open_store(s3.table_url(table_name), options).put("key", b"")
    assert "authorization" not in s3.requests[-1].headers


def test_two_principals_of_one_bucket_do_not_mix(s3: S3Server, table_name: str):
    s3.access_keys = {"AKFIRST", "AKSECOND"}
    stores = [
        open_store(s3.table_url(table_name), s3.options(**{"storage.accessKey": name, "storage.secretKey": "x" * 20}))
        for name in ("AKFIRST", "AKSECOND")
    ]
    for number in range(6):
        stores[number % 2].put(f"key-{number % 2}", b"")
    for request in s3.requests:
        expected = ("AKFIRST", "AKSECOND")[int(request.key[-1])]
        assert f"Credential={expected}/" in request.headers["authorization"]
