"""What databases are put through so that Debezium tells of it: tables, rows before a snapshot, and changes after it."""
