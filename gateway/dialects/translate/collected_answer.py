"""An answer put together from its events, for clients that take it as one body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from gateway.dialects.canonical import (
    Began,
    Call,
    CallBegan,
    CallWent,
    Ended,
    Event,
    Reasoning,
    Refusal,
    Refused,
    Said,
    Text,
    Thought,
)
from gateway.exchange.model import Stop

AnswerPart = Text | Reasoning | Refusal | Call


NOTHING = Began("", "")
UNENDED = Ended(Stop.UNKNOWN)


@dataclass(slots=True)
class CollectedAnswer:
    """A whole answer: texts beside each other are one."""

    began: Began = NOTHING
    parts: list[AnswerPart] = field(default_factory=list)
    ended: Ended = UNENDED
    _calls: dict[int, int] = field(default_factory=dict)

    def add_event(self, event: Event) -> None:
        """Add what an event tells."""
        match event:
            case Began():
                self.began = event
            case Said():
                self._say(event.text)
            case Thought():
                self._think(event)
            case Refused():
                self.parts.append(Refusal(event.text))
            case CallBegan():
                self._calls[event.number] = len(self.parts)
                self.parts.append(Call(event.id, event.name, "", event.custom))
            case CallWent():
                self._go_on(event)
            case Ended():
                self.ended = event

    def _say(self, text: str) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Text):
            self.parts[-1] = Text(last.text + text)
        else:
            self.parts.append(Text(text))

    def _think(self, thought: Thought) -> None:
        """Add reasoning: what proves it belongs to the text before it."""
        last = self.parts[-1] if self.parts else None
        new = Reasoning(
            thought.text, thought.signature, thought.encrypted, thought.id, thought.redacted
        )
        is_open = isinstance(last, Reasoning) and not (last.signature or last.encrypted)
        if isinstance(last, Reasoning) and is_open and not thought.redacted:
            self.parts[-1] = replace(new, text=last.text + thought.text)
        else:
            self.parts.append(new)

    def _go_on(self, went: CallWent) -> None:
        at = self._calls[went.number]
        call = self.parts[at]
        assert isinstance(call, Call)
        self.parts[at] = replace(call, arguments=call.arguments + went.arguments)


def collect_answer(events: Iterable[Event]) -> CollectedAnswer:
    """Put the pieces of an answer together."""
    answer = CollectedAnswer()
    for event in events:
        answer.add_event(event)
    return answer
