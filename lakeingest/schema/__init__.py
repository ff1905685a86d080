"""Schemas: DDL text as columns, and how columns may change."""
