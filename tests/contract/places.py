"""Every kind of place that the contract must hold at."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.servers import azurite, fakegcs, ministack, versitygw

from indextables.options import Options
from indextables.storage import Store, open_store

KINDS = [
    "local",
    "local without fsync",
    "memory",
    "s3",
    "ministack",
    "azurite",
    pytest.param("versitygw", marks=pytest.mark.soak),
    pytest.param("two versitygw", marks=pytest.mark.soak),
    pytest.param("fake gcs", marks=pytest.mark.soak),
]

PATIENT = {"storage.timeoutSeconds": "300"}
"""A conditional put that a busy machine is slow to answer must not look like one without an answer."""


@dataclass(frozen=True)
class Place:
    """Where a store can be opened, any number of times and from any process."""

    kind: str
    url: str
    settings: dict[str, str] = field(default_factory=dict)
    second_door: dict[str, str] | None = None
    """Other settings that reach the same objects through another server."""

    def open(self, *, door: int = 0) -> Store:
        settings = self.second_door if self.second_door is not None and door % 2 else self.settings
        return open_store(self.url, Options({**PATIENT, **settings}, environ={}))


def make_place(request: pytest.FixtureRequest, name: str) -> Place:
    """The place of the kind that the test is parametrised with. Servers start when they are first asked for."""
    kind = request.param
    if kind == "local":
        return Place(kind, str(request.getfixturevalue("tmp_path") / "50% of ünïcode" / name))
    if kind == "local without fsync":
        return Place(kind, str(request.getfixturevalue("tmp_path") / name), {"storage.fsync": "false"})
    if kind == "memory":
        return Place(kind, f"memory://{name}/below")
    if kind == "s3":
        server = request.getfixturevalue("s3")
        return Place(kind, server.table_url(f"some folder/{name}"), server.settings())
    if kind == "ministack":
        return Place(kind, f"s3a://{ministack.BUCKET}/{name}", request.getfixturevalue("ministack"))
    if kind == "azurite":
        return Place(kind, f"az://{azurite.CONTAINER}/some folder/{name}", request.getfixturevalue("azurite"))
    if kind == "fake gcs":
        return Place(kind, f"gs://{fakegcs.BUCKET}/{name}", request.getfixturevalue("fake_gcs"))
    first, second = request.getfixturevalue("versitygws")
    return Place(kind, f"s3://{versitygw.BUCKET}/{name}", first, second if kind.startswith("two") else None)
