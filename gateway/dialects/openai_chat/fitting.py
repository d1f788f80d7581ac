"""What the gateway wrote into a Chat Completions request, as a particular upstream wants it.

What the client wrote stays as it came. Only signatures are put back into its turns, since clients
drop them.
"""

from __future__ import annotations

import msgspec

from gateway.dialects.openai_chat.signatures import sign_turn
from gateway.dialects.profiles import Profile
from gateway.dialects.raw_json import (
    NULL,
    Fields,
    Raws,
    edit_items,
    fields_of,
    members_of,
    raw,
    readable,
    text_of,
    write_object,
)
from gateway.exchange.additions import GatewayParts

CALLS = b'"tool_calls"'
STRICT = "strict"


class _Function(msgspec.Struct):
    name: str = ""


class _NamedCall(msgspec.Struct):
    function: _Function | None = None


class _AssistantTurn(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = NULL
    tool_calls: list[_NamedCall] | None = None


_turn = msgspec.json.Decoder(_AssistantTurn)


def fit_chat(body: bytes, profile: Profile, parts: GatewayParts) -> bytes:
    """Write the gateway's own tools and turns as a profile says; return a body that is fit."""
    fields, is_changed = fields_of(body), False
    if parts.tools and STRICT in profile.leaves_out:
        is_changed = edit_items(fields, "tools", lambda tools: [_fit_tool(t, parts) for t in tools])
    if CALLS in body and profile.changes_turns:

        def fit_turns(messages: Raws) -> Raws:
            return [_fit_turn(message, profile, parts) for message in messages]

        is_changed |= edit_items(fields, "messages", fit_turns)
    return write_object(fields) if is_changed else body


def _fit_tool(tool: msgspec.Raw, parts: GatewayParts) -> msgspec.Raw:
    members = members_of(tool)
    function = members_of(members.get("function", NULL))
    if STRICT not in function or text_of(function.get("name", NULL)) not in parts.tools:
        return tool
    del function[STRICT]
    return raw({**members, "function": function})


def _fit_turn(item: msgspec.Raw, profile: Profile, parts: GatewayParts) -> msgspec.Raw:
    if profile.call_signature:
        item = sign_turn(item, parts.signatures, profile.call_signature)
    turn = readable(_turn, item)
    if turn is None or turn.role != "assistant" or not _is_own(turn, parts):
        return item
    members = members_of(item)
    missing: Fields = {}
    if profile.empty is not None and bytes(turn.content) == b"null":
        missing["content"] = raw(profile.empty)
    if profile.reasoning_filler and profile.reasoning not in members:
        missing[profile.reasoning] = raw(profile.reasoning_filler)
    return raw({**members, **missing}) if missing else item


def _is_own(turn: _AssistantTurn, parts: GatewayParts) -> bool:
    """Whether the gateway wrote a turn: no client knows of the calls to its tools."""
    calls = [call.function.name for call in turn.tool_calls or () if call.function is not None]
    return bool(calls) and (parts.is_whole or not parts.calls.isdisjoint(calls))
