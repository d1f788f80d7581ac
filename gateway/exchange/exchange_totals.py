"""What exchanges come to, added up once for all who count: metrics, usage, limits.

This runs on every turn and every exchange. So both only wait in a list at first, and many are added
up at once: one by one, each would find the processor's caches full of other things, which costs
four times as much. Plain numbers are changed in place, by owner, model and route. Every few
seconds, or when somebody asks, whoever counts takes them over under names of its own
(`hand_over`). What is added up belongs to one hour: all of it is handed over before the first of
the next hour comes.

Nothing large is kept: no text, no error, and no name that is much longer than `LONGEST_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from gateway.clock.protocol import Clock
from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, Route, Usage
from gateway.exchange.observer import ExchangeEnded, Happening, TurnBroke, TurnEnded, Wants
from gateway.histogram import Histogram
from gateway.timestamps import HOUR_MS, start_of_hour

# An upstream may report anything. No turn uses as much, and sums of it fit into a database.
MOST_TOKENS = 10**9
# Numbers of so many bits are smaller.
USUAL_BITS = 29
# Longer than any name that is counted by itself.
LONGEST_NAME = 1000
AT_ONCE = 48
# A client may make up names of models; so many are added up before all are handed over.
MOST_KEYS = 1000
FIRST_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
GAP_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 10, 60)
WHOLE_BUCKETS = (0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

WaitingTurn = tuple[ExchangeInfo, Route, Usage | None, int, float]
"""Of a turn: its tokens, how many pauses it had between reads, and their seconds together."""
TotalsKey: TypeAlias = tuple[str, str, Route]
"""The owner, the client's name for the model, and the route."""


class Totals:
    """What exchanges of one owner, model and route came to."""

    __slots__ = (
        "bytes",
        "cached",
        "ended",
        "first_frame",
        "frame_gap",
        "fresh",
        "input",
        "output",
        "reasoning",
        "reported",
        "seconds",
        "turns",
    )

    def __init__(self) -> None:
        self.ended: dict[tuple[State, int], int] = {}
        """Exchanges: by state and status."""
        self.bytes = 0
        """What upstreams sent, of exchanges that ended."""
        self.turns = 0
        self.reported = 0
        """Turns of which the upstream reported tokens."""
        self.input = 0
        self.cached = 0
        self.fresh = 0
        """Input that was not read from a cache; a turn may report more as cached than it had."""
        self.output = 0
        self.reasoning = 0
        self.first_frame = Histogram(FIRST_BUCKETS)
        self.frame_gap = Histogram(GAP_BUCKETS)
        self.seconds = Histogram(WHOLE_BUCKETS)
        """How long exchanges took."""

    @property
    def exchanges(self) -> int:
        """How many exchanges ended."""
        return sum(self.ended.values())

    @property
    def usage(self) -> Usage:
        """All tokens together."""
        return Usage(self.input, self.output, self.cached, self.reasoning)


TotalsTable = Mapping[TotalsKey, Totals]
Taker = Callable[[int, TotalsTable], None]
"""Takes over what was added up in an hour, which begins at this UTC millisecond."""
OnTurn = Callable[[ExchangeInfo, Route, Usage | None], None]


class ExchangeTotals:
    """Adds up turns and exchanges until somebody takes the sums over."""

    wants: Wants = frozenset({ExchangeEnded, TurnEnded, TurnBroke})

    def __init__(self, clock: Clock) -> None:
        self.on_turn: OnTurn | None = None
        """Hears of each turn at once: its tokens, if the upstream reported any."""
        self._takers: list[Taker] = []
        self._now_ms = clock.now_ms
        self._hour_ms = 0
        self._next_hour_ms = 0
        self._waiting: list[ExchangeEnded | WaitingTurn] = []
        self._table: dict[TotalsKey, Totals] = {}

    def add_taker(self, take: Taker) -> None:
        """Hand sums over to this one, too."""
        self._takers.append(take)

    def hand_over(self) -> None:
        """Have all that was added up taken over."""
        self._add_waiting()
        self._give_table()

    def observe(self, at: float, happening: Happening) -> None:
        """Take note of a turn or an exchange, to be added up with many others."""
        if not self._hour_ms <= self._now_ms() < self._next_hour_ms:
            self._begin_hour()
        waiting = self._waiting
        if type(happening) is TurnEnded:
            info, usage, route = happening.info, happening.turn.usage, happening.route
            pauses = happening.reads - happening.first_reads if info.stream else 0
            waiting.append((info, route, usage, pauses, happening.seconds))
            if self.on_turn is not None:
                self.on_turn(info, route, None if usage is None else limit_usage(usage))
        elif type(happening) is ExchangeEnded:
            info = happening.info
            if happening.error is not None:
                # An error holds all that led to it, and does not wait.
                _add_exchange(self._find(info, happening.route), happening)
                return
            waiting.append(happening)
        elif type(happening) is TurnBroke:
            info, usage, route = happening.info, happening.usage, happening.route
            waiting.append((info, route, usage, 0, 0.0))
            if self.on_turn is not None:
                self.on_turn(info, route, None if usage is None else limit_usage(usage))
        else:
            return
        if len(waiting) >= AT_ONCE or len(info.model) > LONGEST_NAME:
            self._add_waiting()

    def _add_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        turn: WaitingTurn | None = None
        for one in waiting:
            if isinstance(one, ExchangeEnded):
                # Mostly it ends right after its turn, whose sums are found already.
                if turn is None or one.info is not turn[0] or one.route is not turn[1]:
                    totals = self._find(one.info, one.route)
                _add_exchange(totals, one)
                turn = None
            else:
                turn = one
                totals = self._find(turn[0], turn[1])
                _add_turn(totals, turn)

    def _find(self, info: ExchangeInfo, route: Route) -> Totals:
        found = self._table.get((info.owner, info.model, route))
        return self._open(info, route) if found is None else found

    def _open(self, info: ExchangeInfo, route: Route) -> Totals:
        """Find the sums of names that may have to be shortened, or begin new ones."""
        if len(self._table) >= MOST_KEYS:
            self._give_table()
        if len(route.model) > LONGEST_NAME:
            route = Route(route.upstream, _shorten(route.model))
        key = (info.owner, _shorten(info.model), route)
        return self._table.setdefault(key, Totals())

    def _give_table(self) -> None:
        table, self._table = self._table, {}
        if table:
            for take in self._takers:
                take(self._hour_ms, table)

    def _begin_hour(self) -> None:
        self.hand_over()
        self._hour_ms = start_of_hour(self._now_ms())
        self._next_hour_ms = self._hour_ms + HOUR_MS


def _add_turn(totals: Totals, turn: WaitingTurn) -> None:
    _, _, usage, pauses, seconds = turn
    totals.turns += 1
    if usage is not None:
        usage = limit_usage(usage)
        totals.reported += 1
        totals.input += usage.input
        totals.output += usage.output
        if usage.cached:
            totals.cached += usage.cached
        if usage.reasoning:
            totals.reasoning += usage.reasoning
        if usage.cached < usage.input:
            totals.fresh += usage.input - usage.cached
    if pauses > 0:
        # Nobody looks at the clock for each frame: all pauses of a turn count as equally long.
        totals.frame_gap.add(seconds / pauses, pauses)


def _add_exchange(totals: Totals, ended: ExchangeEnded) -> None:
    how = (ended.state, ended.status)
    totals.ended[how] = totals.ended.get(how, 0) + 1
    totals.bytes += ended.bytes
    totals.seconds.add(ended.seconds)
    if ended.first_seconds is not None:
        totals.first_frame.add(ended.first_seconds)


def limit_usage(usage: Usage) -> Usage:
    """Return usage whose numbers are not negative and can be stored, whatever was reported."""
    if not (usage.input | usage.output | usage.cached | usage.reasoning) >> USUAL_BITS:
        # No higher bit is set, so no number is negative either. It saves eight comparisons.
        return usage
    if (
        0 <= usage.input <= MOST_TOKENS
        and 0 <= usage.output <= MOST_TOKENS
        and 0 <= usage.cached <= MOST_TOKENS
        and 0 <= usage.reasoning <= MOST_TOKENS
    ):
        return usage
    numbers = (usage.input, usage.output, usage.cached, usage.reasoning)
    return Usage(*[min(max(number, 0), MOST_TOKENS) for number in numbers])


def _shorten(name: str) -> str:
    """Cut a name that is too long to be counted by itself; cut, it still is."""
    # Also a copy: who made the name may have put it into something large.
    return str(name[: LONGEST_NAME + 1])
