"""Documents and rows in SQLite: one file, one process, one engine for all that is kept in it."""
