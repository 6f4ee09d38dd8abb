"""Make the golden states: `python -m tests.golden.state.build FORMAT` writes one file of this folder.

A golden file is never rebuilt: it shows that what was once written stays readable. A new form gets a new file.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.wire.names import LOG_DIR
from tests.state.logs import RandomLog, environment, rows_of

FOLDER = Path(__file__).parent

FORMS = {
    "v4-avro": {"state.format": "avro", "state.entriesPerManifest": 8, "state.compaction.tombstoneThreshold": 1.0},
    "v4-avro-snappy": {"state.format": "avro", "state.compression": "snappy"},
    "v4-avro-deflate": {"state.format": "avro", "state.compression": "deflate"},
    "v4-avro-none": {"state.format": "avro", "state.compression": "none"},
    "v4-parquet": {"state.format": "parquet"},
    "v4-parquet-parts": {"state.format": "parquet", "checkpoint.maxFileSize": 12_000},
    "v4-json": {"state.format": "json"},
    "v4-json-parts": {"state.format": "json", "checkpoint.maxFileSize": 4_000},
}


def build(name: str) -> dict[str, object]:
    """The objects of the form's newest checkpoint, and what must be read from them."""
    env = environment(FORMS[name])
    log = RandomLog(env, 11)
    log.append(10)
    previous = write_checkpoint(env, log.state())
    for _ in range(4):
        log.step()
    ref = write_checkpoint(env, log.state(), previous=previous)
    state = log.state()
    objects = {
        meta.key: base64.b85encode(env.store.get(meta.key)).decode()
        for meta in env.store.list_from(LOG_DIR)
        if "manifests/" in meta.key or meta.key in ref.keys
    }
    assert state.tokens is not None
    return {
        "objects": objects,
        "version": state.version,
        "files": rows_of(state.files),
        "txns": sorted(state.txns),
        "domains": sorted(state.domains),
        "skips": sorted(state.skips),
        "tokens": list(state.tokens.tokens),
        "time": state.in_commit_timestamp,
    }


if __name__ == "__main__":
    for form in sys.argv[1:]:
        place = FOLDER / f"{form}.json"
        if place.exists():
            raise SystemExit(f"{place} is golden: give the new form a new name")
        place.write_text(json.dumps(build(form), indent=1, ensure_ascii=False) + "\n")
