"""Results: what was found or done, each a value that shows itself; see `showable`."""
