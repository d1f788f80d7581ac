"""Answers of one JSON body, in any dialect: gathering the body of a turn, counting the turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar, cast

import msgspec

from gateway.dialects.call_ids import CallIds
from gateway.dialects.protocol import Tap
from gateway.errors import UpstreamBroke
from gateway.exchange.model import Asked, TurnEnd

T = TypeVar("T", bound="WholeTap")


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
