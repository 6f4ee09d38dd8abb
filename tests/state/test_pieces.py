"""Checkpoints are written in pieces: what is held at a time does not grow with the table."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from indextables.log.checkpoint.read import read_state
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.wire.names import MANIFEST_DIR
from tests.state.logs import RandomLog, environment, same
from tests.state.spy import Spy

FILES = 1500
PIECE = 20_000
PIECES = {
    "json": {"state.format": "json", "checkpoint.maxFileSize": PIECE, "transaction.compression.enabled": "false"},
    "parquet": {"state.format": "parquet", "checkpoint.maxFileSize": PIECE, "checkpoint.compression": "none"},
    "avro": {"state.format": "avro", "state.entriesPerManifest": 100},
}


class Puts(Spy):
    """Notes the size of what is put for a checkpoint; a second passes with each put."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.sizes: list[int] = []

    def put_if_absent(self, key: str, data: bytes, **more: Any) -> Any:
        if ".checkpoint." in key or key.startswith(MANIFEST_DIR):
            self.sizes.append(len(data))
        self.env.ambient.advance(seconds=1)  # type: ignore[attr-defined]
        return super().put_if_absent(key, data, **more)


@pytest.mark.parametrize("form", PIECES)
def test_no_piece_of_a_first_checkpoint_grows_with_the_table(form):
    largest = []
    for files in (FILES // 5, FILES):
        env = environment(PIECES[form])
        log = RandomLog(env, 7)
        log.append(files)
        state = log.state()
        puts = Puts(env)
        same(read_state(env, write_checkpoint(puts.env, state)), state)
        largest.append(max(puts.sizes))
        assert len(puts.sizes) > files // 250
    assert largest[1] < 1.5 * largest[0]


def test_the_head_of_a_json_checkpoint_is_made_when_its_parts_are_there():
    env = environment(PIECES["json"])
    log = RandomLog(env, 7)
    log.append(FILES // 5)
    began = env.ambient.now_ms()
    puts = Puts(env)
    ref = write_checkpoint(puts.env, log.state())
    head = msgspec.json.decode(env.store.get(ref.keys[0]))
    assert head["createdTime"] == began + 1000 * len(head["parts"])
