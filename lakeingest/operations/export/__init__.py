"""Exports: what came to the table since the last one, as objects that need no Delta to be read."""
