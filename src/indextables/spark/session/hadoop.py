"""How does Spark's own reader name and reach the files of a table? Hadoop paths and `fs.*` settings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from indextables.options import Options
from indextables.storage.config import AzureLogin, S3Login, StoreConfig, given_options, read_config
from indextables.storage.url import Location, parse_location

__all__ = ["HadoopPlace", "hadoop_place", "have_plain_names"]

# Hadoop passes over names that begin with `_` or `.` without a word, takes a colon for a scheme, and shows other
# characters percent-encoded in `_metadata.file_name`.
_PLAIN_NAME = re.compile(r"[0-9A-Za-z~-][0-9A-Za-z~._-]*\Z")

# Switching patterns off (`__globPaths__`) would read every file once per path that holds such a letter.
_PATTERN = re.compile(r"[\[\]{}*?\\]")
_ESCAPED = r"\\\g<0>"


class HadoopPlace:
    """The root of a table as Hadoop spells it, and the settings that its file system needs."""

    def __init__(self, root: str, settings: Mapping[str, str]) -> None:
        self.root = root
        self.settings = dict(settings)

    def paths(self, keys: Iterable[str]) -> list[str]:
        """Full paths of keys: not percent-encoded, but letters of patterns escaped, because Spark expands them."""
        root = _PATTERN.sub(_ESCAPED, self.root)
        return [f"{root}/{_PATTERN.sub(_ESCAPED, key)}" for key in keys]

    def __repr__(self) -> str:
        return f"HadoopPlace({self.root!r})"


def hadoop_place(url: str, options: Options) -> HadoopPlace | None:
    """Where Spark finds the table at `url`; None if it cannot: a table in memory.

    Raises InvalidArgument for settings that are incomplete or contradict each other.
    """
    location = parse_location(url)
    if not location.outlives_process:
        return None
    if location.scheme == "file":
        return HadoopPlace("file:" + location.path, {})
    given = given_options(options)
    config = read_config(location, given)
    hadoop = {key: value for key, value in given.items() if key.startswith("fs.")}
    if location.scheme == "s3":
        return HadoopPlace(f"s3a://{location.bucket}/{location.path}", {**hadoop, **_s3(config)})
    if location.scheme == "az":
        host = location.host or f"{config.account}.dfs.core.windows.net"
        return HadoopPlace(f"abfss://{location.bucket}@{host}/{location.path}", {**hadoop, **_azure(config, host)})
    return HadoopPlace(_gcs_root(location), hadoop)


def have_plain_names(keys: Iterable[str]) -> bool:
    """True if Hadoop lists every one of these files and tells their names as they are."""
    return all(_PLAIN_NAME.match(key.rpartition("/")[2]) for key in keys)


def _s3(config: StoreConfig) -> dict[str, str]:
    found = {"fs.s3a.path.style.access": str(config.path_style).lower()}
    if config.endpoint:
        found["fs.s3a.endpoint"] = config.endpoint
        found["fs.s3a.connection.ssl.enabled"] = str(config.endpoint.startswith("https:")).lower()
    if config.region:
        found["fs.s3a.endpoint.region"] = config.region
    if isinstance(config.login, S3Login):
        login = config.login
        found["fs.s3a.access.key"] = login.access_key.reveal()
        found["fs.s3a.secret.key"] = login.secret_key.reveal()
        kind = "SimpleAWSCredentialsProvider"
        if login.session_token:
            found["fs.s3a.session.token"] = login.session_token.reveal()
            kind = "TemporaryAWSCredentialsProvider"
        found["fs.s3a.aws.credentials.provider"] = f"org.apache.hadoop.fs.s3a.{kind}"
    elif config.anonymous:
        found["fs.s3a.aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    return found


def _azure(config: StoreConfig, host: str) -> dict[str, str]:
    if isinstance(config.login, AzureLogin) and config.login.account_key:
        return {f"fs.azure.account.key.{host}": config.login.account_key.reveal()}
    return {}


def _gcs_root(location: Location) -> str:
    return f"gs://{location.bucket}/{location.path}"
