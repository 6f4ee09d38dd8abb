"""Statements whose search is about rows of `t` that something else hands on, and the rows that each must find."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("message", pa.string()),
        ("note", pa.string()),
        ("author", pa.struct([("name", pa.string()), ("team", pa.string())])),
    ]
)

INDEXING = {"message": "text", "note": "text"}
WORDS = ("timeout of disk", "disk is full", "all is well", "timeout again")
NAMES = ("ann", "bob", "cyd")


def rows() -> pa.Table:
    """Twelve rows; `message` has a timeout where id % 4 is 0 or 3, `author.name` is ann where id % 3 is 0."""
    return pa.Table.from_pylist(
        [
            {
                "id": i,
                "message": WORDS[i % 4],
                "note": None if i % 5 else "disk",
                "author": {"name": NAMES[i % 3], "team": "disk" if i == 7 else "x"},
            }
            for i in range(12)
        ],
        schema=SCHEMA,
    )


TIMEOUTS = [i for i in range(12) if i % 4 in (0, 3)]
ANNS = [i for i in range(12) if i % 3 == 0]

FORMS: dict[str, list[int]] = {
    "SELECT id FROM (SELECT * FROM t) s WHERE TEXTSEARCH(s.message, 'timeout')": TIMEOUTS,
    "SELECT id FROM (SELECT id, message AS m FROM t WHERE id > 3) s WHERE TEXTSEARCH(m, 'timeout')": [
        i for i in TIMEOUTS if i > 3
    ],
    "WITH c AS (SELECT * FROM t) SELECT id FROM c WHERE TEXTSEARCH(message, 'timeout') AND id < 6": [0, 3, 4],
    "WITH c AS (SELECT * FROM t), d AS (SELECT id AS k, message FROM c WHERE id <> 3) "
    "SELECT k AS id FROM d WHERE NOT TEXTSEARCH(d.message, 'timeout')": [i for i in range(12) if i not in TIMEOUTS],
    "SELECT id FROM (SELECT * FROM (SELECT * FROM t) a) b WHERE TEXTSEARCH(*, 'disk')": [
        i for i in range(12) if i % 4 < 2 or i % 5 == 0
    ],
    "SELECT id FROM (SELECT * FROM t ORDER BY id LIMIT 4) s WHERE TEXTSEARCH(message, 'timeout')": [0, 3],
    "WITH c AS (SELECT * FROM t) SELECT x.id FROM c x JOIN c y ON x.id = y.id + 1 "
    "WHERE TEXTSEARCH(x.message, 'timeout') AND TEXTSEARCH(y.message, 'timeout')": [4, 8],
    "WITH c AS (SELECT * FROM t WHERE id < 5) SELECT id FROM c WHERE TEXTSEARCH(message, 'timeout') "
    "UNION ALL SELECT id FROM c WHERE id = 1": [0, 1, 3, 4],
    "SELECT id FROM t WHERE id IN (SELECT id FROM (SELECT * FROM t) s WHERE TEXTSEARCH(message, 'well'))": [2, 6, 10],
    "SELECT id FROM (SELECT t.*, row_number() OVER (ORDER BY id DESC) AS n FROM t) s "
    "WHERE TEXTSEARCH(message, 'timeout') AND n <= 5": [7, 8, 11],
    "SELECT id FROM (SELECT * FROM t) WHERE (TEXTSEARCH(message, 'timeout'))": TIMEOUTS,
    "SELECT id FROM t WHERE TEXTSEARCH(author.name, 'ann')": ANNS,
    "SELECT id FROM t AS x WHERE TEXTSEARCH(x.author.name, 'ann')": ANNS,
    "SELECT id FROM (SELECT id, author FROM t) s WHERE TEXTSEARCH(author.name, 'ann') AND id > 3": [6, 9],
    "SELECT id FROM (SELECT id, author.name AS who FROM t) s WHERE TEXTSEARCH(who, 'ann')": ANNS,
    "SELECT author.id FROM t AS author WHERE TEXTSEARCH(author.message, 'well')": [2, 6, 10],
}

SCORED = "SELECT id, _score FROM (SELECT * FROM t) s WHERE TEXTSEARCH(message, 'timeout') ORDER BY _score DESC, id"
