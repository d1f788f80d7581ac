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
from gateway.dialects.events import NO_ARGUMENTS, Json, read_object
from gateway.dialects.openai_chat.calls import Calls, ChatCall, function_of
from gateway.dialects.translate.byte_budget import ByteBudget
from gateway.errors import UpstreamBroke


@dataclass(slots=True)
class _SentCall:
    """How much of a call was passed on."""

    number: int
    custom: bool
    pieces: list[str] = field(default_factory=list)
    began: bool = False
    ended: bool = False


class ChatCallReader:
    """Tells of calls as their fragments come; one begins with its arguments: its name is whole."""

    __slots__ = ("_budget", "_calls", "_sent", "under_way")

    def __init__(self, new_id: NewId, budget: ByteBudget) -> None:
        self._calls = Calls(frozenset(), new_id)
        self._budget = budget
        self._sent: dict[ChatCall, _SentCall] = {}
        self.under_way = 0
        """How many calls have begun and not ended."""

    @property
    def any(self) -> bool:
        """Whether there are calls at all."""
        return any(sent.began for sent in self._sent.values())

    def take(self, fragments: Any) -> list[Event]:
        """Take fragments of calls."""
        events: list[Event] = []
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, dict):
                events += self._take(_as_function(fragment), custom="custom" in fragment)
        return events

    def pause(self) -> list[Event]:
        """Take the beginning of something else: calls that are whole have ended."""
        under_way = [sent for sent in self._sent.values() if sent.began and not sent.ended]
        return [event for sent in under_way if _is_whole(sent) for event in self._end(sent)]

    def end(self) -> list[Event]:
        """Take the end of the answer: all calls have ended; those that nobody named are none."""
        events: list[Event] = []
        for call, sent in self._sent.items():
            if call.name and not sent.ended:
                events += () if sent.began else self._begin(call, sent)
                events += self._end(sent)
        return events

    def _take(self, fragment: Json, custom: bool) -> Iterator[Event]:
        call = self._calls.take(fragment)
        sent = self._sent.get(call)
        if sent is None:
            sent = self._sent[call] = _SentCall(len(self._sent), custom)
            if sent.number >= MOST_CALLS:
                raise UpstreamBroke(
                    f"The upstream called more than {MOST_CALLS} tools in one turn."
                )
        arguments = function_of(fragment).get("arguments") or ""
        if not arguments:
            return
        if sent.ended:
            _check_blank(arguments)
            return
        self._budget.spend(len(arguments))
        sent.pieces.append(arguments)
        if sent.began:
            yield CallWent(sent.number, arguments)
        elif call.name:
            yield from self.pause()
            yield from self._begin_up_to(sent)

    def _begin_up_to(self, last: _SentCall) -> Iterator[Event]:
        """Begin a call, and before it those that were named before it."""
        for call, sent in self._sent.items():
            if call.name and not sent.began and sent.number <= last.number:
                yield from self._begin(call, sent)

    def _begin(self, call: ChatCall, sent: _SentCall) -> list[Event]:
        sent.began = True
        self.under_way += 1
        events: list[Event] = [CallBegan(sent.number, call.id, call.name, sent.custom)]
        if sent.pieces:
            events.append(CallWent(sent.number, "".join(sent.pieces)))
        return events

    def _end(self, sent: _SentCall) -> list[Event]:
        sent.ended = True
        self.under_way -= 1
        if not sent.pieces and not sent.custom:
            return [CallWent(sent.number, NO_ARGUMENTS), CallEnded(sent.number)]
        sent.pieces.clear()
        return [CallEnded(sent.number)]


def _as_function(fragment: Json) -> Json:
    """Read a call of a tool that takes plain text like any other."""
    custom = fragment.get("custom")
    if not isinstance(custom, dict):
        return fragment
    return {**fragment, "function": {"name": custom.get("name"), "arguments": custom.get("input")}}


def _is_whole(sent: _SentCall) -> bool:
    return not sent.custom and read_object("".join(sent.pieces).encode()) is not None


def _check_blank(arguments: str) -> None:
    if arguments.strip():
        raise UpstreamBroke("The upstream went on with a call after its arguments were whole.")
