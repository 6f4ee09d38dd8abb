"""What is in one data file? Rows as Parquet and their Tantivy index, in one object."""
