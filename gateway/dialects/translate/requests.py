"""Saying in one dialect what was asked in another.

Requests go through one canonical form: a reader and a writer for each dialect, no pair of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.dialects.canonical import Conversation
from gateway.dialects.profiles import NONE, Profile
from gateway.dialects.translate.chat_request_reader import read_chat
from gateway.dialects.translate.chat_request_writer import write_chat
from gateway.dialects.translate.messages_request_reader import read_messages
from gateway.dialects.translate.messages_request_writer import write_messages
from gateway.dialects.translate.node import Losses
from gateway.dialects.translate.responses_request_reader import read_responses
from gateway.dialects.translate.responses_request_writer import write_responses

Reader = Callable[[bytes], Conversation]
Writer = Callable[[Conversation, Profile, Losses], bytes]

READERS: dict[str, Reader] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic-messages": read_messages,
}
WRITERS: dict[str, Writer] = {
    "openai-chat": write_chat,
    "openai-responses": write_responses,
    "anthropic-messages": write_messages,
}


class Translated(msgspec.Struct, frozen=True, gc=False):
    """A request in the upstream's dialect, and what was left out on the way."""

    body: bytes
    lost: tuple[str, ...] = ()
    """Each named once, for the log."""


def translate_request(
    body: bytes, from_dialect: str, to_dialect: str, profile: Profile = NONE
) -> Translated:
    """Say a request in another dialect, or raise `BadRequest` if that would change its meaning."""
    if from_dialect == to_dialect:
        return Translated(body)
    conversation = READERS[from_dialect](body)
    losses = Losses(conversation.lost)
    written = WRITERS[to_dialect](conversation, profile, losses)
    return Translated(written, losses.names)
