"""What the readers of answers do alike: they make events of no dialect from an upstream's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.dialects.canonical import Began, Event, Failed, Tokens
from gateway.dialects.events import as_text
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.event_data import number_in, whole_number
from gateway.errors import UpstreamBroke
from gateway.exchange.additions import NO_SIGNATURES

OTHER_SHAPE = "The upstream's answer is not what was asked for."
NEVER_BEGAN = "The upstream's answer ended before it began."


class AnswerReader(ABC):
    """Reads one answer of an upstream, event by event or as one body."""

    __slots__ = ("_budget", "_context", "_id", "began", "ended")

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        self._context = context
        self._budget = budget
        self._id = ""
        self.began = False
        self.ended = False

    @abstractmethod
    def read(self, data: bytes) -> Sequence[Event]:
        """Read the data of one frame."""

    @abstractmethod
    def whole(self, body: bytes) -> Sequence[Event]:
        """Read an answer that came as one body."""

    def close(self) -> Sequence[Event]:
        """Take the end of the bytes. Raises `UpstreamBroke` if it came too early."""
        if not self.ended:
            raise UpstreamBroke("The upstream's answer ended before it was finished.")
        return ()

    @property
    def signatures(self) -> Mapping[str, str]:
        """What the upstream signed calls with, by their ids; most sign none."""
        return NO_SIGNATURES

    def _begin_answer(
        self, ident: Any, model: Any, created: Any = 0, tokens: Tokens | None = None
    ) -> Began:
        self.began = True
        self._id = as_text(ident) or ""
        return Began(self._id, as_text(model) or "", whole_number(created), tokens)

    def _make_call_id(self, number: int) -> str:
        """Make an id for a call that has none: the client needs one to send its result."""
        return self._context.ident("call_", self._id, number)

    def _fail(self, failure: Failed) -> Sequence[Event]:
        self.ended = True
        return (failure,)


def read_openai_usage(usage: Any, sent: str, made: str) -> Tokens | None:
    """Read a usage object; Chat Completions and Responses differ in what they call both sides."""
    if not isinstance(usage, dict):
        return None
    return Tokens(
        input=number_in(usage, f"{sent}_tokens"),
        output=number_in(usage, f"{made}_tokens"),
        cached=number_in(usage, f"{sent}_tokens_details", "cached_tokens"),
        written=number_in(usage, f"{sent}_tokens_details", "cache_write_tokens"),
        reasoning=number_in(usage, f"{made}_tokens_details", "reasoning_tokens"),
    )
