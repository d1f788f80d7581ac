"""Signatures of thoughts on tool calls, as Google's Gemini writes them in Chat Completions.

Gemini signs the thought that led to a call, in the call: `extra_content.google.thought_signature`.
Of calls that are made at once, only the first is signed. It refuses a history in which a turn with
calls has no signature, and documents a placeholder for turns that are not its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.dialects.events import Json
from gateway.dialects.openai_chat.turn import calls_of, ident_of
from gateway.dialects.raw_json import NULL, Raws, members_of, raw, readable

EXTRA, VENDOR, SIGNATURE = "extra_content", "google", "thought_signature"


class _SignedTurn(msgspec.Struct):
    role: str = ""
    tool_calls: Raws | None = None


_turn = msgspec.json.Decoder(_SignedTurn)
_object = msgspec.json.Decoder(Json)


def signature_of(call: Json) -> str:
    """Return the signature of a call, or of a fragment of one; empty if it has none."""
    extra = call.get(EXTRA)
    told = extra.get(VENDOR) if isinstance(extra, dict) else None
    signature = told.get(SIGNATURE) if isinstance(told, dict) else None
    return signature if isinstance(signature, str) else ""


def find_signatures(message: object) -> dict[str, str]:
    """Return the signatures of an assistant's message by the ids of its calls."""
    calls = calls_of(message) if isinstance(message, dict) else []
    found = {ident_of(call): signature_of(call) for call in calls}
    return {call: signature for call, signature in found.items() if call and signature}


def write_signature(signature: str) -> Json:
    """Return the member of a call that holds its signature."""
    return {EXTRA: {VENDOR: {SIGNATURE: signature}}}


def choose_signatures(own: list[str], placeholder: str) -> list[str]:
    """Return what the calls of one turn are signed with: without any signature, a placeholder."""
    return own if any(own) else [placeholder] * len(own)


def sign_turn(item: msgspec.Raw, known: Mapping[str, str], placeholder: str) -> msgspec.Raw:
    """Write the signatures that an assistant's turn lacks; what is signed stays as it came."""
    turn = readable(_turn, item)
    if turn is None or turn.role != "assistant" or not turn.tool_calls:
        return item
    calls = [readable(_object, call) or {} for call in turn.tool_calls]
    there = list(map(signature_of, calls))
    own = [
        signature or known.get(ident_of(call), "")
        for call, signature in zip(calls, there, strict=True)
    ]
    chosen = choose_signatures(own, placeholder)
    if chosen == there:
        return item
    signed = [
        call if signature == before or not members_of(call) else _sign(call, signature)
        for call, signature, before in zip(turn.tool_calls, chosen, there, strict=True)
    ]
    return raw({**members_of(item), "tool_calls": signed})


def _sign(item: msgspec.Raw, signature: str) -> msgspec.Raw:
    """Write a signature into a call, beside what else it holds."""
    members = members_of(item)
    extra = members_of(members.get(EXTRA, NULL))
    vendor = members_of(extra.get(VENDOR, NULL))
    extra[VENDOR] = raw({**vendor, SIGNATURE: signature})
    return raw({**members, EXTRA: extra})
