"""Thinking in the history of a Messages request that its upstream did not sign."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.dialects.anthropic_messages.text import block_of, last_role, message_of, messages_of
from gateway.dialects.anthropic_messages.turn import THINKING
from gateway.dialects.raw_json import (
    NULL,
    Fields,
    Raws,
    fields_of,
    members_of,
    raw,
    raws_in,
    readable,
    same,
    write_object,
)
from gateway.dialects.seals import is_sealed, may_be_sealed
from gateway.dialects.text_editor import NOBODY

CLEARING = b'"clear_thinking'


class _Signed(msgspec.Struct):
    signature: Any = None


class _Thinking(msgspec.Struct):
    type: Any = None


_signed = msgspec.json.Decoder(_Signed)
_thinking = msgspec.json.Decoder(_Thinking)


def strip_foreign_reasoning(body: bytes) -> bytes:
    """Take out thinking that is marked for another dialect's upstream."""
    fields = fields_of(body)
    before = messages_of(fields)
    after = [kept for message in before for kept in _strip_message(message)]
    if same(after, before):
        return body
    fields["messages"] = raw(after)
    if last_role(fields["messages"]) == "tool" and not _began_with_thinking(after):
        _think_no_more(fields)
    return write_object(fields)


def _strip_message(message: msgspec.Raw) -> Raws:
    """Return a message without such thinking; none if that was all it had."""
    if not may_be_sealed(bytes(message)):
        return [message]
    blocks = raws_in(message_of(message).content) or []
    kept = [block for block in blocks if not _is_sealed(block)]
    if len(kept) == len(blocks):
        return [message]
    return [raw({**members_of(message), "content": kept})] if kept else []


def _is_sealed(block: msgspec.Raw) -> bool:
    found = readable(_signed, block)
    return found is not None and is_sealed(found.signature)


def _began_with_thinking(messages: Raws) -> bool:
    """Whether the turn that waits for its results did."""
    turns = (message_of(item) for item in reversed(messages))
    turn = next((turn for turn in turns if turn.role == "assistant"), NOBODY)
    blocks = raws_in(turn.content) or [NULL]
    return block_of(blocks[0]).type in THINKING


def _think_no_more(fields: Fields) -> None:
    """Ask for no thinking: a turn that waits for its results must have begun with some.

    A model that decides for itself how much to think does not ask for that.
    """
    asked = readable(_thinking, fields.get("thinking", NULL))
    if asked is None or asked.type != "enabled":
        return
    del fields["thinking"]
    if CLEARING in bytes(fields.get("context_management", NULL)):
        del fields["context_management"]
