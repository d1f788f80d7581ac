"""Delivery to clients that are not asking right now."""
