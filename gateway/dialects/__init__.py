"""The wire languages, by name; a new one adds a package and a line here."""

from __future__ import annotations

from gateway.dialects import anthropic_messages, openai_chat, openai_responses
from gateway.dialects.protocol import Dialect

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (openai_chat.DIALECT, openai_responses.DIALECT, anthropic_messages.DIALECT)
}

__all__ = ["DIALECTS", "Dialect"]
