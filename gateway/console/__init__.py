"""What the console shows, and who is signed in to it."""
