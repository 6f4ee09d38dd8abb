"""What does the native client need, and what do its errors mean? The one module that imports obstore.

Importing it costs time in every worker, so that it is imported when the first object store is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import obstore.exceptions as native
from obstore.store import AzureStore, GCSStore, S3Store

from indextables.errors import (
    IndexTablesError,
    InvalidArgument,
    NotSupported,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StorePermissionDenied,
    StoreUnavailable,
)
from indextables.storage.config import AzureLogin, GcsLogin, S3Login, StoreConfig
from indextables.storage.redact import Secret
from indextables.storage.url import Location

__all__ = ["MEANINGS", "NATIVE_ERRORS", "REFUSALS", "make_client", "translate"]

NATIVE_ERRORS = (native.BaseError, OSError, ValueError)
"""Everything that the native client raises."""

REFUSALS = (native.AlreadyExistsError, native.PreconditionError)
"""The answers to a conditional put that found the key taken, or a rival at work on it."""

MEANINGS: Mapping[type[Exception], type[IndexTablesError]] = {
    FileNotFoundError: ObjectNotFound,
    native.NotFoundError: ObjectNotFound,
    native.PermissionDeniedError: StorePermissionDenied,
    native.UnauthenticatedError: StorePermissionDenied,
    # Conditional puts look for these two themselves; to a plain request they are a conflict of the moment (409).
    native.AlreadyExistsError: StoreUnavailable,
    native.PreconditionError: StoreUnavailable,
    native.NotModifiedError: StoreError,
    native.NotSupportedError: NotSupported,
    native.InvalidPathError: InvalidArgument,
    native.UnknownConfigurationKeyError: InvalidArgument,
    ValueError: InvalidArgument,
    native.JoinError: StoreUnavailable,
    native.GenericError: StoreUnavailable,
    native.BaseError: StoreUnavailable,
    OSError: StoreUnavailable,
}
"""One row per native exception; the most derived class that fits decides."""

# A gateway that does not know the bucket or the access key may say "not found". Where it gives its reason, believe
# that instead: an object must not look absent because the door is locked. Listings give all their errors as text.
_REASONS: Mapping[str, type[StoreError]] = {
    "NoSuchBucket": StoreError,
    "ContainerNotFound": StoreError,
    "XAdminUserNotFound": StorePermissionDenied,
    "InvalidAccessKeyId": StorePermissionDenied,
    # The upload was finished by a request whose answer was lost: upload it again.
    "NoSuchUpload": StoreUnavailable,
    "status code: 401": StorePermissionDenied,
    "status code: 403": StorePermissionDenied,
}
_CONNECT_SECONDS = 5.0


def make_client(location: Location, config: StoreConfig, *, timeout_s: float, retries: int) -> Any:
    """A client that sends a request at most `1 + retries` times and gives up on each after `timeout_s`.

    Raises InvalidArgument for settings that the native client refuses.
    """
    make = {"s3": _make_s3, "az": _make_azure, "gs": _make_gcs}[location.scheme]
    try:
        return make(location, config, _Sending(config, timeout_s, retries))
    except NATIVE_ERRORS as caught:
        reason = config.redactor.scrub(_first_line(caught))
    raise InvalidArgument(f"{location.url} cannot be opened with these settings: {reason}", url=location.url)


def translate(
    caught: Exception, what: str, key: str, config: StoreConfig, *, writing: bool = False
) -> IndexTablesError:
    """The error of this library that a native one means, with its text scrubbed."""
    text = config.redactor.scrub(str(caught))
    reason = text.partition("\n")[0]
    kind = next(MEANINGS[base] for base in type(caught).__mro__ if base in MEANINGS)
    if kind is ObjectNotFound or (kind is StoreUnavailable and not writing):
        for code, meaning in _REASONS.items():
            if code in text:
                return meaning(f"{what}: the store says {code}: check the bucket's name and the credentials", key=key)
    if kind is ObjectNotFound:
        if writing:
            return StoreError(
                f"{what}: there is no such bucket or container, or these credentials may not see it: check both",
                key=key,
            )
        return ObjectNotFound(f"{what} does not exist", key=key)
    if kind is StoreUnavailable and "status code: 507" in text:
        return StoreFull(f"{what}: the store has no space left", key=key)
    if kind is StorePermissionDenied:
        return kind(f"{what}: the store refuses these credentials, check them and their rights: {reason}", key=key)
    if kind is StoreUnavailable:
        return kind(f"{what}: no usable answer, check network and endpoint and try again: {reason}", key=key)
    return kind(f"{what}: {reason}", key=key)


class _Sending:
    """How requests are sent. Secrets are revealed in the call of the native constructor only: never in a variable."""

    def __init__(self, config: StoreConfig, timeout_s: float, retries: int) -> None:
        self._config = config
        self._timeout_s = timeout_s
        self._retries = retries

    def arguments(self) -> dict[str, Any]:
        proxy = {"proxy_url": self._config.proxy_url.reveal()} if self._config.proxy_url else {}
        return {
            "client_options": {
                "timeout": timedelta(seconds=self._timeout_s),
                "connect_timeout": timedelta(seconds=min(_CONNECT_SECONDS, self._timeout_s)),
                "allow_http": urlsplit(self._config.endpoint).scheme == "http",
                **proxy,
            },
            "retry_config": {"max_retries": self._retries, "retry_timeout": timedelta(seconds=self._timeout_s)},
        }


class _Provider:
    """Hands the native client one fixed credential, so that none from the environment is mixed in."""

    def __init__(self, **secrets: Secret) -> None:
        self._secrets = secrets

    def __call__(self) -> Any:
        values = {name: secret.reveal() or None for name, secret in self._secrets.items()}
        return {**values, "expires_at": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._secrets)})"


def _make_s3(location: Location, config: StoreConfig, sending: _Sending) -> S3Store:
    settings: Any = {"skip_signature": config.anonymous}
    if config.region:
        settings["region"] = config.region
    if not config.path_style:
        settings["virtual_hosted_style_request"] = True
    if config.endpoint:
        # AWS_ENDPOINT_URL_S3 would outrank the plain endpoint.
        settings["endpoint"] = settings["aws_endpoint_url_s3"] = _s3_endpoint(location.bucket, config)
    provider = None
    if isinstance(config.login, S3Login):
        provider = _Provider(
            access_key_id=config.login.access_key,
            secret_access_key=config.login.secret_key,
            token=config.login.session_token,
        )
    return S3Store(location.bucket, config=settings, credential_provider=provider, **sending.arguments())


def _s3_endpoint(bucket: str, config: StoreConfig) -> str:
    if config.path_style:
        return config.endpoint.rstrip("/")
    parts = urlsplit(config.endpoint)
    host = parts.netloc if parts.netloc.startswith(f"{bucket}.") else f"{bucket}.{parts.netloc}"
    return f"{parts.scheme}://{host}"


def _make_azure(location: Location, config: StoreConfig, sending: _Sending) -> AzureStore:
    settings: Any = {"skip_signature": config.anonymous}
    if config.account:
        settings["account_name"] = config.account
    suffix = location.host.partition(".")[2].partition(".")[2]
    if config.endpoint:
        settings["endpoint"] = config.endpoint.rstrip("/")
    elif suffix.endswith("fabric.microsoft.com"):
        settings["use_fabric_endpoint"] = True
    elif suffix and suffix != "core.windows.net":
        settings["endpoint"] = f"https://{config.account}.blob.{suffix}"
    login, provider = config.login, None
    if isinstance(login, AzureLogin):
        if login.account_key:
            provider = _Provider(access_key=login.account_key)
        elif login.sas_token:
            provider = _Provider(sas_token=Secret(login.sas_token.reveal().lstrip("?")))
        elif login.bearer_token:
            provider = _Provider(token=login.bearer_token)
        else:
            settings |= {"credential_type": "client_secret", "tenant_id": login.tenant_id, "client_id": login.client_id}
            return AzureStore(
                location.bucket,
                config=settings | {"client_secret": login.client_secret.reveal()},
                **sending.arguments(),
            )
    return AzureStore(location.bucket, config=settings, credential_provider=provider, **sending.arguments())


def _make_gcs(location: Location, config: StoreConfig, sending: _Sending) -> GCSStore:
    settings: Any = {"skip_signature": config.anonymous}
    if config.endpoint:
        settings["base_url"] = config.endpoint.rstrip("/")
    login, provider = config.login, None
    if isinstance(login, GcsLogin):
        if login.bearer_token:
            provider = _Provider(token=login.bearer_token)
        elif login.key:
            return GCSStore(
                location.bucket,
                config=settings | {"service_account_key": login.key.reveal()},
                **sending.arguments(),
            )
        else:
            settings["service_account"] = login.key_file
    return GCSStore(location.bucket, config=settings, credential_provider=provider, **sending.arguments())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
