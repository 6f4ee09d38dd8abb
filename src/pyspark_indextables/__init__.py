"""The data source that Spark finds by name."""
