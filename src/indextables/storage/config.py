"""How is this object store reached? Options, Hadoop keys and the environment become one checked setting.

For each setting the first of these wins: `storage.*` (call, session, `INDEXTABLES_STORAGE_*`), Hadoop's
`fs.s3a.bucket.B.*`, `fs.s3a.*` and `fs.azure.*`, then the cloud's own variables (`AWS_*`, `AZURE_*`, `GOOGLE_*`) and
whatever else the native client finds (container and instance roles, workload identity). Credentials are one unit: a
key from one place is never completed by a token from another. The table's own configuration is never asked.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.options import Options
from indextables.storage.redact import Redactor, Secret, SecretMap, is_secret_name
from indextables.storage.url import Location

__all__ = ["AzureLogin", "GcsLogin", "S3Login", "StoreConfig", "fingerprint", "given_options", "read_config"]

_L = TypeVar("_L")

_CLOUD_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_CENTRAL_ENDPOINTS = ("s3.amazonaws.com", "https://s3.amazonaws.com", "https://s3.amazonaws.com/")


class S3Login(msgspec.Struct, frozen=True):
    """Long-lived keys, or temporary ones with their token."""

    access_key: Secret
    secret_key: Secret
    session_token: Secret


class AzureLogin(msgspec.Struct, frozen=True):
    """Exactly one kind is set; a service principal has all three of its parts."""

    account_key: Secret = Secret("")
    sas_token: Secret = Secret("")
    bearer_token: Secret = Secret("")
    tenant_id: str = ""
    client_id: str = ""
    client_secret: Secret = Secret("")


class GcsLogin(msgspec.Struct, frozen=True):
    """Exactly one is set."""

    key_file: str = ""
    key: Secret = Secret("")
    bearer_token: Secret = Secret("")


class StoreConfig(msgspec.Struct, frozen=True):
    """Everything about reaching the store but the location itself. `login` is None where the client finds its own."""

    endpoint: str
    region: str
    account: str
    path_style: bool
    anonymous: bool
    proxy_url: Secret
    login: S3Login | AzureLogin | GcsLogin | None
    redactor: Redactor


def given_options(options: Options) -> SecretMap:
    """What the caller and the session said about storage: all that a pickle of the store carries."""
    return SecretMap(options.from_operator("storage.", "fs."))


def fingerprint(given: Mapping[str, str]) -> str:
    """Equal for equal options and cloud variables, credentials among them, none of which can be told from it."""
    facts = [sorted(given.items()), sorted(_cloud_variables().items())]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def read_config(location: Location, given: Mapping[str, str]) -> StoreConfig:
    """The setting for one location. Raises InvalidArgument for what is incomplete or contradicts itself."""
    options = Options(given)
    read = {"s3": _read_s3, "az": _read_azure, "gs": _read_gcs}[location.scheme]
    config = read(location, options)
    endpoint = urlsplit(config.endpoint)
    if config.endpoint and (endpoint.scheme not in ("http", "https") or not endpoint.hostname or endpoint.username):
        message = "storage.endpoint must be a URL without credentials, such as https://host:port"
        raise InvalidArgument(message, option=opt.STORAGE_ENDPOINT.key)
    if config.anonymous and config.login is not None:
        message = "storage.anonymous and credentials contradict each other: keep one"
        raise InvalidArgument(message, option=opt.STORAGE_ANONYMOUS.key)
    return config


def _read_s3(location: Location, options: Options) -> StoreConfig:
    hadoop = _hadoop_s3(options, location.bucket)
    endpoint = options[opt.STORAGE_ENDPOINT] or _hadoop_endpoint(hadoop)
    login = _s3_login(options, hadoop)
    anonymous = options[opt.STORAGE_ANONYMOUS] or (
        login is None and "anonymousawscredentials" in hadoop.get("aws.credentials.provider", "").lower()
    )
    path_style = options[opt.STORAGE_PATH_STYLE]
    if not options.given(opt.STORAGE_PATH_STYLE) and "path.style.access" in hadoop:
        path_style = opt.STORAGE_PATH_STYLE.read(hadoop["path.style.access"], "key fs.s3a.path.style.access")
    return StoreConfig(
        endpoint=endpoint,
        region=options[opt.STORAGE_REGION] or hadoop.get("endpoint.region", ""),
        account="",
        path_style=path_style,
        anonymous=anonymous,
        proxy_url=Secret(options[opt.STORAGE_PROXY]),
        login=login,
        redactor=_redactor(options),
    )


def _hadoop_s3(options: Options, bucket: str) -> dict[str, str]:
    """`fs.s3a.*` as it holds for one bucket. Its credentials replace the general ones as a whole."""
    general = options.below("fs.s3a.")
    own = options.below(f"fs.s3a.bucket.{bucket.lower()}.")
    if "access.key" in own or "secret.key" in own:
        for name in ("access.key", "secret.key", "session.token", "aws.credentials.provider"):
            general.pop(name, None)
    return general | own


def _hadoop_endpoint(hadoop: Mapping[str, str]) -> str:
    endpoint = hadoop.get("endpoint", "")
    if not endpoint or endpoint in _CENTRAL_ENDPOINTS:
        return ""
    if "://" in endpoint:
        return endpoint
    plain = hadoop.get("connection.ssl.enabled", "true").strip().lower() == "false"
    return f"{'http' if plain else 'https'}://{endpoint}"


def _s3_login(options: Options, hadoop: Mapping[str, str]) -> S3Login | None:
    own = (options[opt.STORAGE_ACCESS_KEY], options[opt.STORAGE_SECRET_KEY], options[opt.STORAGE_SESSION_TOKEN])
    names = (opt.STORAGE_ACCESS_KEY.key, opt.STORAGE_SECRET_KEY.key)
    if not any(own):
        own = (hadoop.get("access.key", ""), hadoop.get("secret.key", ""), hadoop.get("session.token", ""))
        names = ("fs.s3a.access.key", "fs.s3a.secret.key")
    if not any(own):
        return None
    if not (own[0] and own[1]):
        missing = names[0] if own[1] else names[1]
        raise InvalidArgument(f"S3 credentials are incomplete: {missing} is missing", option=missing)
    return S3Login(Secret(own[0]), Secret(own[1]), Secret(own[2]))


def _read_azure(location: Location, options: Options) -> StoreConfig:
    account = location.account or options[opt.STORAGE_AZURE_ACCOUNT]
    login = _azure_login(options) or _hadoop_azure_login(options, account, location.host)
    return StoreConfig(
        endpoint=options[opt.STORAGE_ENDPOINT],
        region="",
        account=account,
        path_style=True,
        anonymous=options[opt.STORAGE_ANONYMOUS],
        proxy_url=Secret(options[opt.STORAGE_PROXY]),
        login=login,
        redactor=_redactor(options),
    )


def _azure_login(options: Options) -> AzureLogin | None:
    login = AzureLogin(
        account_key=Secret(options[opt.STORAGE_AZURE_ACCOUNT_KEY]),
        sas_token=Secret(options[opt.STORAGE_AZURE_SAS_TOKEN]),
        bearer_token=Secret(options[opt.STORAGE_AZURE_BEARER_TOKEN]),
        tenant_id=options[opt.STORAGE_AZURE_TENANT_ID],
        client_id=options[opt.STORAGE_AZURE_CLIENT_ID],
        client_secret=Secret(options[opt.STORAGE_AZURE_CLIENT_SECRET]),
    )
    principal = (login.tenant_id, login.client_id, login.client_secret)
    if any(principal) and not all(principal):
        message = "an Azure service principal needs storage.azure.tenantId, clientId and clientSecret"
        raise InvalidArgument(message, option=opt.STORAGE_AZURE_CLIENT_SECRET.key)
    kinds = [login.account_key, login.sas_token, login.bearer_token, login.client_secret]
    return _one_kind(login, kinds, "storage.azure.*")


def _hadoop_azure_login(options: Options, account: str, host: str) -> AzureLogin | None:
    for place in (host, f"{account}.dfs.core.windows.net", f"{account}.blob.core.windows.net", account):
        key = options.below("fs.azure.account.key.").get(place.lower(), "")
        sas = options.below("fs.azure.sas.fixed.token.").get(place.lower(), "")
        if place and (key or sas):
            return _one_kind(AzureLogin(Secret(key), Secret(sas)), [Secret(key), Secret(sas)], f"fs.azure.* of {place}")
    return None


def _read_gcs(location: Location, options: Options) -> StoreConfig:
    del location
    login = GcsLogin(
        key_file=options[opt.STORAGE_GCS_SERVICE_ACCOUNT_FILE],
        key=Secret(options[opt.STORAGE_GCS_SERVICE_ACCOUNT_KEY]),
        bearer_token=Secret(options[opt.STORAGE_GCS_BEARER_TOKEN]),
    )
    found = _one_kind(login, [Secret(login.key_file), login.key, login.bearer_token], "storage.gcs.*")
    hadoop_file = options.below("fs.gs.").get("auth.service.account.json.keyfile", "")
    return StoreConfig(
        endpoint=options[opt.STORAGE_ENDPOINT],
        region="",
        account="",
        path_style=True,
        anonymous=options[opt.STORAGE_ANONYMOUS],
        proxy_url=Secret(options[opt.STORAGE_PROXY]),
        login=found or (GcsLogin(key_file=hadoop_file) if hadoop_file else None),
        redactor=_redactor(options),
    )


def _one_kind(login: _L, kinds: list[Secret], where: str) -> _L | None:
    if sum(map(bool, kinds)) > 1:
        raise InvalidArgument(f"{where} gives more than one kind of credentials: keep one", option=where)
    return login if any(kinds) else None


def _redactor(options: Options) -> Redactor:
    """Knows the secrets that were given, and those of the environment that the native client may send."""
    secrets = [options[name] for name in options if is_secret_name(name)]
    return Redactor([*secrets, *(value for name, value in _cloud_variables().items() if is_secret_name(name))])


def _cloud_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_CLOUD_VARIABLES)}
