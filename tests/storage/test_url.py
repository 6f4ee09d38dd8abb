from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import InvalidArgument, NotSupported
from indextables.storage.url import Location, check_key, check_prefix, is_key, parse_location


@pytest.mark.parametrize(
    ("given_url", "location"),
    [
        ("/data/table", Location("file", "", "/data/table")),
        ("/data/table/", Location("file", "", "/data/table")),
        ("//data///table", Location("file", "", "/data/table")),
        ("/data/./table", Location("file", "", "/data/table")),
        ("/data/my table", Location("file", "", "/data/my table")),
        ("/data/50%25", Location("file", "", "/data/50%25")),
        ("/data/ünï/日本", Location("file", "", "/data/ünï/日本")),
        ("/data/a:b", Location("file", "", "/data/a:b")),
        (Path("/data/s3:/x"), Location("file", "", "/data/s3:/x")),
        ("file:/data/my%20table", Location("file", "", "/data/my table")),
        ("file:///data/50%25", Location("file", "", "/data/50%")),
        ("FILE://localhost/data/%C3%BC", Location("file", "", "/data/ü")),
        ("file:/data/plain space", Location("file", "", "/data/plain space")),
        ("s3://bucket/a/b", Location("s3", "bucket", "a/b")),
        ("s3a://bucket/a/b/", Location("s3", "bucket", "a/b")),
        ("S3://bucket/50%25 ?#", Location("s3", "bucket", "50%25 ?#")),
        ("gs://my-bucket.x/a", Location("gs", "my-bucket.x", "a")),
        ("az://container/a", Location("az", "container", "a")),
        (
            "abfss://container@account.dfs.core.windows.net/a/b",
            Location("az", "container", "a/b", "account.dfs.core.windows.net"),
        ),
        ("memory://name", Location("memory", "name", "")),
        ("memory://name/a", Location("memory", "name", "a")),
    ],
)
def test_paths_and_urls_name_places(given_url: str, location: Location):
    assert parse_location(given_url) == location
    assert parse_location(location.url) == location


def test_a_relative_path_is_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert parse_location("a table").path == str(tmp_path / "a table")
    assert parse_location(Path("x/y")).path == str(tmp_path / "x/y")


def test_two_dots_after_a_link_mean_the_parent_of_its_target(tmp_path: Path):
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real/inner")
    assert parse_location(f"{tmp_path}/link/../table").path == str(tmp_path / "real/table")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "   ",
        "/",
        "//",
        "/.",
        "/a/..",
        "~",
        "~/table",
        "~user/table",
        "a\0b",
        "\ud800",
        "file:relative",
        "file://host/path",
        "file://localhost",
        "file:///",
        "file:/a?b",
        "file:/a#b",
        "file:/%ff",
        "file:/a%00b",
        "s3://bucket",
        "s3://bucket/",
        "s3://bucket//",
        "s3:///path",
        "s3://",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://bucket/a/./b",
        "s3://bad bucket/a",
        "s3://bucket?x/a",
        "gs://bucket",
        "az://container",
        "abfss://container/path",
        "abfss://container@account.dfs.core.windows.net",
        "abfss://container@account.dfs.core.windows.net/",
        "abfss://@account.dfs.core.windows.net/a",
        "memory://",
        "s3:/bucket/path",
        "S3A:/bucket",
        "gs:/bucket/x",
        "hdfs:/x",
        Path("s3://bucket/path"),
    ],
)
def test_what_names_no_place_of_its_own_is_refused(url: str):
    with pytest.raises(InvalidArgument):
        parse_location(url)


def test_the_home_folder_is_refused_but_not_what_lies_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InvalidArgument):
        parse_location(tmp_path)
    assert parse_location(tmp_path / "t").path == f"{tmp_path}/t"


def test_a_folder_may_be_called_like_a_scheme_if_one_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert parse_location("./s3:/x").path == f"{tmp_path}/s3:/x"
    assert parse_location("./~").path == f"{tmp_path}/~"


def test_a_working_folder_that_is_gone_matters_for_relative_paths_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidArgument):
        parse_location("table")
    assert parse_location("/data/table").path == "/data/table"
    monkeypatch.chdir(tmp_path)


def test_bytes_are_no_path():
    class BytesPath(os.PathLike):
        def __fspath__(self):
            return b"/data"

    with pytest.raises(InvalidArgument):
        parse_location(BytesPath())


@pytest.mark.parametrize("url", ["hdfs://host/a", "viewfs://a/b", "http://host/a", "dbfs://x/y", "wasb://a@b/c"])
def test_other_schemes_are_not_supported(url: str):
    with pytest.raises(NotSupported):
        parse_location(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIACANARY:sEcReT@bucket/a",
        "s3a://AKIACANARY@bucket/a",
        "gs://user:sEcReT@bucket/a",
        "abfss://c:sEcReT@account.dfs.core.windows.net/a",
        "memory://user:sEcReT@name",
        "hdfs://user:sEcReT@host/a",
        "https://user:sEcReT@host/a",
        "file://user:sEcReT@host/a",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_shown(url: str):
    with pytest.raises((InvalidArgument, NotSupported)) as caught:
        parse_location(url)
    assert "sEcReT" not in f"{caught.value} {caught.value.details}"
    assert "AKIACANARY" not in f"{caught.value} {caught.value.details}"


@given(st.text())
def test_any_text_is_a_place_or_a_typed_error(text: str):
    try:
        location = parse_location(text)
    except (InvalidArgument, NotSupported):
        return
    assert location.path != "/"
    assert parse_location(location.url) == location


@given(st.text(alphabet=st.sampled_from("ab./\\%\0\n~é"), max_size=12))
def test_a_key_never_leaves_its_root(key: str):
    if is_key(key):
        assert check_key(key) == key
        assert os.path.normpath(f"/base/{key}") == f"/base/{key}"
        assert check_prefix(f"{key}/") == f"{key}/"
    else:
        with pytest.raises(InvalidArgument):
            check_key(key)
