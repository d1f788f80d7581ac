"""What the console shows: sessions, metrics over time, health, tools."""
