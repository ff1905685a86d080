"""The names that catalogs have for a table which lies at a path."""
