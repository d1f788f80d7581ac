"""Saying in one dialect what was asked in another.

Requests go through one canonical form: a reader and a writer for each dialect, no pair of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from gateway.dialects.canonical import Call, Conversation, Message, Tool
from gateway.dialects.profiles import NONE, Profile
from gateway.dialects.translate.chat_request_reader import read_chat
from gateway.dialects.translate.chat_request_writer import ChatRequestWriter
from gateway.dialects.translate.history import separate_texts
from gateway.dialects.translate.json_node import Losses
from gateway.dialects.translate.messages_request_reader import read_messages
from gateway.dialects.translate.messages_request_writer import MessagesRequestWriter
from gateway.dialects.translate.request_writer import RequestWriter
from gateway.dialects.translate.responses_request_reader import read_responses
from gateway.dialects.translate.responses_request_writer import ResponsesRequestWriter
from gateway.exchange.additions import NO_PARTS, GatewayParts

READERS: dict[str, Callable[[bytes], Conversation]] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic-messages": read_messages,
}
WRITERS: dict[str, type[RequestWriter]] = {
    "openai-chat": ChatRequestWriter,
    "openai-responses": ResponsesRequestWriter,
    "anthropic-messages": MessagesRequestWriter,
}


class Translated(msgspec.Struct, frozen=True, gc=False):
    """A request in the upstream's dialect, and what was left out on the way."""

    body: bytes
    lost: tuple[str, ...] = ()
    """Each named once, for the log."""


# All strict tools of a request are compiled into one grammar of limited size there, and not every
# model takes it; a tool of ours must not make the client's request fail.
LENIENT = frozenset({"anthropic-messages"})


def translate_request(
    body: bytes,
    from_dialect: str,
    to_dialect: str,
    profile: Profile = NONE,
    parts: GatewayParts = NO_PARTS,
) -> Translated:
    """Say a request in another dialect, or raise `BadRequest` if that would change its meaning."""
    if from_dialect == to_dialect:
        return Translated(body)
    conversation = READERS[from_dialect](body)
    if parts is not NO_PARTS:
        lenient = to_dialect in LENIENT or "strict" in profile.leaves_out
        conversation = _fit_additions(conversation, parts, lenient)
    if parts.signatures and profile.call_signature:
        conversation = _sign_calls(conversation, parts.signatures)
    losses = Losses(conversation.lost)
    written = WRITERS[to_dialect](conversation, profile, losses).write()
    return Translated(written, losses.names)


def _fit_additions(conversation: Conversation, parts: GatewayParts, lenient: bool) -> Conversation:
    """Write what the gateway added in the way that suits the upstream."""

    def suit(tool: Tool) -> Tool:
        return replace(tool, strict=None) if lenient and tool.name in parts.tools else tool

    messages = separate_texts(conversation.messages, parts.texts)
    return replace(conversation, messages=messages, tools=tuple(map(suit, conversation.tools)))


def _sign_calls(conversation: Conversation, signatures: Mapping[str, str]) -> Conversation:
    """Put remembered signatures back into the calls of a history."""

    def sign(message: Message) -> Message:
        parts = tuple(
            replace(part, signature=signatures[part.id])
            if isinstance(part, Call) and part.id in signatures
            else part
            for part in message.parts
        )
        return replace(message, parts=parts)

    return replace(conversation, messages=tuple(map(sign, conversation.messages)))
