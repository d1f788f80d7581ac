"""What the taps and splices of the dialects share, for answers as streams and as one JSON body.

A tap is fed the bytes of one turn and returns what the client may see at once. A splice makes one
answer of n turns; a turn becomes part of the answer only when it is taken, after its end. A turn
that has passed is read as a whole only if somebody has to know what it said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import ClassVar, Generic, Protocol, TypeVar, cast

import msgspec

from gateway.dialects.events import Json, Tape, read_event, read_events, read_object
from gateway.dialects.protocol import Tap
from gateway.errors import UpstreamBroke, UpstreamError
from gateway.exchange.additions import AnsweredTurn
from gateway.exchange.model import Asked, Stop, TurnEnd
from gateway.wire.sse import Framer, data_of

T = TypeVar("T", bound="WholeTap")

DONE = b"[DONE]"

NewId = Callable[[int], str]
"""Makes the id of a turn's n-th call."""

MOST_CALLS = 1000
"""How many a turn may make."""

# Upstreams refuse ids of more than 40 characters, and some all but letters, digits, "_" and "-".
ID_DIGITS = 24


def check_call_count(count: int) -> None:
    """Raise `UpstreamBroke` if a turn makes more calls than that: each of them is remembered."""
    if count > MOST_CALLS:
        raise UpstreamBroke(f"The upstream called more than {MOST_CALLS} tools in one turn.")


class CallIds(msgspec.Struct, gc=False):
    """Makes up ids for calls that came without one: each time the same for the same call."""

    _body: bytes
    """What was asked, until its digest is taken: most answers need none."""
    _digest: str = ""

    def make(self, answer: object, turn: int, ordinal: int) -> str:
        """Make the id of a call; no other call of the conversation has it."""
        # Some upstreams name every answer alike, so what was asked tells them apart as well.
        self.rest()
        told = f"{self._digest} {answer} {turn} {ordinal}".encode()
        return f"call_{sha256(told).hexdigest()[:ID_DIGITS]}"

    def rest(self) -> None:
        """Let go of what was asked: from here on its digest is enough."""
        if not self._digest:
            self._digest, self._body = sha256(self._body).hexdigest(), b""


class TurnRecord(Protocol):
    """What one turn said."""

    @property
    def text(self) -> str:
        """All the text it said."""

    def message(self) -> object:
        """Build what is told of the turn in a follow-up: mostly the assistant's message."""

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


class StreamTap:
    """A tap on the frames of one turn: what all dialects need to know of it."""

    __slots__ = (
        "_framer",
        "_joined",
        "_limit",
        "_reads_all",
        "_spoke",
        "_tape",
        "_tools",
        "_turn",
        "ended",
        "failure",
    )

    def __init__(self, turn: int, tools: frozenset[str], event_bytes: int) -> None:
        self._turn = turn
        self._tools = tools
        # Turn 1 passes as it came, as far as it can; of later ones every event is fitted on.
        self._joined = self._reads_all = turn > 0
        self._framer = Framer(event_bytes)
        self._tape = Tape(event_bytes)
        self._limit = event_bytes
        self._spoke = False
        self.failure: UpstreamError | None = None
        self.ended = False

    def _flush(self) -> bytes:
        """Return what is left when the bytes end; clients read it if it is a whole event."""
        rest = self._framer.flush()
        data = data_of(rest) if rest else None
        # What is left has no empty line after it.
        if data is not None and data.strip() != DONE and read_event(data) is None:
            raise UpstreamBroke("The upstream's answer broke off inside an event.")
        return rest


class RecordedStreamTap(StreamTap, RecordedTap):
    """A tap whose tape is read as a whole, and whose tail stays back from the finish on."""

    __slots__ = ("_fed", "_looked", "_recorded", "_said_more", "_sifts", "tail")

    def __init__(self, turn: int, tools: frozenset[str], event_bytes: int) -> None:
        super().__init__(turn, tools, event_bytes)
        # Without server tools turn 1 passes as it is: its numbers and ids are right already.
        self._sifts = self._joined or bool(tools)
        self._fed = False
        self._looked = False
        self._said_more = False
        self.tail: list[bytes] = []

    @property
    @abstractmethod
    def seen(self) -> bool:
        """Whether the turn has begun."""

    @staticmethod
    @abstractmethod
    def _read_error(body: bytes) -> UpstreamError:
        """Read the error that an event tells."""

    def _events(self) -> Iterator[Json]:
        return chain.from_iterable(map(read_events, self._tape.batches))

    def _fail(self, data: bytes) -> bytes:
        """Take an error; what came before it in the same read is still to be shown."""
        # Before anything was shown another route may answer instead: then it is raised.
        if not (self._looked and self.seen):
            raise self._read_error(data)
        self.failure = self._read_error(data)
        self.ended = True
        return b""


class StreamSplice:
    """Makes one stream out of n; a dialect says how they are joined."""

    content_type = b"text/event-stream; charset=utf-8"

    __slots__ = ("_event_bytes", "_ids", "_unread", "server_tools", "settling", "text_shown")

    def __init__(self, asked: Asked, server_tools: frozenset[str], event_bytes: int) -> None:
        self.server_tools = server_tools
        self._ids = CallIds(asked.body)
        self._event_bytes = event_bytes
        self._unread: list[RecordedTap] = []
        """Turns of the answer of which nobody knows yet whether they said a word."""
        self.settling = self.text_shown = False

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

    def __init__(self, asked: Asked, server_tools: frozenset[str], limit: int) -> None:
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
