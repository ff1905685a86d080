"""What keeps the files of a table in good order."""
