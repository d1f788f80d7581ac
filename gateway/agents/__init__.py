"""Agents: conversations that the gateway stores, one exchange at a time in each session."""
