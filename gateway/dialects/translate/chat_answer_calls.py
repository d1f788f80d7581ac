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
from gateway.dialects.translate.byte_budget import ByteBudget
from gateway.errors import UpstreamBroke


@dataclass(slots=True)
class _CallProgress:
    """How much of a call was passed on."""

    number: int
    custom: bool
    pieces: list[str] = field(default_factory=list)
    began: bool = False
    ended: bool = False


class ChatCallReader:
    """Tells of calls as their fragments come; one begins with its arguments: its name is whole."""

    __slots__ = ("_budget", "_calls", "_progress", "under_way")

    def __init__(self, new_id: NewId, budget: ByteBudget) -> None:
        self._calls = Calls(frozenset(), new_id)
        self._budget = budget
        self._progress: dict[Call, _CallProgress] = {}
        self.under_way = 0
        """How many calls have begun and not ended."""

    @property
    def any(self) -> bool:
        """Whether there are calls at all."""
        return any(progress.began for progress in self._progress.values())

    def take(self, fragments: Any) -> list[Event]:
        """Take fragments of calls."""
        events: list[Event] = []
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, dict):
                events += self._take(_as_function(fragment), custom="custom" in fragment)
        return events

    def pause(self) -> list[Event]:
        """Take the beginning of something else: calls that are whole have ended."""
        under_way = [
            progress
            for progress in self._progress.values()
            if progress.began and not progress.ended
        ]
        return [
            event for progress in under_way if _is_whole(progress) for event in self._end(progress)
        ]

    def end(self) -> list[Event]:
        """Take the end of the answer: all calls have ended; those that nobody named are none."""
        events: list[Event] = []
        for call, progress in self._progress.items():
            if call.name and not progress.ended:
                events += () if progress.began else self._begin(call, progress)
                events += self._end(progress)
        return events

    def _take(self, fragment: Json, custom: bool) -> Iterator[Event]:
        call = self._calls.take(fragment)
        progress = self._progress.get(call)
        if progress is None:
            progress = self._progress[call] = _CallProgress(len(self._progress), custom)
            if progress.number >= MOST_CALLS:
                raise UpstreamBroke(
                    f"The upstream called more than {MOST_CALLS} tools in one turn."
                )
        arguments = function_of(fragment).get("arguments") or ""
        if not arguments:
            return
        if progress.ended:
            _check_blank(arguments)
            return
        self._budget.spend(len(arguments))
        progress.pieces.append(arguments)
        if progress.began:
            yield CallWent(progress.number, arguments)
        elif call.name:
            yield from self.pause()
            yield from self._begin_up_to(progress)

    def _begin_up_to(self, last: _CallProgress) -> Iterator[Event]:
        """Begin a call, and before it those that were named before it."""
        for call, progress in self._progress.items():
            if call.name and not progress.began and progress.number <= last.number:
                yield from self._begin(call, progress)

    def _begin(self, call: Call, progress: _CallProgress) -> list[Event]:
        progress.began = True
        self.under_way += 1
        events: list[Event] = [CallBegan(progress.number, call.id, call.name, progress.custom)]
        if progress.pieces:
            events.append(CallWent(progress.number, "".join(progress.pieces)))
        return events

    def _end(self, progress: _CallProgress) -> list[Event]:
        progress.ended = True
        self.under_way -= 1
        if not progress.pieces and not progress.custom:
            return [CallWent(progress.number, NO_ARGUMENTS), CallEnded(progress.number)]
        progress.pieces.clear()
        return [CallEnded(progress.number)]


def _as_function(fragment: Json) -> Json:
    """Read a call of a tool that takes plain text like any other."""
    custom = fragment.get("custom")
    if not isinstance(custom, dict):
        return fragment
    return {**fragment, "function": {"name": custom.get("name"), "arguments": custom.get("input")}}


def _is_whole(progress: _CallProgress) -> bool:
    return not progress.custom and read_object("".join(progress.pieces).encode()) is not None


def _check_blank(arguments: str) -> None:
    if arguments.strip():
        raise UpstreamBroke("The upstream went on with a call after its arguments were whole.")
