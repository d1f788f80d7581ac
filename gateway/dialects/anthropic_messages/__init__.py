"""Anthropic Messages."""

from gateway.dialects.anthropic_messages.dialect import DIALECT

__all__ = ["DIALECT"]
