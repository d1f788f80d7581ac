"""The live exchanges, and those that ended lately: what the console lists and opens.

Nothing is told while exchanges go on: whoever looks reads them. Only an exchange that ends hands
its trail over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

import anyio
import anyio.lowlevel

from gateway.console.trail_ring import MOST_ENDED, TrailRing
from gateway.console.trail_view import LIVE, ExchangeRow, ExchangeView, show_row, show_trail
from gateway.errors import HoldgateError
from gateway.exchange.exchange_totals import ExchangeTotals, TotalsTable
from gateway.exchange.machine import Exchange, State
from gateway.exchange.model import ExchangeInfo
from gateway.exchange.observer import ExchangeEnded
from gateway.exchange.trail import Trail

MOST_LIVE_ROWS = 2000
SAMPLE_SECONDS = 1.0
MINUTE = 60.0
MINUTES = 60
# So many live exchanges are sampled before others have a turn.
BATCH = 500
EndCounts = dict[tuple[str, State], int]


class RunningExchange(Protocol):
    """An exchange under way, as its runner shows it."""

    @property
    def trail(self) -> Trail | None:
        """What happened so far."""

    @property
    def info(self) -> ExchangeInfo:
        """Which exchange it is, and whose."""

    @property
    def exchange(self) -> Exchange:
        """The machine that decides."""

    @property
    def bytes(self) -> int:
        """How many bytes of upstreams' answers were read so far."""

    def sum_up(self, now: float) -> ExchangeEnded:
        """Say how it went until now."""

    def sample(self, now: float) -> None:
        """Note how many bytes came so far."""

    def end_hold(self, reason: str) -> bool:
        """End its hold; tell whether it was held."""

    def cut(self, error: HoldgateError) -> None:
        """End it."""


@dataclass(frozen=True, slots=True)
class ExchangeQuery:
    """Which exchanges are wanted; empty means any."""

    states: frozenset[str] = frozenset()
    owner: str = ""
    session: str = ""
    model: str = ""
    upstream: str = ""
    text: str = ""

    def matches(self, summed: ExchangeEnded) -> bool:
        """Whether an exchange is wanted."""
        info = summed.info
        return (
            (not self.states or summed.state.value in self.states)
            and (not self.owner or info.owner == self.owner)
            and (not self.session or info.session == self.session)
            and (not self.model or info.model == self.model)
            and (not self.upstream or summed.route.upstream == self.upstream)
            and (not self.text or self._holds_text(summed))
        )

    def _holds_text(self, summed: ExchangeEnded) -> bool:
        info, text = summed.info, self.text.casefold()
        names = (info.exchange_id, info.request_id, info.owner, info.session or "", info.model)
        return any(text in name.casefold() for name in (*names, str(summed.route)))


@dataclass(frozen=True, slots=True)
class FoundExchange:
    """One exchange; `running` if it goes on."""

    trail: Trail
    summed: ExchangeEnded
    running: RunningExchange | None = None

    @property
    def place(self) -> tuple[int, str]:
        """Its place in lists: when it began, then its id."""
        return self.trail.begun_at, self.summed.info.exchange_id

    def show(self) -> ExchangeView:
        """Show its trail."""
        return show_trail(self.trail, self.summed)

    def show_row(self) -> ExchangeRow:
        """Show it in one line."""
        return show_row(self.trail, self.summed)


class LiveBoard:
    """Knows all live exchanges of this process, and keeps the newest of those that ended."""

    def __init__(
        self,
        live: Collection[RunningExchange],
        totals: ExchangeTotals,
        now: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._live = live
        self._now = now
        self._now_ms = now_ms
        self.ended = TrailRing(now, now_ms)
        """Those that ended."""
        self._minutes: deque[EndCounts] = deque([{}], MINUTES)
        self._next_minute = now() + MINUTE
        self._hand_over = totals.hand_over
        totals.add_taker(self.take_totals)

    def __repr__(self) -> str:
        return f"<LiveBoard {len(self._live)} live, {self.ended.count} ended>"

    @property
    def live_count(self) -> int:
        """How many exchanges are under way."""
        return len(self._live)

    # What exchanges tell.

    def take_totals(self, hour_ms: int, table: TotalsTable) -> None:
        """Take over how many exchanges ended, and how."""
        if self._now() >= self._next_minute:
            self._turn_minutes()
        minute = self._minutes[-1]
        for (owner, _, _), totals in table.items():
            for (state, _), count in totals.ended.items():
                minute[owner, state] = minute.get((owner, state), 0) + count

    def _turn_minutes(self) -> None:
        missed = int((self._now() - self._next_minute) // MINUTE) + 1
        self._next_minute += missed * MINUTE
        self._minutes.extend({} for _ in range(min(missed, MINUTES)))

    # What the console asks.

    def count_live(self, owner: str | None) -> Mapping[str, int]:
        """Count live exchanges by state; without an owner those of all."""
        counts = dict.fromkeys((state.value for state in State if state in LIVE), 0)
        for runner in self._live:
            if owner is None or runner.info.owner == owner:
                # One that has just ended counts no more as live.
                state = runner.exchange.state
                if state in LIVE:
                    counts[state.value] += 1
        return counts

    def count_ended(self, owner: str | None) -> Mapping[str, int]:
        """Count the exchanges that ended in the last hour, by how."""
        self._hand_over()
        if self._now() >= self._next_minute:
            self._turn_minutes()
        counts = dict.fromkeys((state.value for state in State if state not in LIVE), 0)
        for minute in self._minutes:
            for (of, state), count in minute.items():
                if owner is None or of == owner:
                    counts[state.value] += count
        return counts

    def iterate_live(self, owner: str | None) -> Iterator[tuple[RunningExchange, Trail]]:
        """Yield the live exchanges of an owner, or of all."""
        for runner in tuple(self._live):
            trail = runner.trail
            if trail is not None and (owner is None or runner.info.owner == owner):
                yield runner, trail

    def sum_up(self, runner: RunningExchange, trail: Trail) -> FoundExchange:
        """Read how a live exchange goes."""
        self._date(trail)
        return FoundExchange(trail, runner.sum_up(self._now()), runner)

    def list_ended(
        self, owner: str | None, newest: int = MOST_ENDED, name: str = ""
    ) -> Iterator[FoundExchange]:
        """Yield those that ended which an owner may see, the last first; see `TrailRing.read`."""
        for trail in self.ended.read(newest, name):
            ended = trail.ended
            if ended is not None and (owner is None or ended.info.owner == owner):
                yield FoundExchange(trail, ended)

    def _date(self, trail: Trail) -> None:
        """Set when an exchange began, in UTC; once, so that it does not move with the clock."""
        if not trail.begun_at:
            trail.begun_at = self._now_ms() - trail.measure_ms(self._now())

    def list_all(self, owner: str | None, query: ExchangeQuery) -> list[FoundExchange]:
        """Return all that are wanted, those that began last first."""
        live = [self.sum_up(*one) for one in self.iterate_live(owner)]
        # One that ends is among the live until it is kept.
        found = {one.place: one for one in (*live, *self.list_ended(owner))}
        wanted = [one for one in found.values() if query.matches(one.summed)]
        return sorted(wanted, key=lambda one: one.place, reverse=True)

    def find(self, name: str, owner: str | None) -> FoundExchange | None:
        """Find an exchange by its id, or the newest with this request id."""
        newest = None
        for runner, trail in self.iterate_live(owner):
            if name in (runner.info.exchange_id, runner.info.request_id):
                newest = self.sum_up(runner, trail)
                if name == runner.info.exchange_id:
                    return newest
        for found in self.list_ended(owner, name=name):
            if name == found.summed.info.exchange_id:
                return found
            if newest is None and name == found.summed.info.request_id:
                newest = found
        return newest

    # What runs beside the exchanges.

    async def run(self) -> NoReturn:
        """Sample the bytes of live exchanges, for ever."""
        while True:
            await anyio.sleep(SAMPLE_SECONDS)
            await self.sample_all()

    async def sample_all(self) -> None:
        """Note of each live exchange how many bytes came so far."""
        runners, now = tuple(self._live), self._now()
        if len(runners) > MOST_LIVE_ROWS:
            # Heartbeats of so many are shown nowhere.
            runners = tuple(one for one in runners if one.exchange.state is State.RELAYING)
        for place in range(0, len(runners), BATCH):
            for runner in runners[place : place + BATCH]:
                runner.sample(now)
            await anyio.lowlevel.checkpoint()
