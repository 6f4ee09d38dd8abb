"""How does Spark read and write it? The only user of pyspark."""
