"""Counts what owners use, and stores it.

Turns and exchanges are counted in memory as they end, which neither waits nor writes. Every few
seconds the counts go to the store as a batch, which has a number. While nobody knows whether a
batch was stored, because the store failed or its answer was lost, the batch stays as it is and is
sent again under the same number; what is counted meanwhile is the next batch. So nothing is counted
twice, and only a kill loses anything: the last few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.system import ClockSteps
from gateway.exchange.model import ExchangeInfo, Usage
from gateway.exchange.observer import ExchangeEnded, Happening, TurnBroke, TurnEnded, Wants
from gateway.stores.documents import LATEST, StoreUnavailable
from gateway.stores.rows import UsageRows
from gateway.usage.model import (
    KEPT_MS,
    NO_USAGE,
    ONE_EXCHANGE,
    OTHER,
    PICOS,
    SILENT_TURN,
    Price,
    RowKey,
    Spending,
    UsageBatch,
    UsageCounts,
    UsageQuery,
    UsageTable,
    add_up,
    count_turn,
    find_spending,
    is_countable,
    limit_usage,
    start_of_hour,
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


class UsageMeter:
    """Observes exchanges, adds up what they use, and keeps it in a store."""

    wants: Wants = frozenset({TurnEnded, TurnBroke, ExchangeEnded})

    def __init__(
        self,
        rows: UsageRows,
        clock: Clock,
        prices: Mapping[str, Price],
        note: Callable[..., None],
        writer: str,
    ) -> None:
        """Begin with nothing; no two processes may ever have the same `writer`."""
        self.prices = prices
        """By the public names of models."""
        self.on_turn: OnTurn | None = None
        self._rows = rows
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
        self._rests: dict[tuple[str, str], int] = {}
        """What is left of costs below a micro, by owner and model, so that no sum drifts."""

    # Counting.

    def observe(self, at: float, happening: Happening) -> None:
        """Count a turn or an exchange."""
        if isinstance(happening, TurnEnded):
            self._count_turn(happening.info, happening.route.upstream, happening.turn.usage)
        elif isinstance(happening, TurnBroke):
            self._count_turn(happening.info, happening.route.upstream, None)
        elif isinstance(happening, ExchangeEnded):
            self._add(happening.info, happening.route.upstream, ONE_EXCHANGE)

    def _count_turn(self, info: ExchangeInfo, upstream: str, usage: Usage | None) -> None:
        cost: int | None = None
        if usage is None:
            self._add(info, upstream, SILENT_TURN)
        else:
            usage = limit_usage(usage)
            cost = self._charge(info, usage)
            self._add(info, upstream, count_turn(usage, cost))
        if self.on_turn is not None:
            self.on_turn(info.owner, usage, cost or 0)

    def _charge(self, info: ExchangeInfo, usage: Usage) -> int | None:
        """Return the cost of a turn in whole micros, with what was left over before it."""
        price = self.prices.get(info.model)
        if price is None:
            return None
        whose = (info.owner, info.model)
        picos = price.cost_picos(usage) + self._rests.get(whose, 0)
        micros, self._rests[whose] = divmod(picos, PICOS)
        return micros

    def _add(self, info: ExchangeInfo, upstream: str, counts: UsageCounts) -> None:
        hour_ms, pending = start_of_hour(self._clock.now_ms()), self._pending
        key = (info.owner, hour_ms, info.model, upstream)
        found = pending.get(key)
        if found is None:
            key = self._name_row(key)
            found = pending.get(key, NO_USAGE)
        pending[key] = found + counts

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
                await self._rows.prune(steps.past_ms() - KEPT_MS)
            except StoreUnavailable as error:
                self._note("usage_not_pruned", why=error.message)
            await anyio.sleep(PRUNE_SECONDS)
