"""Presets: what is known of a provider, as values for the keys of `[[upstreams]]`.

A preset only fills keys that are not given, so everything in it can be overridden. What it cannot
know, such as the URL of your own resource, it `needs`; the sentence is part of the error.
docs/providers.md has a section for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """The keys that a provider gives values to, and those that it needs."""

    values: Mapping[str, Any]
    needs: Mapping[str, str] = field(default_factory=dict)
    """Keys that have to be given, each with what it should be."""
    parameters: tuple[str, ...] = ()
    """Names that `query` must have."""


NO_PRESET = Preset({})

PRESETS: Mapping[str, Preset] = {
    "openai": Preset({"base_url": "https://api.openai.com/v1", "profile": "openai"}),
    "anthropic": Preset(
        {
            "base_url": "https://api.anthropic.com/v1",
            "dialect": "anthropic-messages",
            "profile": "anthropic",
        }
    ),
    "azure": Preset(
        {"auth": "api-key", "profile": "openai"},
        needs={"base_url": "your resource, such as https://NAME.openai.azure.com/openai/v1"},
    ),
    "azure-deployments": Preset(
        {
            "auth": "api-key",
            "path": "/deployments/{model}/chat/completions",
            "profile": "openai",
        },
        needs={
            "base_url": "your resource, such as https://NAME.openai.azure.com/openai",
            "query": 'a version of the API, such as { api-version = "2024-10-21" }',
        },
        parameters=("api-version",),
    ),
    "openrouter": Preset({"base_url": "https://openrouter.ai/api/v1", "profile": "openrouter"}),
    "gemini": Preset(
        {
            "base_url": "https://generativelanguage.googleapis.com/v1beta/openai",
            "profile": "gemini",
        }
    ),
    "bedrock": Preset(
        {},
        needs={
            "base_url": "the endpoint of your region, such as "
            "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"
        },
    ),
    "deepseek": Preset({"base_url": "https://api.deepseek.com/v1", "profile": "deepseek"}),
    "glm": Preset({"base_url": "https://api.z.ai/api/paas/v4", "profile": "glm"}),
    "kimi": Preset({"base_url": "https://api.moonshot.ai/v1"}),
    "qwen": Preset({"base_url": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"}),
    "mistral": Preset({"base_url": "https://api.mistral.ai/v1", "profile": "mistral"}),
    "groq": Preset({"base_url": "https://api.groq.com/openai/v1"}),
    "ollama": Preset({"base_url": "http://127.0.0.1:11434/v1"}),
    "vllm": Preset({"base_url": "http://127.0.0.1:8000/v1", "profile": "vllm"}),
    "llamacpp": Preset({"base_url": "http://127.0.0.1:8080/v1"}),
}
