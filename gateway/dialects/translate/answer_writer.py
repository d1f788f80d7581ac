"""What the writers of answers do alike: they write events of no dialect as a client reads them.

`CollectedAnswer` is an answer put together from its events, for clients that take it as one body.

`BlockAnswerWriter` is for dialects whose clients read one block of an answer at a time. Upstreams
may mix the pieces of several calls. Here one block is open at any time, and what belongs to another
waits until a call that is open has ended. Nothing waits behind a text, which the next block ends;
only what waits is kept, and it counts against the answer's budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec.structs import replace

from gateway.dialects.canonical import (
    Began,
    Call,
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Event,
    Failed,
    Reasoning,
    Refusal,
    Text,
)
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
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
            case Text():
                self._say(event)
            case Reasoning():
                self._think(event)
            case Refusal():
                self.parts.append(event)
            case CallBegan():
                self._calls[event.number] = len(self.parts)
                self.parts.append(Call(event.id, event.name, "", event.custom))
            case CallWent():
                self._go_on(event)
            case Ended():
                self.ended = event

    def _say(self, said: Text) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Text):
            self.parts[-1] = Text(last.text + said.text)
        else:
            self.parts.append(said)

    def _think(self, thought: Reasoning) -> None:
        """Add reasoning: what proves it belongs to the text before it."""
        last = self.parts[-1] if self.parts else None
        is_open = isinstance(last, Reasoning) and not (last.signature or last.encrypted)
        if isinstance(last, Reasoning) and is_open and not thought.redacted:
            self.parts[-1] = replace(thought, text=last.text + thought.text)
        else:
            self.parts.append(thought)

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


Piece = Text | Reasoning | Refusal | CallBegan | CallWent


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
            case Text():
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


PIECE_BYTES = 100

BlockKey = type[Piece] | int | str | None
Pieces = list[Piece | CallEnded]


class AnswerBlock(Protocol):
    """One block of an answer, in the words of a dialect."""

    def begin(self) -> bytes:
        """Write its beginning."""

    def add(self, piece: Piece) -> bytes:
        """Write a piece of it; the piece that it was made for comes first."""

    def end(self) -> bytes:
        """Write its end."""


class BlockAnswerWriter(AnswerWriter):
    """Writes an answer block by block, or as one body."""

    __slots__ = ("_block", "_budget", "_key", "_next", "_waiting", "_waiting_calls")

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        super().__init__(context, budget)
        self._budget = budget
        self._block: AnswerBlock | None = None
        self._key: BlockKey = None
        """What is open: a kind of text, or the number of a call."""
        self._next = 0
        self._waiting: deque[tuple[BlockKey, Pieces]] = deque()
        self._waiting_calls: dict[BlockKey, Pieces] = {}

    @abstractmethod
    def _make_block(self, index: int, piece: Piece) -> AnswerBlock:
        """Return the block that begins with this piece."""

    def _add(self, piece: Piece | CallEnded) -> bytes:
        """Write a piece, or keep it while another call is open."""
        key = block_key(piece)
        if key != self._key and (self._waiting or isinstance(self._key, int)):
            self._keep_piece(piece, key)
            return b""
        return self._write_piece(piece, key) + self._write_waiting()

    def _write_piece(self, piece: Piece | CallEnded, key: BlockKey) -> bytes:
        if isinstance(piece, CallEnded):
            return self._end_block()
        written = b"" if key == self._key else self._end_block() + self._begin_block(piece, key)
        assert self._block is not None
        written += self._block.add(piece)
        return written + self._end_block() if _is_last(piece) else written

    def _begin_block(self, piece: Piece, key: BlockKey) -> bytes:
        self._block, self._key = self._make_block(self._next, piece), key
        self._next += 1
        return self._block.begin()

    def _end_block(self) -> bytes:
        """End what is open, if anything is; when the answer ends, all its calls have ended."""
        block, self._block, self._key = self._block, None, None
        return block.end() if block is not None else b""

    def _keep_piece(self, piece: Piece | CallEnded, key: BlockKey) -> None:
        """Keep a piece behind those of its own block; texts keep their place between calls."""
        self._budget.spend(_size_of(piece))
        pieces = self._waiting_calls.get(key)
        if pieces is None and self._waiting and self._waiting[-1][0] == key:
            pieces = self._waiting[-1][1]
        if pieces is None:
            pieces = []
            self._waiting.append((key, pieces))
            if isinstance(key, int):
                self._waiting_calls[key] = pieces
        pieces.append(piece)

    def _write_waiting(self) -> bytes:
        """Write what waits, up to a call that has not ended."""
        written = []
        while self._waiting and not isinstance(self._key, int):
            key, pieces = self._waiting.popleft()
            self._waiting_calls.pop(key, None)
            written += [self._write_piece(piece, key) for piece in pieces]
        return b"".join(written)


def block_key(piece: Piece | CallEnded) -> BlockKey:
    """Return what tells a piece's block from others; what is redacted is a block of its own."""
    if isinstance(piece, CallBegan | CallWent | CallEnded):
        return piece.number
    return "redacted" if isinstance(piece, Reasoning) and piece.redacted else type(piece)


def _is_last(piece: Piece) -> bool:
    """Whether a block ends with this piece, as reasoning does with its proof."""
    return isinstance(piece, Reasoning) and bool(piece.signature or piece.encrypted)


def _size_of(piece: Piece | CallEnded) -> int:
    """Return about what it takes to keep a piece."""
    values = msgspec.structs.astuple(piece)
    return PIECE_BYTES + sum(len(value) for value in values if isinstance(value, str))
