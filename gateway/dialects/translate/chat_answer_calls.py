"""The calls in a Chat Completions answer, as events of no dialect.

Upstreams do not tell when a call has ended. It has when another thing begins and the arguments are
a whole object; if they are not, their pieces may be mixed, and it ends with the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gateway.dialects.call_ids import MOST_CALLS, NewId
from gateway.dialects.canonical import CallBegan, CallEnded, CallWent, Event
from gateway.dialects.objects import NO_ARGUMENTS, Json, read_object
from gateway.dialects.openai_chat.calls import Call, Calls, function_of
from gateway.dialects.translate.answer_context import Room
from gateway.errors import UpstreamBroke


@dataclass(slots=True)
class _Told:
    """How much of a call was told."""

    number: int
    custom: bool
    pieces: list[str] = field(default_factory=list)
    began: bool = False
    ended: bool = False


class ToldCalls:
    """Tells of calls as their fragments come; one begins with its arguments: its name is whole."""

    __slots__ = ("_calls", "_room", "_told", "under_way")

    def __init__(self, new_id: NewId, room: Room) -> None:
        self._calls = Calls(frozenset(), new_id)
        self._room = room
        self._told: dict[Call, _Told] = {}
        self.under_way = 0
        """How many calls have begun and not ended."""

    @property
    def any(self) -> bool:
        """Whether there are calls at all."""
        return any(told.began for told in self._told.values())

    def take(self, fragments: Any) -> list[Event]:
        """Take fragments of calls."""
        events: list[Event] = []
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, dict):
                events += self._take(_as_function(fragment), custom="custom" in fragment)
        return events

    def pause(self) -> list[Event]:
        """Take the beginning of something else: calls that are whole have ended."""
        under_way = [told for told in self._told.values() if told.began and not told.ended]
        return [event for told in under_way if _is_whole(told) for event in self._end(told)]

    def end(self) -> list[Event]:
        """Take the end of the answer: all calls have ended; those that nobody named are none."""
        events: list[Event] = []
        for call, told in self._told.items():
            if call.name and not told.ended:
                events += () if told.began else self._begin(call, told)
                events += self._end(told)
        return events

    def _take(self, fragment: Json, custom: bool) -> Iterator[Event]:
        call = self._calls.take(fragment)
        told = self._told.get(call)
        if told is None:
            told = self._told[call] = _Told(len(self._told), custom)
            if told.number >= MOST_CALLS:
                raise UpstreamBroke(
                    f"The upstream called more than {MOST_CALLS} tools in one turn."
                )
        arguments = function_of(fragment).get("arguments") or ""
        if not arguments:
            return
        if told.ended:
            _check_blank(arguments)
            return
        self._room.take(len(arguments))
        told.pieces.append(arguments)
        if told.began:
            yield CallWent(told.number, arguments)
        elif call.name:
            yield from self.pause()
            yield from self._begin_up_to(told)

    def _begin_up_to(self, last: _Told) -> Iterator[Event]:
        """Begin a call, and before it those that were named before it."""
        for call, told in self._told.items():
            if call.name and not told.began and told.number <= last.number:
                yield from self._begin(call, told)

    def _begin(self, call: Call, told: _Told) -> list[Event]:
        told.began = True
        self.under_way += 1
        events: list[Event] = [CallBegan(told.number, call.id, call.name, told.custom)]
        if told.pieces:
            events.append(CallWent(told.number, "".join(told.pieces)))
        return events

    def _end(self, told: _Told) -> list[Event]:
        told.ended = True
        self.under_way -= 1
        if not told.pieces and not told.custom:
            return [CallWent(told.number, NO_ARGUMENTS), CallEnded(told.number)]
        told.pieces.clear()
        return [CallEnded(told.number)]


def _as_function(fragment: Json) -> Json:
    """Read a call of a tool that takes plain text like any other."""
    custom = fragment.get("custom")
    if not isinstance(custom, dict):
        return fragment
    return {**fragment, "function": {"name": custom.get("name"), "arguments": custom.get("input")}}


def _is_whole(told: _Told) -> bool:
    return not told.custom and read_object("".join(told.pieces).encode()) is not None


def _check_blank(arguments: str) -> None:
    if arguments.strip():
        raise UpstreamBroke("The upstream went on with a call after its arguments were whole.")
