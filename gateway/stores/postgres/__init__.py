"""Documents and rows on PostgreSQL, shared by many instances."""
