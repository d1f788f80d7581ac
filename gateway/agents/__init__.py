"""Agents: conversations that live in the gateway, one exchange at a time in each session."""
