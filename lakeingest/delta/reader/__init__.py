"""Tables that are read without Spark: their log and data files as they lie in the store, by pyarrow and DuckDB."""
