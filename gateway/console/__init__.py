"""What the console is told: who is signed in, and what goes on."""
