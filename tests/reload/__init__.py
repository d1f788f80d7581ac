"""SIGHUP reads the configuration again: what changes, and what goes on as it was."""
