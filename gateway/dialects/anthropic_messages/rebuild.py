"""Putting Messages turns together again, of which the client was shown only a part.

A turn may call our tools beside the client's. The client then sees its own calls, and sends them
back with their results; here ours are put back among them, each in its place. Messages and blocks
are looked at as raw slices, so that all beside the one turn stays as it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.dialects.anthropic_messages.text import block_of, message_of, messages_of
from gateway.dialects.kept_turns import place_missing, restore_messages
from gateway.dialects.raw_json import (
    Raws,
    fields_of,
    members_of,
    raw,
    raws_in,
    readable,
    text_of,
)
from gateway.dialects.text_editor import SpokenMessage
from gateway.sessions.model import KeptTurn

CALL = "tool_use"
CALLS = b'"tool_use"'
_Key = tuple[str, ...]


class _Wish(msgspec.Struct):
    """What a call asks for."""

    name: Any = None
    input: Any = None


class _Saying(msgspec.Struct):
    """What tells a block that is no call from the others of its turn."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""


_wish = msgspec.json.Decoder(_Wish)
_saying = msgspec.json.Decoder(_Saying)


@dataclass(frozen=True, slots=True, eq=False)
class _KeptMessagesTurn:
    """A kept turn, read: where each block stood, our calls, and what they returned."""

    theirs: Mapping[str, object]
    """What the client's calls ask for, by their ids."""
    places: dict[_Key, int]
    ours: dict[str, tuple[int, msgspec.Raw]]
    results: dict[str, msgspec.Raw]

    def is_shown_in(self, calls: Mapping[str, object]) -> bool:
        """Tell whether a turn that makes these calls is this one, as the client saw it.

        Ids alone do not tell: some upstreams count their calls from nought in every conversation,
        and some in every turn.
        """
        return self.theirs.items() <= calls.items()

    def place(self, block: msgspec.Raw) -> int:
        """Return where a block stood; one that is not of this turn stands nowhere."""
        return self.places.get(_key(block), -1)

    def place_of_call(self, block: msgspec.Raw) -> int:
        """Return where the call stood that a block is the result of."""
        return self.places.get(_call_key(block_of(block).answers), -1)


def restore_turns(body: bytes, kept: tuple[KeptTurn, ...]) -> bytes:
    """Put kept calls and results back into the turns they were taken from.

    A body without such a turn, or with nothing to put back, is returned as it is.
    """
    return restore_messages(body, kept, _turn, _restore)


def find_call_ids(body: bytes) -> tuple[str, ...]:
    """Return the id of the first call of each assistant's turn that called tools."""
    # The search saves parsing a history without calls (test_fast_paths.py).
    if CALLS not in body:
        return ()
    turns = [_calls(message_of(item)) for item in messages_of(fields_of(body))]
    return tuple(first for calls in turns if (first := next(iter(calls), "")))


def _calls(message: SpokenMessage) -> dict[str, object]:
    """Return what the assistant calls in a message, by the ids of the calls."""
    if message.role != "assistant":
        return {}
    blocks = ((block_of(item), item) for item in raws_in(message.content) or ())
    return {block.call: _read_wish(item) for block, item in blocks if block.type == CALL}


def _read_wish(call: msgspec.Raw) -> tuple[object, object]:
    wish = _wish.decode(call)
    return wish.name, wish.input


def _key(block: msgspec.Raw) -> _Key:
    read = block_of(block)
    if read.type == CALL:
        return _call_key(read.call)
    saying = readable(_saying, block)
    return () if saying is None else msgspec.structs.astuple(saying)


def _call_key(ident: str) -> _Key:
    return (CALL, ident)


def _turn(kept: KeptTurn) -> _KeptMessagesTurn:
    message = message_of(msgspec.Raw(kept.message))
    blocks, wishes = raws_in(message.content) or [], _calls(message)
    results = {r.call_id: _result(r.call_id, r.text) for r in kept.results}
    places = {key: at for at, block in enumerate(blocks) if (key := _key(block))}
    calls = [block_of(block).call for block in blocks]
    ours = {call: (at, blocks[at]) for at, call in enumerate(calls) if call in results}
    theirs = {call: wishes.get(call) for call in kept.calls}
    return _KeptMessagesTurn(theirs, places, ours, {call: results[call] for call in ours})


def _result(call: str, text: str) -> msgspec.Raw:
    return raw({"type": "tool_result", "tool_use_id": call, "content": text})


def _restore(messages: Raws, turns: list[_KeptMessagesTurn]) -> Raws:
    """Put the turns back, the newest first: where ids come again, the last to use them has them."""
    after = list(messages)
    for at in reversed(range(len(messages))):
        shown = _calls(message_of(messages[at]))
        turn = next((turn for turn in reversed(turns) if turn.is_shown_in(shown)), None)
        if turn is not None:
            turns.remove(turn)
            after[at] = _with_calls(messages[at], turn, shown)
            end = _end_of_turn(after, at)
            after[end : end + 1] = _with_results(after[end : end + 1], turn)
    return after


def _end_of_turn(messages: Raws, at: int) -> int:
    """Return where the assistant's turn ends: several messages in a row are one."""
    while at < len(messages) and message_of(messages[at]).role == "assistant":
        at += 1
    return at


def _with_calls(
    message: msgspec.Raw, turn: _KeptMessagesTurn, shown: Mapping[str, object]
) -> msgspec.Raw:
    """Put our calls back into their places; the client's blocks stay as it sends them."""
    missing = [turn.ours[ident] for ident in turn.ours if ident not in shown]
    if not missing:
        return message
    blocks = raws_in(message_of(message).content) or []
    placed = place_missing(missing, ((turn.place(block), block) for block in blocks))
    return raw({**members_of(message), "content": placed})


def _with_results(following: Raws, turn: _KeptMessagesTurn) -> Raws:
    """Put our results among the client's, which open the message that follows."""
    message = message_of(following[0]) if following else SpokenMessage()
    blocks = _read_blocks(message) if message.role == "user" else None
    if blocks is None:
        return [raw({"role": "user", "content": list(turn.results.values())}), *following]
    answered = {block_of(block).answers for block in blocks}
    missing = [(turn.ours[i][0], turn.results[i]) for i in turn.ours if i not in answered]
    if not missing:
        return following
    end = _end_of_results(blocks)
    told = place_missing(missing, ((turn.place_of_call(block), block) for block in blocks[:end]))
    return [raw({**members_of(following[0]), "content": told + blocks[end:]})]


def _read_blocks(message: SpokenMessage) -> Raws | None:
    """Return what a message says as blocks; None when it is neither blocks nor text."""
    text = text_of(message.content)
    return raws_in(message.content) if text is None else [raw({"type": "text", "text": text})]


def _end_of_results(blocks: Raws) -> int:
    results = [at for at, block in enumerate(blocks) if block_of(block).answers]
    return results[-1] + 1 if results else 0
