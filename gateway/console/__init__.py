"""What the console shows: live exchanges, those that ended, and a feed of changes."""
