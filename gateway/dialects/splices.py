"""What the taps and splices of the dialects share for answers that are one JSON body.

A tap is fed the bytes of one turn and shows nothing before the end. A splice makes one body of n
turns; a turn becomes part of the answer only when it is taken. What streams share is in
`events.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import msgspec

from gateway.dialects.events import CallIds, Json, RecordedTap, read_object
from gateway.dialects.protocol import Tap
from gateway.errors import UpstreamBroke, UpstreamError
from gateway.exchange.model import ModelRequest, Stop, TurnEnd, Usage

T = TypeVar("T", bound="WholeTap")


class WholeAnswer(Generic[T]):
    """Makes one body out of n; a dialect says how they are joined."""

    content_type = b"application/json"
    settling = hides_usage = False

    __slots__ = ("_limit", "_taken", "ids", "server_tools")

    def __init__(self, asked: ModelRequest, server_tools: frozenset[str], limit: int) -> None:
        self.ids = CallIds(asked.body)
        self.server_tools = server_tools
        self._limit = limit
        self._taken: list[T] = []

    def accepts(self, content_type: bytes) -> bool:
        """Whether an upstream's answer of this type can be read."""
        return not content_type or b"json" in content_type

    def take(self, tap: Tap) -> None:
        """Count a turn as part of the answer."""
        # To ask for the kind of an abstract class costs as much as all else here.
        self._taken.append(tap)  # type: ignore[arg-type]

    def forget(self) -> None:
        """Let go of the turns: the answer is over."""
        self._taken.clear()

    def rest(self) -> None:
        """Keep only what the rest of the answer takes."""
        self.ids.rest()

    def heartbeat(self) -> bytes:
        """Return nothing: a body has no frames to put one between."""
        return b""


@dataclass(slots=True, eq=False)
class WholeTap(ABC):
    """Gathers one turn's body and reads it when it is all there.

    Most answers say a text and nothing else. They are glanced at: all that matters of them is read
    by type, in one go. Only what does not fit is read whole.
    """

    # Not the splice itself, which holds the tap: nothing of both would be freed at once.
    _ids: CallIds
    _tools: frozenset[str]
    _limit: int
    _turn: int
    _pieces: list[bytes] = field(default_factory=list)
    _size: int = 0
    _end: TurnEnd | None = None
    body: bytes = b""
    seen: bool = False
    ended: bool = False
    failure: ClassVar[None] = None

    def usage_so_far(self) -> Usage | None:
        """Return nothing: a body is read when it is all there."""
        return None

    def feed(self, data: bytes) -> bytes:
        """Take what came; nothing is shown before the end."""
        self._size += len(data)
        if self._size > self._limit:
            raise UpstreamBroke(f"The upstream's answer is longer than {self._limit} bytes.")
        self._pieces.append(data)
        return b""

    def close(self) -> bytes:
        """Take the end of the body and read it."""
        self.body = b"".join(self._pieces)
        self._pieces.clear()
        try:
            # What is not looked at is not decoded either, and must be text all the same.
            if not self.body.isascii():
                self.body.decode()
            # The fast twin of `_read` and `_judge_turn`: it saves making an object of the whole
            # body. `test_a_plain_answer_is_read_as_any_other` of each dialect compares them.
            self._end = self._glance(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._read()
        self.seen = self.ended = True
        return b""

    def end(self) -> TurnEnd:
        """Say what the turn came to."""
        if self._end is None:
            self._end = self._judge_turn()
        return self._end

    @abstractmethod
    def _glance(self, body: bytes) -> TurnEnd:
        """Read an answer that says a text and nothing else; any other is no such thing."""

    @abstractmethod
    def _read(self) -> None:
        """Read all of it, or say what is wrong with it."""

    @abstractmethod
    def _judge_turn(self) -> TurnEnd:
        """Say what a turn came to that was read whole."""


@dataclass(slots=True, eq=False)
class WholeObjectTap(WholeTap, RecordedTap):
    """A turn's body that is read as one JSON object, once somebody asks for more than its end."""

    _answer: Json | None = None

    @abstractmethod
    def _find_error(self, answer: Json) -> UpstreamError | None:
        """Return the error that an answer is in truth, if it is one."""

    def _read(self) -> None:
        answer = read_object(self.body)
        if answer is None:
            raise UpstreamBroke("The upstream's answer is not JSON.")
        if error := self._find_error(answer):
            raise error
        self._answer = answer

    @property
    def answer(self) -> Json:
        """All that the body says; of a plain answer nearly nobody wants to know it."""
        if self._answer is None:
            self._answer = read_object(self.body) or {}
        return self._answer

    @property
    def hides_its_reason(self) -> bool:
        """Whether it ended for calls that nobody sees."""
        end = self.end()
        return end.stop is Stop.TOOL_CALLS and bool(end.server_calls) and not end.client_calls
