"""The dialects as the bench speaks them: how a conversation is asked, and how an answer ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

SYSTEM = "You are being measured."
BEFORE = "Tell me something."
MOST_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class Talk:
    """What is asked, of which model, after an earlier answer, and whether as a stream."""

    model: str
    stream: bool
    earlier: str
    asked: str

    @property
    def turns(self) -> list[Json]:
        """What was said so far: one earlier turn, and what is asked now."""
        return [
            {"role": "user", "content": BEFORE},
            {"role": "assistant", "content": self.earlier},
            {"role": "user", "content": self.asked},
        ]

    @property
    def named(self) -> Json:
        """What stands first in every dialect."""
        return {"model": self.model, "stream": self.stream}


def chat_body(talk: Talk) -> Json:
    """Ask in Chat Completions, for tokens too.

    A gateway that counts tokens asks for them by itself, and gets a longer answer: asked by the
    client, all that are compared get the same.
    """
    usage = {"stream_options": {"include_usage": True}} if talk.stream else {}
    messages = [{"role": "system", "content": SYSTEM}, *talk.turns]
    return {**talk.named, **usage, "messages": messages}


def messages_body(talk: Talk) -> Json:
    """Ask in Messages."""
    asked = {"max_tokens": MOST_TOKENS, "system": SYSTEM, "messages": talk.turns}
    return {**talk.named, **asked}


def responses_body(talk: Talk) -> Json:
    """Ask in Responses."""
    return {**talk.named, "instructions": SYSTEM, "input": talk.turns}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire language."""

    name: str
    spoken: str
    """As Holdgate's configuration spells it."""
    path: str
    last: bytes
    """The first line of the frame that ends a complete stream."""
    event_bytes: int
    """About how long an event with one token is, as the scripted upstream writes it."""
    body: Callable[[Talk], Json]


CHAT = Dialect(
    "chat", "openai-chat", "/v1/chat/completions", b"data: [DONE]\n", 280, body=chat_body
)
MESSAGES = Dialect(
    "messages", "anthropic-messages", "/v1/messages", b"event: message_stop\n", 120, messages_body
)
RESPONSES = Dialect(
    "responses",
    "openai-responses",
    "/v1/responses",
    b"event: response.completed\n",
    196,
    responses_body,
)
DIALECTS = (CHAT, MESSAGES, RESPONSES)


@dataclass(frozen=True, slots=True)
class Speech:
    """How a target is asked, and what stands behind it."""

    client: Dialect = CHAT
    upstream: Dialect = CHAT
    model: str = "m"


USUAL_SPEECH = Speech()
