"""Measures what a gateway costs, next to direct access and to other gateways, in one run."""
