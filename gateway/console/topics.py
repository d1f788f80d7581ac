"""The topics about exchanges: those that are live, one of them, and how many there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from gateway.console.feed import TopicRows
from gateway.console.live_board import MOST_LIVE_ROWS, LiveBoard, RunningExchange
from gateway.console.trail_view import ExchangeRow
from gateway.exchange.machine import State
from gateway.exchange.trail import Trail

TICK = 0.1
SECOND = 1.0
# How long one that ended stays in the list of the live.
ENDED_SECONDS = 5.0
# Of those that came and went between two looks, so many are shown.
MOST_NEW_ENDED = 50
ALL = "all"
OVER = "over"
TRAIL = "trail"

_encoder = msgspec.json.Encoder()
encode = _encoder.encode
Reader = Callable[[], Awaitable[Mapping[str, object]]]


class PolledTopic:
    """A topic whose rows are all read again, if a stamp says that something may have changed.

    Without a stamp they are read at each look, else after so many `looks` in any case: another
    process may have changed them.
    """

    def __init__(
        self,
        read: Reader,
        interval: float = SECOND,
        stamp: Callable[[], object] | None = None,
        looks: int = 5,
    ) -> None:
        self.interval = interval
        self._read = read
        self._stamp = stamp
        self._looks = looks
        self._unread = 0
        self._seen: object = None

    async def update(self, rows: TopicRows) -> None:
        """Read all rows again."""
        if self._stamp is not None:
            stamp = self._stamp()
            self._unread -= 1
            if stamp == self._seen and self._unread > 0:
                return
            self._seen, self._unread = stamp, self._looks
        rows.replace_all({key: encode(row) for key, row in (await self._read()).items()})


class RowTemplate(NamedTuple):
    """The encoded row of an exchange that relays: only its bytes and its version change.

    A thousand of them change each second. To fill one in costs a tenth of making a row.
    """

    marks: bytes | None
    """The marks of the trail that it was made of."""
    before: bytes
    between: bytes

    @classmethod
    def of(cls, trail: Trail, row: ExchangeRow, encoded: bytes) -> RowTemplate | None:
        """Split an encoded row at what changes; None if more of it may change."""
        if row.state != State.RELAYING or row.first is None or trail.steps:
            return None
        before, name, rest = encoded.partition(b',"bytes":')
        between, last, _ = rest.rpartition(b',"version":')
        return cls(trail.marks, before + name, between.lstrip(b"0123456789") + last)

    def fill(self, trail: Trail, size: int) -> bytes | None:
        """Return the row as of now; None if the exchange has moved on since."""
        if trail.steps or trail.marks is not self.marks or trail.ended is not None:
            return None
        return b"%b%d%b%d}" % (self.before, size, self.between, trail.version)


class LiveTopic:
    """The live exchanges, each a row; those that ended stay for some seconds."""

    interval = TICK

    def __init__(self, board: LiveBoard, owner: str | None, now: Callable[[], float]) -> None:
        self._board = board
        self._owner = owner
        self._now = now
        self._seen: dict[str, int] = {}
        """The versions of the live rows, by id."""
        self._templates: dict[str, RowTemplate] = {}
        self._leaving: dict[str, float] = {}
        """When those that ended are dropped."""
        self._ended_count = board.ended.count

    async def update(self, rows: TopicRows) -> None:
        """Put what moved, and drop what ended some seconds ago."""
        if self._board.live_count > MOST_LIVE_ROWS:
            self._seen.clear()
            self._templates.clear()
            self._leaving.clear()
            self._ended_count = self._board.ended.count
            rows.replace_all({OVER: encode({"count": self._board.live_count})})
            return
        rows.drop(OVER)
        self._put_live(rows)
        self._put_ended(rows)
        now = self._now()
        for key in [key for key, until in self._leaving.items() if until <= now]:
            del self._leaving[key]
            rows.drop(key)

    def _put_live(self, rows: TopicRows) -> None:
        board, seen = self._board, self._seen
        live: dict[str, int] = {}
        for runner, trail in board.iterate_live(self._owner):
            key, version = runner.info.exchange_id, trail.version
            live[key] = version
            if seen.get(key) != version:
                rows.put(key, self._write_row(key, runner, trail))
        for key in seen:
            if key not in live:
                self._templates.pop(key, None)
                self._leaving.setdefault(key, self._now() + ENDED_SECONDS)
        self._seen = live

    def _write_row(self, key: str, runner: RunningExchange, trail: Trail) -> bytes:
        template = self._templates.pop(key, None)
        encoded = None if template is None else template.fill(trail, runner.bytes)
        if encoded is None:
            row = self._board.sum_up(runner, trail).show_row()
            encoded = encode(row)
            template = RowTemplate.of(trail, row, encoded)
        if template is not None:
            self._templates[key] = template
        return encoded

    def _put_ended(self, rows: TopicRows) -> None:
        board = self._board
        new, self._ended_count = board.ended.count - self._ended_count, board.ended.count
        until = self._now() + ENDED_SECONDS
        for place, found in enumerate(board.list_ended(self._owner, new)):
            row: ExchangeRow = found.show_row()
            if row.id in rows or place < MOST_NEW_ENDED:
                self._leaving[row.id] = until
                rows.put(row.id, encode(row))


class ExchangeTopic:
    """One exchange: its trail, sampled ten times a second while somebody looks."""

    interval = TICK

    def __init__(
        self, board: LiveBoard, owner: str | None, name: str, now: Callable[[], float]
    ) -> None:
        self._board = board
        self._owner = owner
        self._name = name
        self._now = now
        self._seen = -1

    async def update(self, rows: TopicRows) -> None:
        """Put the trail, if something was noted in it."""
        found = self._board.find(self._name, self._owner)
        if found is None:
            rows.drop(TRAIL)
            self._seen = -1
            return
        if found.running is not None:
            found.running.sample(self._now())
        if found.trail.version != self._seen:
            self._seen = found.trail.version
            rows.put(TRAIL, encode(found.show()))
