"""Calls of tools that take plain text, between dialects that have them and those that have not.

Such a tool is offered to the upstream as a function with one text, `input`. A call is shown in the
form of the tool that the client offered, whatever form the upstream gave it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.dialects.canonical import CallBegan, CallEnded, CallWent, Event
from gateway.dialects.translate.byte_budget import ByteBudget
from gateway.dialects.translate.tools import INPUT

_texts = msgspec.json.Decoder(dict[str, str])
_OPENING, _CLOSING = f'{{"{INPUT}":"', '"}'


class CustomCallConverter:
    """Turns functions' arguments into plain text, and plain text into arguments."""

    __slots__ = ("_budget", "_names", "_unwrapped", "_wrapped")

    def __init__(self, names: frozenset[str], budget: ByteBudget) -> None:
        self._names = names
        self._budget = budget
        self._unwrapped: dict[int, list[str]] = {}
        self._wrapped: set[int] = set()

    def convert(self, event: Event) -> Sequence[Event]:
        """Return the event as the client is to see it; arguments wait until they are whole."""
        match event:
            case CallBegan():
                return self._begin(event)
            case CallWent():
                return self._go_on(event)
            case CallEnded():
                return self._end(event)
        return (event,)

    def _begin(self, began: CallBegan) -> Sequence[Event]:
        is_custom = began.name in self._names
        if began.custom is is_custom:
            return (began,)
        shown = CallBegan(began.number, began.id, began.name, is_custom)
        if is_custom:
            self._unwrapped[began.number] = []
            return (shown,)
        self._wrapped.add(began.number)
        return (shown, CallWent(began.number, _OPENING))

    def _go_on(self, went: CallWent) -> Sequence[Event]:
        if went.number in self._unwrapped:
            self._budget.spend(len(went.arguments))
            self._unwrapped[went.number].append(went.arguments)
            return ()
        if went.number in self._wrapped:
            return (CallWent(went.number, escape_json(went.arguments)),)
        return (went,)

    def _end(self, ended: CallEnded) -> Sequence[Event]:
        if ended.number in self._unwrapped:
            arguments = "".join(self._unwrapped.pop(ended.number))
            return (CallWent(ended.number, unwrap_input(arguments)), ended)
        if ended.number in self._wrapped:
            return (CallWent(ended.number, _CLOSING), ended)
        return (ended,)


def unwrap_input(arguments: str) -> str:
    """Return the text that a function was called with instead; broken arguments are the text."""
    try:
        texts = _texts.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    return texts[INPUT] if texts.keys() == {INPUT} else arguments


def escape_json(text: str) -> str:
    """Write a piece of a JSON string."""
    return msgspec.json.encode(text)[1:-1].decode()
