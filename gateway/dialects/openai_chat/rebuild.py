"""Putting Chat Completions turns together again, of which the client was shown only a part.

A turn may call our tools beside the client's. The client then sees its own calls, and sends them
back with their results; here ours are put back among them, each in its place. Messages are looked
at as raw slices, so that all beside the one turn stays as it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.dialects.events import Json, as_text
from gateway.dialects.kept_turns import place_missing, restore_messages
from gateway.dialects.openai_chat.turn import function_of
from gateway.dialects.raw_json import (
    NULL,
    Raws,
    fields_of,
    members_of,
    raw,
    raws_in,
    readable,
)
from gateway.sessions.model import KeptTurn

_Item = tuple[str, msgspec.Raw]

CALLS = b'"tool_calls"'


class _CallId(msgspec.Struct):
    id: Any = None


class _HistoryMessage(msgspec.Struct):
    role: str = ""
    tool_calls: Raws | None = None
    tool_call_id: Any = None


_message = msgspec.json.Decoder(_HistoryMessage)
_called = msgspec.json.Decoder(_CallId)
_call = msgspec.json.Decoder(Json)
_value = msgspec.json.Decoder(Any)


@dataclass(frozen=True, slots=True, eq=False)
class _KeptChatTurn:
    """A kept turn, read: all its calls in their order, and the results of ours."""

    theirs: Mapping[str, object]
    """What the client's calls ask for, by their ids."""
    ours: list[_Item]
    places: dict[str, int]
    results: dict[str, msgspec.Raw]

    def place(self, item: _Item) -> int:
        """Return where a call stands; what is not of this turn comes last."""
        return self.places.get(item[0], len(self.places))

    def has(self, calls: list[_Item]) -> bool:
        """Tell whether a turn that made these calls is this one, as the client saw it.

        Ids alone do not tell: some upstreams count their calls from nought in every conversation,
        and some in every turn.
        """
        return self.theirs.items() <= {call: _wish(item) for call, item in calls}.items()


def restore_turns(body: bytes, kept: tuple[KeptTurn, ...]) -> bytes:
    """Put kept calls and results back into the turns they were taken from.

    A body without such a turn, or with nothing to put back, is returned as it is.
    """
    return restore_messages(body, kept, _turn, _restore)


def find_call_ids(body: bytes) -> tuple[str, ...]:
    """Return the id of the first call of each assistant's turn that called tools."""
    messages = raws_in(fields_of(body).get("messages", NULL)) or []
    turns = [read.tool_calls for item in messages if (read := readable(_message, item))]
    return tuple(ids[0][0] for calls in turns if calls and (ids := _with_ids(calls))[0][0])


def _turn(kept: KeptTurn) -> _KeptChatTurn:
    message = readable(_message, kept.message) or _HistoryMessage()
    calls = _with_ids(message.tool_calls or [])
    told = {result.call_id: result.text for result in kept.results}
    wishes = {call: _wish(item) for call, item in calls}
    theirs = {call: wishes.get(call) for call in kept.calls}
    ours = [(call, item) for call, item in calls if call in told]
    places = {call: at for at, (call, _) in enumerate(calls)}
    return _KeptChatTurn(theirs, ours, places, {c: _result(c, told[c]) for c, _ in ours})


def _result(call: str, text: str) -> msgspec.Raw:
    return raw({"role": "tool", "tool_call_id": call, "content": text})


def _with_ids(calls: Raws) -> list[_Item]:
    read = ((readable(_called, call), call) for call in calls)
    return [((as_text(called.id) or "") if called else "", call) for called, call in read]


def _wish(call: msgspec.Raw) -> tuple[object, object]:
    """Return what a call asks for; clients may write the same arguments in another way."""
    function = function_of(readable(_call, call) or {})
    arguments = function.get("arguments") or "{}"
    try:
        return function.get("name"), _value.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return function.get("name"), arguments


def _restore(messages: Raws, turns: list[_KeptChatTurn]) -> Raws:
    """Put the turns back, the newest first: where ids come again, the last to use them has them."""
    after = list(messages)
    for at in reversed(range(len(messages))):
        message = readable(_message, messages[at])
        if message is None or message.role != "assistant" or not message.tool_calls:
            continue
        calls = _with_ids(message.tool_calls)
        turn = next((turn for turn in reversed(turns) if turn.has(calls)), None)
        if turn is not None:
            turns.remove(turn)
            end = _end_of_results(messages, at + 1)
            told = _with_results(messages[at + 1 : end], turn)
            after[at:end] = [_with_calls(messages[at], calls, turn), *told]
    return after


def _end_of_results(messages: Raws, start: int) -> int:
    end = start
    while end < len(messages) and _result_id(messages[end]) is not None:
        end += 1
    return end


def _result_id(message: msgspec.Raw) -> str | None:
    """Return which call a message is the result of, or None if it is no result."""
    result = readable(_message, message)
    return (as_text(result.tool_call_id) or "") if result and result.role == "tool" else None


def _with_calls(message: msgspec.Raw, present: list[_Item], turn: _KeptChatTurn) -> msgspec.Raw:
    """Put our calls back into their places; the client's stay as it sends them."""
    there = {call for call, _ in present}
    missing = [item for item in turn.ours if item[0] not in there]
    if not missing:
        return message
    calls = [item for _, item in sorted(present + missing, key=turn.place)]
    return raw({**members_of(message), "tool_calls": calls})


def _with_results(told: Raws, turn: _KeptChatTurn) -> Raws:
    """Put our results before the first one of the client's whose call came later."""
    ids = [_result_id(message) or "" for message in told]
    missing = [(turn.places[call], item) for call, item in turn.results.items() if call not in ids]
    # A result of another turn stands nowhere in this one.
    places = (turn.places.get(call, -1) for call in ids)
    return place_missing(missing, zip(places, told, strict=True))
