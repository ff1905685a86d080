"""Schemas: DDL text as columns, the model of a schema, the ledger, the formats, and how a table may change. Pure."""
