"""The wire languages, by name; a new one adds a file and a line here."""

from __future__ import annotations

from gateway.dialects import openai_chat
from gateway.dialects.base import Dialect

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (openai_chat.DIALECT,)}

__all__ = ["DIALECTS", "Dialect"]
