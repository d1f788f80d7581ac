"""Sessions: which one a request belongs to, and what is in force in it."""
