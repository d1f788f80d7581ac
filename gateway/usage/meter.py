"""Counts what owners use, and stores it.

Turns and exchanges are added up in memory as they end (`exchange/exchange_totals.py`), which
neither waits nor writes. Every few seconds the counts go to the store as a batch, which has a
number. While nobody knows whether a batch was stored, because the store failed or its answer was
lost, the batch stays as it is and is sent again under the same number; what is counted meanwhile is
the next batch. So nothing is counted twice, and only a kill loses anything: the last few seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.system import ClockSteps
from gateway.exchange.exchange_totals import ExchangeTotals, Totals, TotalsTable
from gateway.exchange.model import ExchangeInfo, Route, Usage
from gateway.stores.chores import Chores, LoneChores
from gateway.stores.documents import LATEST, StoreUnavailable
from gateway.stores.rows import UsageRows
from gateway.timestamps import start_of_hour
from gateway.usage.model import (
    KEPT_MS,
    NO_USAGE,
    OTHER,
    PICOS,
    PriceList,
    RowKey,
    Spending,
    UsageBatch,
    UsageCounts,
    UsageQuery,
    UsageTable,
    add_up,
    find_spending,
    is_countable,
)

# With the time that the write itself takes, never more than 5 s are lost.
FLUSH_SECONDS = 4.5
CLOSING_SECONDS = 2.0
PRUNE_SECONDS = 3600.0
# A client may ask an upstream for any name. Beyond so many pairs of a model and an upstream, those
# of an owner in an hour are one row for each upstream.
MOST_PAIRS = 200

OnTurn = Callable[[str, Usage | None, int], None]
"""Hears of each turn: the owner, its tokens if the upstream reported any, its cost in micros."""


Rests = dict[tuple[str, str], int]
"""What is left of costs below a micro, by owner and model, so that no sum drifts."""


class UsageMeter:
    """Takes over what exchanges used, and keeps it in a store."""

    def __init__(
        self,
        rows: UsageRows,
        totals: ExchangeTotals,
        clock: Clock,
        prices: PriceList,
        note: Callable[..., None],
        writer: str,
    ) -> None:
        """Begin with nothing; no two processes may ever have the same `writer`."""
        self._prices = prices
        self.chores: Chores = LoneChores()
        """Says whether this instance is to delete old rows."""
        self._on_turn: OnTurn | None = None
        self._rows = rows
        self._totals = totals
        totals.add_taker(self._take)
        self._clock = clock
        self._note = note
        self._writer = writer
        self._pending: dict[RowKey, UsageCounts] = {}
        self._batch: UsageBatch | None = None
        """What was sent and may be stored or not."""
        self._batches = 0
        # What is counted is in one place only: pending, in the batch, or stored. Who moves it from
        # one to the next, or looks at all of them, has the lock.
        self._lock = anyio.Lock()
        self._is_failing = False
        self._pairs: dict[str, set[tuple[str, str]]] = {}
        self._hour_ms = 0
        """The hour of these pairs."""
        self._rests: Rests = {}
        self._told_rests: Rests = {}
        """The same for what is told of each turn."""

    # Counting.

    @property
    def on_turn(self) -> OnTurn | None:
        """Who hears of each turn."""
        return self._on_turn

    @on_turn.setter
    def on_turn(self, on_turn: OnTurn | None) -> None:
        self._on_turn = on_turn
        self._totals.on_turn = None if on_turn is None else self._tell_turn

    def set_prices(self, prices: PriceList) -> None:
        """Charge these from now on; what was used before costs what it cost then."""
        self._totals.hand_over()
        self._prices = prices

    def _tell_turn(self, info: ExchangeInfo, route: Route, usage: Usage | None) -> None:
        """Tell what a turn cost: in whole micros, with what was left over before it."""
        price, cost = self._prices.find(info.model, route), 0
        if price is not None and usage is not None:
            cost = _charge(price.cost_picos(usage), (info.owner, info.model), self._told_rests)
        if self._on_turn is not None:
            self._on_turn(info.owner, usage, cost)

    def _take(self, hour_ms: int, table: TotalsTable) -> None:
        """Take over what was added up in an hour."""
        for (owner, model, route), totals in table.items():
            key = self._name_row((owner, hour_ms, model, route.upstream))
            counts = UsageCounts(
                exchanges=totals.exchanges,
                turns=totals.turns,
                reported_turns=totals.reported,
                input=totals.input,
                cached=totals.cached,
                output=totals.output,
                reasoning=totals.reasoning,
                cost_micros=self._find_cost(owner, model, route, totals),
            )
            self._pending[key] = self._pending.get(key, NO_USAGE) + counts

    def _find_cost(self, owner: str, model: str, route: Route, totals: Totals) -> int | None:
        """Return what turns cost together, in whole micros; None: no price, or nothing reported."""
        price = self._prices.find(model, route)
        if price is None or not totals.reported:
            return None
        # As if all of it were one turn, whose input is what was fresh and what was cached.
        whole = Usage(totals.fresh + totals.cached, totals.output, totals.cached)
        return _charge(price.cost_picos(whole), (owner, model), self._rests)

    def _name_row(self, key: RowKey) -> RowKey:
        """Return the row to count in: that of other models, if an owner has too many."""
        owner, hour_ms, model, upstream = key
        if hour_ms != self._hour_ms:
            self._hour_ms = hour_ms
            self._pairs.clear()
        pairs, pair = self._pairs.setdefault(owner, set()), (model, upstream)
        if pair not in pairs:
            if len(pairs) >= MOST_PAIRS or not is_countable(model):
                return owner, hour_ms, OTHER, upstream
            pairs.add(pair)
        return key

    # Reading.

    async def read(self, query: UsageQuery) -> UsageTable:
        """Return what was used, stored or not yet; raise `StoreUnavailable`."""
        async with self._lock:
            await self._settle_batch()
            stored = await self._rows.sum_up(query)
            waiting = {} if self._batch is None else self._batch.rows
            # From here on nothing is waited for, so that nothing is counted meanwhile.
            self._totals.hand_over()
            recent = (*waiting.items(), *self._pending.items())
            asked = [(key, counts) for key, counts in recent if query.covers(key)]
            return add_up((*stored.items(), *asked), query.group_by)

    async def sum_since(self, owner: str, since_ms: int) -> Spending:
        """Return what an owner spent since an hour began; raise `StoreUnavailable`."""
        query = UsageQuery(start_of_hour(since_ms), LATEST, owner)
        return find_spending(next(iter((await self.read(query)).values()), NO_USAGE))

    async def _settle_batch(self) -> None:
        """Find out whether a batch was stored though its answer was lost."""
        batch = self._batch
        if batch is not None and await self._rows.last_batch(self._writer) >= batch.number:
            self._batch = None

    # Storing.

    async def run(self) -> None:
        """Store what is counted, and delete what is old, forever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._flush_often)
            tasks.start_soon(self._prune_often)

    async def flush(self) -> None:
        """Store what was counted; what cannot be stored now is kept for the next time."""
        async with self._lock:
            self._totals.hand_over()
            try:
                while self._batch is not None or self._pending:
                    await self._send_batch()
                self._is_failing = False
            except StoreUnavailable as error:
                # Once for each trouble, not every few seconds.
                if not self._is_failing:
                    self._is_failing = True
                    self._note("usage_not_stored", why=error.message)

    async def aclose(self) -> None:
        """Store the rest, unless the store takes too long."""
        with anyio.move_on_after(CLOSING_SECONDS, shield=True) as scope:
            await self.flush()
        if scope.cancelled_caught:
            self._note("usage_not_stored", why="The store does not answer.")

    async def _send_batch(self) -> None:
        if self._batch is None:
            self._batches += 1
            self._batch = UsageBatch(self._writer, self._batches, self._pending)
            self._pending = {}
        await self._rows.add(self._batch)
        self._batch = None

    async def _flush_often(self) -> NoReturn:
        while True:
            await anyio.sleep(FLUSH_SECONDS)
            await self.flush()

    async def _prune_often(self) -> NoReturn:
        # A clock that is far ahead for a while must not delete anything.
        steps = ClockSteps(self._clock, int(PRUNE_SECONDS * 1000))
        while True:
            try:
                before_ms = steps.past_ms() - KEPT_MS
                if await self.chores.take("usage", int(PRUNE_SECONDS * 1000)):
                    await self._rows.prune(before_ms)
            except StoreUnavailable as error:
                self._note("usage_not_pruned", why=error.message)
            await anyio.sleep(PRUNE_SECONDS)


def _charge(picos: int, whose: tuple[str, str], rests: Rests) -> int:
    """Return a cost in whole micros, with what was left over before; keep what is left over now."""
    micros, rests[whose] = divmod(picos + rests.get(whose, 0), PICOS)
    return micros
