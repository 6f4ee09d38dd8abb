"""Writes the golden logs beside this file: `python -m tests.golden.log.build`.

They are committed and never rebuilt once released: a table that was written once must stay readable for ever. The
lines are spelled out here as other versions wrote them, so that no code of today has a hand in them.
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {}},
            {"name": "message", "type": "string", "nullable": True, "metadata": {"comment": "text"}},
            {"name": "day", "type": "date", "nullable": True, "metadata": {}},
        ],
    },
    separators=(",", ":"),
)
TABLE = "3f1c2b9a-0000-4000-8000-00000000000"


def metadata(number: int, **more: object) -> dict[str, object]:
    return {
        "metaData": {
            "id": f"{TABLE}{number}",
            "format": {"provider": "indextables", "options": {}},
            "schemaString": SCHEMA,
            "partitionColumns": ["day"],
            "configuration": {},
            "createdTime": 1700000000000,
            **more,
        }
    }


def add(path: str, size: int, **more: object) -> dict[str, object]:
    day = path.split("/", maxsplit=1)[0].removeprefix("day=")
    return {
        "add": {
            "path": path,
            "partitionValues": {"day": None if day == "__HIVE_DEFAULT_PARTITION__" else day},
            "size": size,
            "modificationTime": 1700000000000 + size,
            "dataChange": True,
            **more,
        }
    }


def remove(path: str, **more: object) -> dict[str, object]:
    return {"remove": {"path": path, "deletionTimestamp": 1700000009000, "dataChange": True, **more}}


EXTENDED = {
    "stats": '{"numRecords":5,"minValues":{"id":1},"maxValues":{"id":5},"nullCount":{"id":0}}',
    "tags": {"source": "batch-job-123"},
    "minValues": {"id": "1"},
    "maxValues": {"id": "5"},
    "numRecords": 5,
    "footerStartOffset": 90,
    "footerEndOffset": 100,
    "hasFooterOffsets": True,
    "timeRangeStart": "2024-01-01T00:00:00Z",
    "timeRangeEnd": "2024-01-01T23:59:59Z",
    "splitTags": ["a", "b"],
    "deleteOpstamp": 0,
    "numMergeOps": 1,
    "docMappingJson": '{"fields":[]}',
    "uncompressedSizeBytes": 400,
}
SKIP = {
    "mergeskip": {
        "path": "day=2024-01-02/b.split",
        "skipTimestamp": 1700000005000,
        "reason": "cannot be read",
        "operation": "merge",
        "partitionValues": {"day": "2024-01-02"},
        "size": 20,
        "retryAfter": 1700086405000,
        "skipCount": 2,
    }
}


def commit(version: int, table: int, **more: object) -> dict[str, object]:
    return {
        "commitInfo": {
            "timestamp": 1700000000000 + version,
            "inCommitTimestamp": 1700000000000 + version,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "operationMetrics": {"numFiles": "1"},
            "readVersion": version - 1,
            "isBlindAppend": True,
            "tableId": f"{TABLE}{table}",
            "token": f"{version + 1:032x}",
            **more,
        }
    }


V4_FEATURES = ["avroState", "parquetSplit", "schemaDeduplication"]
V4 = {
    "protocol": {
        "minReaderVersion": 4,
        "minWriterVersion": 4,
        "readerFeatures": V4_FEATURES,
        "writerFeatures": V4_FEATURES,
    }
}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 2,
}

LOGS: dict[str, list[list[dict[str, object]]]] = {
    "v1": [
        [metadata(1)],
        [add("day=2024-01-01/part-00000-a.split", 10), add("day=2024-01-02/b.split", 20)],
        [remove("day=2024-01-01/part-00000-a.split"), add("day=__HIVE_DEFAULT_PARTITION__/c.split", 30)],
    ],
    "v2": [
        [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}, metadata(2, name="events", description="two")],
        [add("day=2024-01-01/a.split", 10, **EXTENDED), add("day=2024-01-02/b.split", 20), SKIP],
        [
            remove(
                "day=2024-01-01/a.split", partitionValues={"day": "2024-01-01"}, size=10, tags={"reason": "overwrite"}
            )
        ],
    ],
    "v3": [
        [
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 3,
                    "readerFeatures": ["footerOffsets", "tantivy4java"],
                    "writerFeatures": ["footerOffsets", "tantivy4java", "conditionalWrites", "checkpoints"],
                }
            },
            metadata(3, configuration={"docMappingSchema.RBNvo1WzZ4oRRq0W": "{}"}),
        ],
        [add("day=2024-01-01/splits/split-a.split", 10, docMappingRef="RBNvo1WzZ4oRRq0W", numRecords=5)],
        [{"futureAction": {"x": [1, {"y": 2}]}}, add("day=2024-01-02/splits/split-b.split", 20, futureField={"z": 1})],
    ],
    "v4": [
        [commit(0, 4, operation="CREATE TABLE", readVersion=None), V4, metadata(4)],
        [
            commit(1, 4),
            add("day=2024-01-01/splits/split-a.split", 10, numRecords=5),
            add("day=2024-01-02/splits/split-b%20c.split", 20, numRecords=6),
        ],
        [
            commit(2, 4, operation="DELETE", isBlindAppend=False),
            {
                "protocol": {
                    "minReaderVersion": 4,
                    "minWriterVersion": 4,
                    "readerFeatures": [*V4_FEATURES, "deletionVectors"],
                    "writerFeatures": [*V4_FEATURES, "deletionVectors"],
                }
            },
            remove("day=2024-01-01/splits/split-a.split", size=10),
            add("day=2024-01-01/splits/split-a.split", 10, numRecords=5, deletionVector=VECTOR),
        ],
        [
            commit(3, 4, operation="STREAMING UPDATE"),
            {"txn": {"appId": "stream-1", "version": 17, "lastUpdated": 1700000003000}},
            {"domainMetadata": {"domain": "owner", "configuration": '{"team":"x"}', "removed": False}},
            {"cdc": {"path": "_change_data/c.parquet", "partitionValues": {}, "size": 5, "dataChange": False}},
            add("day=2024-01-03/splits/split-d.split", 40, numRecords=7),
        ],
    ],
}


def main() -> None:
    for name, versions in LOGS.items():
        folder = HERE / name / "_transaction_log"
        folder.mkdir(parents=True, exist_ok=True)
        for version, actions in enumerate(versions):
            lines = [json.dumps(action, separators=(",", ":")) + "\n" for action in actions]
            (folder / f"{version:020d}.json").write_text("".join(lines))


if __name__ == "__main__":
    main()
