from __future__ import annotations

import sys

from indextables.log.wire import assign_ids
from indextables.options import Options
from indextables.split.file import dv
from indextables.split.write.writer import write_splits
from indextables.storage import open_store
from tests.golden.split import OPTIONS, SCHEMA, keep, rows

if __name__ == "__main__":
    store = open_store("memory://golden")
    schema = assign_ids(SCHEMA) if "--ids" in sys.argv else SCHEMA
    (split,) = write_splits(store, [rows()], schema, Options(OPTIONS, environ={}))
    keep(f"{sys.argv[1]}.split.b64", store.get(split.key))
    (vector,) = dv.write_file(store, [("golden.split", 4, dv.encode([1, 3]))], "0123456789abcdef" * 2)
    keep(f"{sys.argv[1]}.dv.b64", store.get(dv.file_key(vector.pathOrInlineDv, "golden.split")))
