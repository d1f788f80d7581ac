"""The values of keys that have only some: each is one of these words."""

from __future__ import annotations

from typing import Literal

Dialect = Literal["openai-chat", "openai-responses", "anthropic-messages"]
Profile = Literal[
    "", "openai", "anthropic", "gemini", "glm", "deepseek", "mistral", "openrouter", "vllm", "plain"
]
PresetName = Literal[
    "",
    "openai",
    "anthropic",
    "azure",
    "azure-deployments",
    "openrouter",
    "gemini",
    "bedrock",
    "deepseek",
    "glm",
    "kimi",
    "qwen",
    "mistral",
    "groq",
    "ollama",
    "vllm",
    "llamacpp",
]
Auth = Literal["", "bearer", "x-api-key", "api-key", "none", "client"]
Transport = Literal["fast", "httpx", "httpx2"]
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
TimeTag = Literal["always", "user_turns", "off"]
Outage = Literal["relay", "refuse"]
BdMode = Literal["auto", "runtime", "heuristic"]
