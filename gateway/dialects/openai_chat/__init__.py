"""OpenAI Chat Completions."""

from gateway.dialects.openai_chat.dialect import DIALECT

__all__ = ["DIALECT"]
