"""What the taps and splices of the dialects share, for answers as streams and as one JSON body.

A tap is fed the bytes of one turn and returns what the client may see at once. A splice makes one
answer of n turns; a turn becomes part of the answer only when it is taken, after its end. A turn
that has passed is read as a whole only if somebody has to know what it said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar, cast

import msgspec

from gateway.dialects.call_ids import CallIds
from gateway.dialects.events import Json, read_object
from gateway.dialects.protocol import Tap
from gateway.errors import UpstreamBroke, UpstreamError
from gateway.exchange.additions import AnsweredTurn
from gateway.exchange.model import ModelRequest, Stop, TurnEnd

T = TypeVar("T", bound="WholeTap")


class TurnRecord(Protocol):
    """What one turn said."""

    @property
    def text(self) -> str:
        """All the text it said."""

    def message(self) -> Json:
        """Build the assistant's message."""

    def client_call_ids(self, tools: frozenset[str]) -> tuple[str, ...]:
        """Return the ids of the calls that the client sees."""


class RecordedTap(ABC):
    """A tap that tells what a turn said from its record."""

    __slots__ = ()

    _tools: frozenset[str]

    @abstractmethod
    def read_turn(self) -> TurnRecord:
        """Read what the turn said."""

    def rebuild_turn(self) -> AnsweredTurn:
        """Rebuild the assistant's turn."""
        return AnsweredTurn(self.read_turn().message())

    def client_call_ids(self) -> tuple[str, ...]:
        """Return the ids of the calls that the client sees."""
        return self.read_turn().client_call_ids(self._tools)

    def text(self) -> str:
        """Return the text the turn said."""
        return self.read_turn().text


class StreamSplice:
    """Makes one stream out of n; a dialect says how they are joined."""

    content_type = b"text/event-stream; charset=utf-8"

    __slots__ = ("_ids", "_unread", "settling", "text_shown")

    _ids: CallIds
    _unread: list[RecordedTap]
    """Turns that are part of the answer, and of which nobody knows yet whether they said a word."""
    settling: bool
    text_shown: bool

    def accepts(self, content_type: bytes) -> bool:
        """Whether an upstream's answer of this type can be read."""
        return not content_type or content_type.startswith(b"text/event-stream")

    def read_on(self) -> None:
        """Read the tapes of turns that passed unread: only before another is it worth it."""
        unread, self._unread = self._unread, []
        self.text_shown = self.text_shown or any(tap.text() for tap in unread)

    def rest(self) -> None:
        """Keep only what the rest of the answer takes."""
        self.read_on()
        self._ids.rest()


class WholeAnswer(Generic[T]):
    """Makes one body out of n; a dialect says how they are joined."""

    content_type = b"application/json"
    settling = False

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
        assert isinstance(tap, WholeTap)
        self._taken.append(cast(T, tap))

    def forget(self) -> None:
        """Let go of the turns: the answer is over."""
        self._taken.clear()

    def rest(self) -> None:
        """Keep only what the rest of the answer takes."""
        self.ids.rest()

    def heartbeat(self) -> bytes:
        """Return nothing: a body has no frames to put one between."""
        return b""


class WholeTap(ABC):
    """Gathers one turn's body and reads it when it is all there.

    Most answers say a text and nothing else. They are glanced at: all that matters of them is read
    by type, in one go. Only what does not fit is read whole.
    """

    __slots__ = (
        "_end",
        "_ids",
        "_limit",
        "_pieces",
        "_size",
        "_tools",
        "_turn",
        "body",
        "ended",
        "seen",
    )

    failure = None

    def __init__(self, splice: WholeAnswer[T], limit: int, turn: int) -> None:
        # Not the splice itself, which holds the tap: nothing of both would be freed at once.
        self._ids, self._tools = splice.ids, splice.server_tools
        self._turn = turn
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._end: TurnEnd | None = None
        self.body = b""
        self.seen = False
        self.ended = False

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


class WholeObjectTap(WholeTap, RecordedTap):
    """A turn's body that is read as one JSON object, once somebody asks for more than its end."""

    __slots__ = ("_answer",)

    def __init__(self, splice: WholeAnswer[T], limit: int, turn: int) -> None:
        super().__init__(splice, limit, turn)
        self._answer: Json | None = None

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
