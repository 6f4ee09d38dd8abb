"""A scan reads ahead of whoever takes its rows, but only so far."""

import threading

import pyarrow as pa
import pytest

import indextables
from indextables.ambient import SystemAmbient

MIB = 2**20
ROWS = 200_000


class Watched(SystemAmbient):
    """Remembers how many bytes of rows each piece of background work on splits brought."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.sizes = []

    def submit(self, pool, call):
        def counted():
            result = call()
            if pool == "splits" and isinstance(result, list):
                with self.lock:
                    self.sizes.append(sum(batch.nbytes for batch in result))
            return result

        return super().submit(pool, counted)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Four splits of about 100 MiB of rows each."""
    path = tmp_path_factory.mktemp("ahead") / "t"
    options = {"storage.fsync": "false"}
    schema = pa.schema([("id", pa.int64()), ("payload", pa.string())])
    table = indextables.create(path, schema, options=options)
    for part in range(4):
        ids = pa.array(range(part * ROWS, (part + 1) * ROWS))
        table.append(pa.table([ids, pa.repeat("x" * 500, ROWS)], schema=schema))
    return path


@pytest.mark.slow
def test_no_split_is_held_in_memory_whole(place):
    ambient = Watched()
    table = indextables.open(place, ambient=ambient)
    assert table.files().num_rows == 4
    assert sum(batch.num_rows for batch in table.scan()) == 4 * ROWS
    assert 0 < max(ambient.sizes) <= 80 * MIB
    assert sum(ambient.sizes) > 380 * MIB


@pytest.mark.slow
def test_rows_come_in_order_and_all_of_them(place):
    assert indextables.open(place).to_arrow(columns=["id"])["id"].to_pylist() == list(range(4 * ROWS))


@pytest.mark.slow
def test_a_scan_that_is_given_up_reads_only_a_few_steps_more(place):
    ambient = Watched()
    reader = indextables.open(place, ambient=ambient).scan()
    reader.read_next_batch()
    reader.close()
    ambient.shutdown()
    assert sum(ambient.sizes) <= 320 * MIB
