"""How does Spark read and write it? The data source `indextables`; the only user of pyspark."""
