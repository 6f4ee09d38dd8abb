"""How does Spark read and write it? The only user of pyspark.

session  what a session tells us: settings, zones, dialect, errors, names, schemas
tasks    how work of ours runs as tasks of a cluster
search   how a search travels to tasks and comes back as a DataFrame
source   the data source `indextables`: batch and streaming reads and writes
scan     a read by Spark's own Parquet scan
table    `IndexTable`, its builder and its verbs

Each room's `__init__` is its surface.
"""
