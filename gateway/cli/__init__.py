"""Gateways from a terminal, over their own HTTP API."""
