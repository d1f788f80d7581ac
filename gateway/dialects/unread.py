"""Requests and answers that are passed on unread: of them only the model and the usage are found.

An answer is shown as it comes. Of a stream whole frames are shown, so that an error can follow
them. Tokens are counted as far as that is cheap: an answer may be megabytes of numbers, so of a
long one only the end is kept, where `usage` mostly stands.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from gateway.dialects.events import number_in
from gateway.dialects.protocol import Tap
from gateway.dialects.raw_json import (
    drop_duplicates,
    name_model,
    quote_names,
    read_as,
    readable,
)
from gateway.exchange.additions import AnsweredTurn
from gateway.exchange.model import ModelRequest, Stop, TurnEnd, Usage
from gateway.wire.sse import Framer, split_events

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream"
# Up to this length an answer is looked through as a whole, which takes half a millisecond.
WHOLE_BYTES = 1024 * 1024
# Of a longer one this much of its end is looked at.
TAIL_BYTES = 64 * 1024
USAGE = b'"usage"'
# How often the name may stand at the end without being the member that is meant.
MOST_LOOKS = 8
MODEL = quote_names("model")


class _Named(msgspec.Struct, gc=False):
    model: str | None = None


class _Tokens(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    # Providers write them in several ways, and none of these may cost the numbers above.
    prompt_tokens_details: Any = None
    completion_tokens_details: Any = None
    input_tokens_details: Any = None
    output_tokens_details: Any = None


class _Counted(msgspec.Struct, gc=False):
    usage: _Tokens | None = None


_named = msgspec.json.Decoder(_Named)
_counted = msgspec.json.Decoder(_Counted)


def read_unread(body: bytes, depth: int, default_model: str) -> ModelRequest:
    """Find the model that a request names, or raise `BadRequest`."""
    named = read_as(_named, body, depth)
    body = drop_duplicates(body, MODEL)
    model, body = name_model(body, named.model, default_model)
    return ModelRequest(model=model, body=body)


def read_large_unread(body: bytes, depth: int, default_model: str) -> ModelRequest:
    """Find the same in another process; a body that is unchanged is not sent back."""
    asked = read_unread(body, depth, default_model)
    return msgspec.structs.replace(asked, body=b"") if asked.body is body else asked


def find_usage(data: bytes, is_whole: bool) -> Usage | None:
    """Return the tokens that a JSON answer tells at its top level, from all or the end of it."""
    if is_whole:
        return _read_usage(data)
    at = len(data)
    for _ in range(MOST_LOOKS):
        at = data.rfind(USAGE, 0, at)
        if at < 0:
            return None
        # Only a member of the top level leaves valid JSON here: deeper, more would be closed
        # after it than was opened.
        if (found := _read_usage(b"{" + data[at:])) is not None:
            return found
    return None


def find_stream_usage(frames: bytes) -> Usage | None:
    """Return the tokens that the last of whole frames tells that tells any."""
    told = (_read_usage(data) for _, data in reversed(split_events(frames)) if data)
    return next((usage for usage in told if usage is not None), None)


def _read_usage(data: bytes) -> Usage | None:
    counted = readable(_counted, data)
    tokens = None if counted is None else counted.usage
    if tokens is None:
        return None
    sent = tokens.prompt_tokens or tokens.input_tokens or 0
    answered = tokens.completion_tokens or tokens.output_tokens
    if answered is None:
        answered = max(0, (tokens.total_tokens or 0) - sent)
    cached = _find_detail(
        "cached_tokens", tokens.prompt_tokens_details, tokens.input_tokens_details
    )
    reasoning = _find_detail(
        "reasoning_tokens", tokens.completion_tokens_details, tokens.output_tokens_details
    )
    return Usage(sent, answered, cached, reasoning)


def _find_detail(name: str, *places: Any) -> int:
    """Return the first number of this name that any of the places tells, or 0."""
    told = (number_in(place, name) for place in places if isinstance(place, dict))
    return next(filter(None, told), 0)


class AnswerTail:
    """The end of an answer that is passed on; all of it, if it is not long."""

    __slots__ = ("_pieces", "_size", "is_whole")

    def __init__(self) -> None:
        self._pieces = deque[bytes]()
        self._size = 0
        self.is_whole = True

    def add(self, data: bytes) -> None:
        """Take the next piece; of what is long, let go of the beginning."""
        pieces = self._pieces
        pieces.append(data)
        self._size += len(data)
        if self.is_whole and self._size <= WHOLE_BYTES:
            return
        self.is_whole = False
        while self._size - len(pieces[0]) >= TAIL_BYTES:
            self._size -= len(pieces.popleft())

    def join(self) -> bytes:
        """Return what was kept."""
        return b"".join(self._pieces)


class UnreadBodyTap:
    """Shows a body as it comes."""

    __slots__ = ("_tail", "ended", "seen")
    failure = None

    def __init__(self, content_type: bytes) -> None:
        self._tail = AnswerTail() if b"json" in content_type.lower() else None
        self.seen = self.ended = False

    def feed(self, data: bytes) -> bytes:
        """Show what came."""
        self.seen = True
        if self._tail is not None:
            self._tail.add(data)
        return data

    def close(self) -> bytes:
        """Take the end of the body."""
        self.ended = True
        return b""

    def end(self) -> TurnEnd:
        """Say how many tokens it took, if it is known."""
        tail = self._tail
        return _end_with(None if tail is None else find_usage(tail.join(), tail.is_whole))

    def usage_so_far(self) -> Usage | None:
        """Return nothing: usage stands at the end."""
        return None

    def rebuild_turn(self) -> AnsweredTurn:
        """Rebuild nothing: nobody knows what was said."""
        return NOT_READ

    def client_call_ids(self) -> tuple[str, ...]:
        """Return none: nobody knows what was called."""
        return ()

    def text(self) -> str:
        """Return nothing: nobody knows what was said."""
        return ""


class UnreadStreamTap(UnreadBodyTap):
    """Shows whole frames of a stream as they come."""

    __slots__ = ("_framer", "_usage")

    def __init__(self, limit: int) -> None:
        super().__init__(EVENT_STREAM)
        self._framer = Framer(limit)
        self._usage: Usage | None = None

    def feed(self, data: bytes) -> bytes:
        """Show the frames that are whole now."""
        return self._show(self._framer.batch(data))

    def close(self) -> bytes:
        """Show the last frame, if its empty line is missing."""
        self.ended = True
        return self._show(self._framer.flush())

    def _show(self, frames: bytes) -> bytes:
        self.seen = self.seen or bool(frames)
        if USAGE in frames:
            self._usage = find_stream_usage(frames) or self._usage
        return frames

    def end(self) -> TurnEnd:
        """Say how many tokens it took, if the stream told."""
        return _end_with(self._usage)

    def usage_so_far(self) -> Usage | None:
        """Return what the stream told until now."""
        return self._usage


NOT_READ = AnsweredTurn(None)


def _end_with(usage: Usage | None) -> TurnEnd:
    return TurnEnd(Stop.UNKNOWN, usage=usage, continuable=False)


class UnreadAnswer:
    """The answer to a request that is passed on: one turn, as the upstream says it."""

    __slots__ = ("_limit", "_whole", "content_type")
    settling = hides_usage = False

    def __init__(self, limit: int) -> None:
        self.content_type = JSON
        """What the upstream says that the answer is."""
        self._limit = limit
        self._whole = b""

    @property
    def streams(self) -> bool:
        """Whether it is a stream of events; only the answer itself tells."""
        return self.content_type.lower().startswith(EVENT_STREAM)

    def accepts(self, content_type: bytes) -> bool:
        """Accept any type: it is not read."""
        return True

    def tap(self) -> Tap:
        """Begin to look at the answer."""
        if self.streams:
            return UnreadStreamTap(self._limit)
        return UnreadBodyTap(self.content_type)

    def keep(self, whole: bytes) -> None:
        """Keep an answer that is all there for its end, so that it is sent in one piece."""
        self._whole = whole

    def take(self, tap: Tap) -> None:
        """Do nothing: there is one turn."""

    def rest(self) -> None:
        """Do nothing: it is never held."""

    def heartbeat(self) -> bytes:
        """Return nothing: what is not read is not added to."""
        return b""

    def tail(self, neutral_finish: bool) -> bytes:
        """Return what was kept for the end."""
        return self._whole

    def forget(self) -> None:
        """Let go of what was kept."""
        self._whole = b""
