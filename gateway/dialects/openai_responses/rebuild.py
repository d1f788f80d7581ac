"""Putting Responses turns together again, of which the client was shown only a part.

A turn may call our tools beside the client's. The client then sees its own calls, and sends them
back with their results, or its results alone where the upstream remembers the turn by its id. Here
ours are put back among them. All beside the one turn stays as it came, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from gateway.dialects.events import Json, as_text
from gateway.dialects.kept_turns import may_hold
from gateway.dialects.openai_responses.items import CALLS, AnsweredItems, as_input, is_stored
from gateway.dialects.openai_responses.text import item_of, items_of
from gateway.dialects.raw_json import (
    Fields,
    Raws,
    fields_of,
    members_of,
    raw,
    readable,
    write_object,
)
from gateway.exchange.additions import ToolResult
from gateway.sessions.model import KeptTurn

CALL_ID = b'"call_id"'
# What tells an item from others: some clients leave out the ids of those they send back.
_KEYS = ("call_id", "id", "encrypted_content")

_answered = msgspec.json.Decoder(AnsweredItems)
_any: msgspec.json.Decoder[object] = msgspec.json.Decoder(object)


def restore_turns(body: bytes, kept: tuple[KeptTurn, ...]) -> bytes:
    """Put kept calls and results back into the turns they were taken from.

    A body without such a turn, or with nothing to put back, is returned as it is.
    """
    kept = tuple(turn for turn in kept if may_hold(body, turn))
    if not kept:
        return body
    fields = fields_of(body)
    history = _RequestItems(items_of(fields), is_stored(fields))
    for turn in reversed(kept):
        # The newest first: where ids come again, the last to use them has them.
        history.restore(turn)
    if not history.grows:
        return body
    fields["input"] = raw(history.whole())
    return write_object(fields)


def find_call_ids(body: bytes) -> tuple[str, ...]:
    """Return the id of the first call of each turn that called tools.

    Of a turn that only the upstream remembers, the results tell: any of them may be of the first.
    """
    # The search saves parsing a history without calls (test_fast_paths.py).
    if CALL_ID not in body:
        return ()
    found: list[str] = []
    known: set[str] = set()
    before = ""
    for item in map(item_of, items_of(fields_of(body))):
        call = as_text(item.call_id) or ""
        is_first = item.type in CALLS and before not in CALLS
        is_alone = item.type.endswith("_output") and call not in known
        if call and (is_first or is_alone):
            found.append(call)
        known.add(call)
        before = item.type
    return tuple(found)


def result_item(result: ToolResult) -> msgspec.Raw:
    """Write what a tool returned."""
    told = {"type": "function_call_output", "call_id": result.call_id, "output": result.text}
    return raw(told)


@dataclass(slots=True, eq=False)
class _Places:
    """Where things stand in the input; each place is found once, the last one first."""

    _at: dict[str, list[int]] = field(default_factory=dict)

    def add(self, key: str, at: int) -> None:
        """Note that something stands there."""
        self._at.setdefault(key, []).append(at)

    def has(self, key: str) -> bool:
        """Whether it stands anywhere that is not found yet."""
        return bool(self._at.get(key))

    def find(self, keys: Iterable[str]) -> int | None:
        """Find a place by the first key that has one."""
        key = next((key for key in keys if self.has(key)), None)
        return self._at[key].pop() if key is not None else None


class _RequestItems:
    """The items of a request, and what is put between them."""

    __slots__ = ("_before", "_calls", "_items", "_outputs", "_stored")

    def __init__(self, items: Raws, stored: bool) -> None:
        self._items = items
        self._stored = stored
        self._before: dict[int, Raws] = {}
        self._calls = _Places()
        self._outputs = _Places()
        for at, item in enumerate(items):
            self._note(at, item)

    @property
    def grows(self) -> bool:
        """Whether anything was put back."""
        return bool(self._before)

    def whole(self) -> Raws:
        """Return all items in their order."""
        after: Raws = []
        for at, item in enumerate(self._items):
            after += [*self._before.get(at, ()), item]
        return after + self._before.get(len(self._items), [])

    def restore(self, kept: KeptTurn) -> None:
        """Put back what is missing of a turn, if the turn is there."""
        turn = readable(_answered, kept.message)
        order = [call for item in turn.items if (call := _call_of(item))] if turn else []
        if turn is None or not set(kept.calls) <= set(order):
            return
        told = {result.call_id: result for result in kept.results}
        if all(map(self._calls.has, kept.calls)):
            end = self._put_calls(turn.items, told.keys() & set(order))
        elif any(map(self._calls.has, kept.calls)) or not all(map(self._outputs.has, kept.calls)):
            return
        else:
            end = 0
        self._put_results(order, {call: told[call] for call in order if call in told}, end)

    def _note(self, at: int, item: msgspec.Raw) -> None:
        known = item_of(item)
        if known.type.endswith("_output"):
            self._outputs.add(as_text(known.call_id) or "", at)
            return
        for key in _keys(members_of(item)):
            self._calls.add(key, at)

    def _put_calls(self, items: list[Json], ours: set[str]) -> int:
        """Put our calls after what came before them; return where the turn's calls end."""
        places = [self._calls.find(_keys_of(item)) for item in items]
        there = [at for at in places if at is not None]
        at = min(there)
        for item, place in zip(items, places, strict=True):
            if place is not None:
                at = place + 1
            elif _call_of(item) in ours:
                before = self._before.setdefault(at, [])
                before += map(msgspec.Raw, as_input([item], self._stored))
        return max(there) + 1

    def _put_results(self, order: list[str], ours: dict[str, ToolResult], end: int) -> None:
        """Put our results before the first one of the client's whose call came later."""
        found = {call: self._outputs.find((call,)) for call in order}
        theirs = [(at, order.index(call)) for call, at in found.items() if at is not None]
        last = max((at + 1 for at, _ in theirs), default=end)
        for call, result in ours.items():
            if found[call] is None:
                later = [at for at, place in theirs if place > order.index(call)]
                at = min(later, default=last)
                self._before.setdefault(at, []).append(result_item(result))


def _call_of(item: Json) -> str:
    """Return a call's id; a result has one too, but is no call."""
    is_result = str(item.get("type")).endswith("_output")
    return "" if is_result else as_text(item.get("call_id")) or ""


def _keys(members: Fields) -> list[str]:
    values = (readable(_any, members[name]) for name in _KEYS if name in members)
    return [key for value in values if (key := as_text(value))]


def _keys_of(item: Json) -> list[str]:
    return [key for name in _KEYS if (key := as_text(item.get(name)))]
