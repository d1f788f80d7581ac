"""What the writers of answers do alike: they write events of no dialect as a client reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gateway.dialects.canonical import (
    Began,
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Event,
    Failed,
    Refused,
    Said,
    Thought,
)
from gateway.dialects.translate.answer_context import AnswerContext
from gateway.dialects.translate.byte_budget import ByteBudget
from gateway.dialects.translate.collected_answer import CollectedAnswer

Piece = Said | Thought | Refused | CallBegan | CallWent


class AnswerWriter(ABC):
    """Writes one answer for a client, event by event or as one body."""

    __slots__ = ("_context",)

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        self._context = context

    @abstractmethod
    def say(self, text: str) -> bytes:
        """Write a piece of text: what most events are."""

    @abstractmethod
    def whole(self, answer: CollectedAnswer) -> bytes:
        """Write an answer as one body."""

    def write(self, event: Event) -> bytes:
        """Write an event as frames."""
        match event:
            case Began():
                return self._begin(event)
            case Said():
                return self.say(event.text)
            case Ended():
                return self._end(event)
            case Failed():
                return self._fail(event)
        return self._add(event)

    @abstractmethod
    def _begin(self, began: Began) -> bytes:
        """Write the beginning of the answer."""

    @abstractmethod
    def _add(self, piece: Piece | CallEnded) -> bytes:
        """Write a piece of the answer that is no text."""

    @abstractmethod
    def _end(self, ended: Ended) -> bytes:
        """Write the end of the answer."""

    @abstractmethod
    def _fail(self, failure: Failed) -> bytes:
        """Write that the answer broke off."""
