"""The Delta tables: their columns and partitions, the commits with their receipts, and the quarantine."""
