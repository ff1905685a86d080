"""Starts a session, where none is there."""
