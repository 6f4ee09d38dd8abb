"""What is in one data file? Rows as Parquet and their Tantivy index, in one object.

How is it written?      writer (roll, verify, put), writer_rows (Parquet), writer_feed and writer_index (Tantivy), sink
What are its bytes?     layout (index section), pages (page map), segment (Tantivy's files), thrift, dv (vectors)
How is it read?         reader (footer, rows by number), pages_fetch, scan
What does it mean?      fields (columns to index fields), analyze (text to terms), stats (bounds for the log)
How is it changed?      merge, merge_digest, reindex
How is it searched?     querylang, build, virtual, carrier, cache, search, aggregate, highlight

Nothing is imported here: a task that only scans does not load Tantivy.
"""
