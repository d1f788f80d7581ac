"""What upstreams send (JSON events, the tape of a turn), and what taps and splices share.

Nothing in an event is what it should be before it was looked at: the functions here return what is
there, or nothing.

After them comes what the taps and splices of all streams share. A tap is fed the bytes of one turn
and returns what the client may see at once. A splice makes one answer of n turns; a turn becomes
part of the answer only when it is taken, after its end. A turn that has passed is read as a whole
only if somebody has to know what it said.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import Any, Protocol

import msgspec

from gateway.errors import UpstreamBroke, UpstreamError
from gateway.exchange.additions import AnsweredTurn
from gateway.exchange.model import ModelRequest, Usage
from gateway.wire.sse import Framer, data_of, split_events

Json = dict[str, Any]

# Some upstreams send nothing where a call has no arguments, and refuse it when it is sent back.
NO_ARGUMENTS = "{}"

_decode = msgspec.json.Decoder(Json).decode


def read_object(data: bytes) -> Json | None:
    """Parse a JSON object, or return None when it is none."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def mend_json(data: bytes) -> bytes | None:
    """Write JSON as clients read it that a strict reader refuses; None when it is none.

    Invalid UTF-8 and halves of surrogate pairs become replacement characters, raw control
    characters in a text are escaped, a number that is none becomes null.
    """
    try:
        value = json.loads(data.decode(errors="replace"), strict=False, parse_constant=_no_number)
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _no_number(name: str) -> None:
    return None


def read_event(data: bytes) -> Json | None:
    """Parse the JSON object of an upstream's event as clients do, or return None."""
    event = read_object(data)
    if event is None and (mended := mend_json(data)) is not None:
        event = read_object(mended)
    return event


def event_name(frame: bytes) -> str:
    """Return the name that a frame gives its event, empty if none."""
    if b"event:" not in frame:
        return ""
    names = [line[6:].strip() for line in frame.splitlines() if line.startswith(b"event:")]
    return names[-1].decode(errors="replace") if names else ""


def read_named(frame: bytes, data: bytes) -> Json | None:
    """Parse a frame's event; one without a type that is a text has that of its name."""
    event = read_event(data)
    if event is not None and not isinstance(event.get("type"), str):
        event["type"] = event_name(frame)
    return event


def read_events(frames: bytes) -> Iterator[Json]:
    """Parse the events in whole frames; what is no JSON object is left out."""
    for frame, data in split_events(frames):
        event = read_named(frame, data) if data is not None else None
        if event is not None:
            yield event


def as_text(value: object) -> str | None:
    """Return a text as it is, and anything else but nothing as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def objects_in(value: object) -> list[Json]:
    """Return the objects of a list; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_in(value: object) -> str:
    """Return a text, whether it came in one piece or as a list of parts; else nothing."""
    if isinstance(value, str):
        return value
    texts = (part.get("text") for part in objects_in(value))
    return "".join(text for text in texts if isinstance(text, str))


def part_of(whole: Json, name: str) -> Json:
    """Return a member that should be an object, or an empty one."""
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def number_in(whole: Json, name: str) -> int:
    """Return a member that should be a number, or 0."""
    value = whole.get(name)
    return value if isinstance(value, int) else 0


def sum_usage(usages: Iterable[Json | None]) -> Json | None:
    """Add usage objects up, number by number; other values are the last turn's."""
    total: Json | None = None
    for usage in usages:
        if usage:
            total = usage if total is None else _sum(total, usage)
    return total


def _sum(one: Json, other: Json) -> Json:
    total = {**one, **{name: value for name, value in other.items() if value is not None}}
    for name in one.keys() & other.keys():
        mine, theirs = one[name], other[name]
        if isinstance(mine, dict) and isinstance(theirs, dict):
            total[name] = _sum(mine, theirs)
        elif isinstance(mine, int | float) and isinstance(theirs, int | float):
            total[name] = mine + theirs
    return total


@dataclass(slots=True, eq=False)
class Tape:
    """Recorded bytes of one turn; past its limit it forgets everything and says so."""

    _limit: int
    _size: int = 0
    batches: list[bytes] = field(default_factory=list)
    whole: bool = True

    def record(self, batch: bytes) -> None:
        """Keep what was sent."""
        self._size += len(batch)
        if self._size <= self._limit:
            self.batches.append(batch)
        elif self.whole:
            self.whole = False
            self.batches.clear()

    def contains(self, needle: bytes) -> bool:
        """Whether a recorded piece holds this; a filter, to be judged by parsing."""
        return any(needle in batch for batch in self.batches)


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

    def usage_so_far(self) -> Usage | None:
        """Return what was reported until now: nothing, in most dialects."""
        return None

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

    __slots__ = (
        "_event_bytes",
        "_ids",
        "_unread",
        "hides_usage",
        "server_tools",
        "settling",
        "text_shown",
    )

    def __init__(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> None:
        self.server_tools = server_tools
        self._ids = CallIds(asked.body)
        self._event_bytes = event_bytes
        self._unread: list[RecordedTap] = []
        """Turns of the answer of which nobody knows yet whether they said a word."""
        self.settling = self.text_shown = self.hides_usage = False

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
