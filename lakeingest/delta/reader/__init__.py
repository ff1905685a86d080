"""One reader of Delta tables (`contract`): their files by pyarrow and DuckDB, or Spark where these cannot tell."""
