"""Clients of each dialect, shown with upstreams of all dialects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from .node import locked_version

CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"
DIALECTS = (CHAT, RESPONSES, MESSAGES)
TITLES = {CHAT: "Chat Completions", RESPONSES: "Responses", MESSAGES: "Messages"}


@dataclass(frozen=True, slots=True)
class Speaker:
    """A real client, unmodified, of one dialect."""

    name: str
    speaks: str
    version: Callable[[], str]
    forms: tuple[str, ...]
    """The ways it is used."""
    is_agent: bool = False
    """Whether it is a program of its own, and not a library."""

    @property
    def uses(self) -> tuple[str, ...]:
        """Name each way to use it."""
        return tuple(f"{self.name} {form}" for form in self.forms)


ANTHROPIC_PYTHON = Speaker(
    "anthropic-py",
    MESSAGES,
    partial(version, "anthropic"),
    ("create()", "create(stream=True)", "stream()", "async stream()"),
)
ANTHROPIC_NODE = Speaker(
    "anthropic-ts", MESSAGES, partial(locked_version, "@anthropic-ai/sdk"), ("stream()",)
)
LANGCHAIN_MESSAGES = Speaker(
    "LangChain",
    MESSAGES,
    partial(version, "langchain-anthropic"),
    ("ChatAnthropic.stream()", "ChatAnthropic.astream()"),
)
AI_SDK_MESSAGES = Speaker(
    "Vercel AI SDK", MESSAGES, partial(locked_version, "ai"), ("streamText()",)
)
OPENAI_PYTHON = Speaker(
    "openai-python",
    RESPONSES,
    partial(version, "openai"),
    (
        "responses.create()",
        "responses.create(stream=True)",
        "responses.stream()",
        "async responses.stream()",
    ),
)
OPENAI_NODE = Speaker(
    "openai-node", RESPONSES, partial(locked_version, "openai"), ("responses.stream()",)
)
LANGCHAIN_RESPONSES = Speaker(
    "LangChain",
    RESPONSES,
    partial(version, "langchain-openai"),
    ("use_responses_api=True, stream()", "use_responses_api=True, astream()"),
)
AI_SDK_RESPONSES = Speaker(
    "Vercel AI SDK", RESPONSES, partial(locked_version, "ai"), ("streamText()",)
)
AI_SDK_CHAT = Speaker(
    "Vercel AI SDK",
    CHAT,
    partial(locked_version, "ai"),
    ("streamText()", "streamText(), @ai-sdk/openai-compatible"),
)
CODEX = Speaker(
    "Codex CLI",
    RESPONSES,
    partial(locked_version, "@openai/codex"),
    ("codex exec",),
    is_agent=True,
)
CLAUDE_CODE = Speaker(
    "Claude Code",
    MESSAGES,
    partial(locked_version, "@anthropic-ai/claude-code"),
    ("claude -p",),
    is_agent=True,
)
SPEAKERS = (
    OPENAI_PYTHON,
    OPENAI_NODE,
    LANGCHAIN_RESPONSES,
    AI_SDK_RESPONSES,
    CODEX,
    ANTHROPIC_PYTHON,
    ANTHROPIC_NODE,
    LANGCHAIN_MESSAGES,
    AI_SDK_MESSAGES,
    CLAUDE_CODE,
)


def libraries(dialect: str) -> tuple[Speaker, ...]:
    """List the libraries that speak a dialect."""
    return tuple(s for s in SPEAKERS if s.speaks == dialect and not s.is_agent)
