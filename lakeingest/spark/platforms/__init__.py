"""How a session is started, where none is there."""
