"""Limits over several instances: each counts for itself, and soon learns what the others counted.

Every few seconds an instance stores what it counted of each owner, and reads what the others did.
Their requests and tokens count from then on, for a minute; so do their answers under way. What was
spent of budgets is read from the stored usage. While the store is away, each goes by its own
counts.

An answer that ends is told at once if the others believe that it runs: a client that sends one
request after the other is not to be refused because another instance answered the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn

import anyio

from gateway.clock.protocol import Clock
from gateway.stores.documents import LATEST, Documents, StoreUnavailable
from gateway.stores.hints import LIMITS
from gateway.stores.shared_rows import CountsTable, LimitCountRows, OwnerCounts
from gateway.timestamps import HOUR_MS, start_of_hour
from gateway.usage.limits import OwnerLimits
from gateway.usage.limits_model import Period, begin_of, end_of
from gateway.usage.model import NO_USAGE, UsageCounts, UsageQuery, UsageTable, find_spending

RECONCILE_SECONDS = 4.5
# However many answers end, others are not told more often.
PAUSE_SECONDS = 0.1
ALL_GROUPS = 1_000_000
NOTHING = OwnerCounts()

ReadUsage = Callable[[UsageQuery], Awaitable[UsageTable]]


class SharedLimits:
    """Lets the limits of this instance know what other instances counted."""

    def __init__(
        self,
        limits: OwnerLimits,
        read_usage: ReadUsage,
        counts: LimitCountRows,
        store: Documents,
        clock: Clock,
        note: Callable[..., None],
    ) -> None:
        self._limits = limits
        self._budgets = SharedBudgets(limits, read_usage, clock)
        self._counts = counts
        self._instance = store.instance
        self._hints = store.hints
        self._note = note
        self._wakeup = anyio.Event()
        self._holder = ""
        """Under which id this instance told what it counted."""
        self._told: dict[str, OwnerCounts] = {}
        """What it told under that id."""
        self._bases: dict[str, OwnerCounts] = {}
        """What it had told before it got that id."""
        self._seen: CountsTable | None = None
        """What the others told; None: nothing was read yet."""
        self._is_failing = self._tells_all = False

    def __repr__(self) -> str:
        return f"<SharedLimits of {len(self._limits.limiters)} owners>"

    async def run(self) -> NoReturn:
        """Reconcile every few seconds, and soon after an answer ended, forever."""
        self._limits.on_freed = self._rouse
        unwatch = self._hints.watch_all(LIMITS, self._rouse)
        try:
            while True:
                await self.reconcile()
                await anyio.sleep(PAUSE_SECONDS)
                with anyio.move_on_after(RECONCILE_SECONDS) as scope:
                    await self._wakeup.wait()
                self._wakeup = anyio.Event()
                if scope.cancelled_caught:
                    await self.reconcile_budgets()
        finally:
            unwatch()

    def _rouse(self) -> None:
        self._wakeup.set()

    async def reconcile_budgets(self) -> None:
        """Learn what all instances spent."""
        try:
            await self._budgets.reconcile()
        except StoreUnavailable as error:
            self._fail(error)

    async def reconcile(self) -> None:
        """Tell what was counted here, and learn what was counted elsewhere."""
        if not self._limits.limiters:
            return
        counts = self._count()
        try:
            found = await self._counts.exchange(self._holder, counts)
        except StoreUnavailable as error:
            self._fail(error)
            return
        self._is_failing = self._tells_all = False
        for owner, told in counts.items():
            if told.running < self._told.get(owner, NOTHING).running:
                self._hints.tell(LIMITS, (owner, ""))
            self._limits.limiters[owner].told_running = told.running
        self._told |= counts
        self._take(found)

    def _count(self) -> Mapping[str, OwnerCounts]:
        """Return what was counted here and not told yet."""
        if self._holder != self._instance.id:
            # It was buried: under the new id only what follows is told.
            for owner, told in self._told.items():
                base = self._bases.get(owner, NOTHING)
                self._bases[owner] = OwnerCounts(
                    base.requests + told.requests, base.tokens + told.tokens
                )
            self._told, self._holder = {}, self._instance.id
        counts: dict[str, OwnerCounts] = {}
        for owner, limiter in self._limits.limiters.items():
            base, counted = self._bases.get(owner, NOTHING), limiter.counts
            one = OwnerCounts(
                counted.requests - base.requests, counted.tokens - base.tokens, counted.running
            )
            if self._tells_all or one != self._told.get(owner, NOTHING):
                counts[owner] = one
        return counts

    def _take(self, found: CountsTable) -> None:
        """Count what the others did since the last time."""
        seen, elsewhere = self._seen, Counter[str]()
        for (holder, owner), counts in found.items():
            limiter = self._limits.limiters.get(owner)
            elsewhere[owner] += counts.running
            # When the first ones were counted is not known.
            if limiter is not None and seen is not None:
                before = seen.get((holder, owner), NOTHING)
                limiter.add_foreign(
                    counts.requests - before.requests, counts.tokens - before.tokens
                )
        for owner, limiter in self._limits.limiters.items():
            limiter.elsewhere = elsewhere[owner]
        # Counts that a crash of the server took away are told again: then only what is new counts.
        gone = self._instance.may_be_buried
        kept = {key: one for key, one in (seen or {}).items() if not gone(key[0])}
        self._seen = {**kept, **found}

    def _fail(self, error: StoreUnavailable) -> None:
        for limiter in self._limits.limiters.values():
            limiter.elsewhere = 0
        # What was told may be lost.
        self._tells_all = True
        if not self._is_failing:
            self._is_failing = True
            self._note("limits_not_shared", why=error.message)


class SharedBudgets:
    """Reads what all instances spent of budgets.

    The rows of the last two hours are read each time, those before them once an hour.
    """

    def __init__(self, limits: OwnerLimits, read_usage: ReadUsage, clock: Clock) -> None:
        self._limits = limits
        self._read_usage = read_usage
        self._clock = clock
        self._recent_ms = 0
        """When the hours began that are read each time."""
        self._before: dict[Period, Mapping[str, UsageCounts]] = {}
        """What owners used before them, in periods that go on."""

    def __repr__(self) -> str:
        return f"<SharedBudgets of {len(self._limits.limiters)} owners>"

    async def reconcile(self) -> None:
        """Set what was spent of all budgets; raise `StoreUnavailable`."""
        budgets = self._limits.list_budgets()
        if not budgets:
            return
        now_ms = self._clock.now_ms()
        recent_ms = start_of_hour(now_ms) - HOUR_MS
        periods = {one.period for one in budgets.values()}
        if recent_ms != self._recent_ms or periods - self._before.keys():
            self._before = {
                one: await self._sum_up(begin_of(one, now_ms), recent_ms) for one in periods
            }
            self._recent_ms = recent_ms
        query = UsageQuery(recent_ms, LATEST, None, ("owner", "hour"), ALL_GROUPS)
        recent = await self._read_usage(query)
        # From here on nothing is waited for: what is counted meanwhile would be lost.
        spans = {one: (begin_of(one, now_ms), end_of(one, now_ms)) for one in periods}
        spent = {
            owner: self._before[budget.period].get(owner, NO_USAGE)
            for owner, budget in budgets.items()
        }
        for (owner, hour_ms, _, _), counts in recent.items():
            if (budget := budgets.get(owner)) is not None:
                begin, end = spans[budget.period]
                if begin <= hour_ms < end:
                    spent[owner] += counts
        for owner, budget in budgets.items():
            begin = spans[budget.period][0]
            self._limits.limiters[owner].set_spent(budget, begin, find_spending(spent[owner]))

    async def _sum_up(self, from_ms: int, until_ms: int) -> Mapping[str, UsageCounts]:
        """Return what owners used in a span of hours."""
        if from_ms >= until_ms:
            return {}
        query = UsageQuery(from_ms, until_ms, None, ("owner",), ALL_GROUPS)
        return {key[0]: counts for key, counts in (await self._read_usage(query)).items()}
