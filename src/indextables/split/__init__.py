"""What is in one data file? Rows as Parquet and their Tantivy index, in one object.

file     reads the bytes of one split: layout, rows by number, scans, statistics, deletion vectors
index    knows the Tantivy half: fields, analysers, files at rest, the cache of them on disk
write    makes splits of rows, merges them, indexes them anew
query    turns a search text or a predicate into a plan, without I/O
search   answers a plan over many splits: hits, scores, aggregates, marks

Each room's `__init__` is its surface. Nothing is imported here: a task that only scans does not load Tantivy.
"""
