from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import indextables
from indextables.log.wire import names
from indextables.log.wire.names import LOG_DIR, MAX_VERSION, LogFile, parse_key

VERSIONS = st.integers(0, MAX_VERSION)


@given(VERSIONS)
def test_a_version_key_parses_back_to_its_version(version):
    assert parse_key(names.version_key(version)) == LogFile("version", names.version_key(version), version)
    assert parse_key(names.crc_key(version)).version == version
    assert parse_key(names.state_key(version)).version == version


@given(VERSIONS, st.integers(1, 99999), st.text("0123456789abcdef", min_size=12, max_size=12))
def test_parts_of_checkpoints_parse_back(version, part, checkpoint_id):
    file = parse_key(names.json_checkpoint_part_key(version, checkpoint_id, part))
    assert (file.kind, file.version, file.part, file.id) == ("json-checkpoint-part", version, part, checkpoint_id)
    file = parse_key(names.parquet_checkpoint_part_key(version, part, part + 3))
    assert (file.kind, file.version, file.part, file.parts) == ("parquet-checkpoint-part", version, part, part + 3)


@given(st.lists(VERSIONS, min_size=2, max_size=2, unique=True))
def test_keys_sort_like_their_versions(versions):
    assert sorted(map(names.version_key, versions)) == [names.version_key(v) for v in sorted(versions)]


def test_every_kind_is_recognised():
    kinds = {
        names.version_key(1): "version",
        names.crc_key(1): "crc",
        names.json_checkpoint_key(1): "json-checkpoint",
        names.parquet_checkpoint_key(1): "parquet-checkpoint",
        names.state_key(1): "state",
        names.manifest_key("a1b2c3d4"): "manifest",
        names.intent_key("0-1"): "intent",
        names.POINTER_KEY: "pointer",
        LOG_DIR + "_checkpoints/00000000000000000250.checkpoint.parquet": "flat-checkpoint",
    }
    assert {key: parse_key(key).kind for key in kinds} == kinds


def test_an_unpadded_state_folder_is_read():
    assert parse_key(LOG_DIR + "state-v100/_manifest.avro").version == 100


@pytest.mark.parametrize(
    "name",
    [
        "1.json",
        "0000000000000000001.json",
        "000000000000000000001.json",
        "+0000000000000000001.json",
        "0000000000000000000a.json",
        "\u0660" * 19 + "\u0661.json",
        "0000000000000000000\uff11.json",
        "00000000000000000001.JSON",
        "00000000000000000001.json.gz",
        "00000000000000000001.json.tmp",
        ".00000000000000000001.json.crc",
        "00000000000000000001.json/",
        "00000000000000000001.json/x",
        "00000000000000000001.json\n",
        " 00000000000000000001.json",
        "09223372036854775808.json",
        "99999999999999999999.json",
        "00000000000000000001",
        "00000000000000000001.checkpoint",
        "00000000000000000001.checkpoint.abc.00000.json",
        "00000000000000000001.checkpoint.0000000003.0000000002.parquet",
        "00000000000000000001.checkpoint.0000000000.0000000002.parquet",
        "state-v/_manifest.avro",
        "state-v-1/_manifest.avro",
        "state-v1/manifest.avro",
        "state-v999999999999999999999/_manifest.avro",
        "state-v09223372036854775808/_manifest.avro",
        "manifests/manifest-../x.avro",
        "manifests/manifest-a/b.avro",
        "_last_checkpoint~",
        "_intents/../x.json",
        "",
    ],
)
def test_foreign_names_are_nothing(name):
    assert parse_key(LOG_DIR + name) is None


def test_the_same_name_elsewhere_is_nothing():
    assert parse_key("00000000000000000001.json") is None
    assert parse_key("x/_transaction_log/00000000000000000001.json") is None


@given(st.text())
def test_any_text_parses_to_a_file_or_to_nothing(text):
    for key in (text, LOG_DIR + text):
        file = parse_key(key)
        assert file is None or file.key == key


@pytest.mark.parametrize("version", [-1, MAX_VERSION + 1])
def test_a_version_out_of_range_has_no_key(version):
    with pytest.raises(ValueError, match="2\\^63"):
        names.version_key(version)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("_transaction_log", "storage/store.py"),
        ("docMappingSchema", "log/wire/actions.py"),
        ("splits/", "table/writing/splits.py"),
    ],
)
def test_names_on_the_disk_are_spelled_once(name, home):
    assert [place for place, text in _texts() if name in text] == [home]


@cache
def _texts():
    """Every text in the sources that is not there for people, with its module."""
    source = Path(indextables.__file__).parent
    found = []
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text())
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
        found += [(str(path.relative_to(source)), node.value) for node in texts if id(node) not in told]
    return found
