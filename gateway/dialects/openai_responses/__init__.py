"""OpenAI Responses."""

from gateway.dialects.openai_responses.dialect import DIALECT

__all__ = ["DIALECT"]
