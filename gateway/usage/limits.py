"""Keeps owners within what the operator allows them.

A request is checked before anything of it acts (`check`); each of its turns is counted when it is
about to be asked for (`Allowance.take_turn`), follow-ups and runs of jobs alike; what a turn cost
is settled when its upstream has told it (`settle`). Tokens and money are known only then, so
requests that run at the same time may together go beyond a limit by what they cost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from gateway.clock.protocol import Clock
from gateway.errors import BudgetExceeded, Headers, LimitExceeded, RateLimitExceeded
from gateway.exchange.model import Usage
from gateway.stores.documents import StoreUnavailable
from gateway.stores.shared_rows import OwnerCounts
from gateway.timestamps import iso
from gateway.usage.limits_model import (
    Budget,
    BudgetStatus,
    OwnerBounds,
    PeriodSums,
    SlidingWindow,
    begin_of,
    end_of,
    window_status,
    write_limit_headers,
)

UNLIMITED = OwnerBounds()
CONCURRENT_WAIT_SECONDS = 1.0
# The client's library would try again in vain until the budget begins anew.
NO_RETRY: Headers = ((b"x-should-retry", b"false"),)


class Spent(Protocol):
    """What an owner has spent."""

    @property
    def tokens(self) -> int: ...
    @property
    def cost_micros(self) -> int: ...


def _tell_nobody() -> None:
    """Let it go unheard."""


SumSince = Callable[[str, int], Awaitable[Spent]]
"""Returns what an owner has spent since an instant."""


class OwnerLimiter:
    """The counts of one owner."""

    def __init__(self, owner: str, bounds: OwnerBounds, clock: Clock) -> None:
        self.owner = owner
        self._clock = clock
        self._requests = SlidingWindow(bounds.rpm)
        self._tokens = SlidingWindow(bounds.tpm)
        self._running = 0
        self._spent = PeriodSums()
        self._next_spent: tuple[Budget, PeriodSums] | None = None
        """What was spent of a budget that is in force soon."""
        self.bounds = bounds
        # For other instances that count for the same owner.
        self._counted_requests = self._counted_tokens = 0
        self.told_running = 0
        """How many answers the others believe to run here."""
        self.elsewhere = 0
        """How many answers run at other instances."""
        self.on_freed: Callable[[], None] = _tell_nobody
        """Called when fewer answers run than the others believe."""

    def __repr__(self) -> str:
        return f"<OwnerLimiter {self.owner}: {self._running} running>"

    def replace_bounds(self, bounds: OwnerBounds) -> None:
        """Go by other bounds from now on; what was counted stays counted."""
        if self._next_spent is not None:
            self._spent = self._next_spent[1]
        self.bounds, self._next_spent = bounds, None
        self._requests.limit, self._tokens.limit = bounds.rpm, bounds.tpm

    async def load(self, budget: Budget, sum_since: SumSince) -> None:
        """Find out what was spent of a budget that is in force soon, by `replace_bounds`.

        The periods beside this one count, too: the clock may be wrong and be set right later.
        """
        period, now_ms = budget.period, self._clock.now_ms()
        begin, end = begin_of(period, now_ms), end_of(period, now_ms)
        former = begin_of(period, begin - 1)
        # This period comes last, since turns may end meanwhile, which count in it.
        since = {at: await sum_since(self.owner, at) for at in (former, end, begin)}
        spent = {at: budget.find_spent(one.tokens, one.cost_micros) for at, one in since.items()}
        sums = {former: spent[former] - spent[begin], begin: spent[begin] - spent[end]}
        self._next_spent = budget, PeriodSums({**sums, end: spent[end]})

    def forget_load(self) -> None:
        """Keep to the present bounds after all."""
        self._next_spent = None

    def check(self, dialect: str, resumes: bool = False) -> None:
        """Raise `LimitExceeded` if nothing more may be asked now.

        An answer that resumes after a hold has its place already.
        """
        bounds, now = self.bounds, self._clock.steady_ms()
        if bounds.budget is not None:
            self._check_budget(bounds.budget, dialect)
        if bounds.rpm and (wait := self._requests.wait_ms(now)):
            self._refuse(f"More than {bounds.rpm} requests in a minute", wait, dialect)
        if bounds.tpm and (wait := self._tokens.wait_ms(now)):
            self._refuse(f"More than {bounds.tpm} tokens in a minute", wait, dialect)
        if bounds.concurrent and not resumes and self._count_running() >= bounds.concurrent:
            says = f"{bounds.concurrent} answers at the same time are the limit of your key"
            error = RateLimitExceeded(f"{says}.", retry_after=CONCURRENT_WAIT_SECONDS)
            raise self._with_headers(error, dialect)

    def _count_running(self) -> int:
        return self._running + self.elsewhere

    def _refuse(self, says: str, wait_ms: int, dialect: str) -> None:
        seconds = -(-wait_ms // 1000)
        error = RateLimitExceeded(f"{says}; try again in {seconds} s.", retry_after=seconds)
        raise self._with_headers(error, dialect)

    def find_status(self, budget: Budget) -> BudgetStatus:
        """Return how much of a budget is spent."""
        now_ms = self._clock.now_ms()
        spent = self._spent.find(begin_of(budget.period, now_ms))
        return BudgetStatus(budget, spent, end_of(budget.period, now_ms))

    def _check_budget(self, budget: Budget, dialect: str) -> None:
        now_ms = self._clock.now_ms()
        if self._spent.find(begin_of(budget.period, now_ms)) < budget.amount:
            return
        end = end_of(budget.period, now_ms)
        error = BudgetExceeded(
            f"The budget of {budget} is spent; it begins again at {iso(end)}.",
            retry_after=(end - now_ms) / 1000,
        )
        error.headers, error.begins_ms = NO_RETRY, end
        raise self._with_headers(error, dialect)

    def _with_headers(self, error: LimitExceeded, dialect: str) -> LimitExceeded:
        error.headers += self.headers(dialect)
        return error

    def headers(self, dialect: str) -> Headers:
        """Say what is left of the limits."""
        bounds, now = self.bounds, self._clock.steady_ms()
        requests = window_status(self._requests, now) if bounds.rpm else None
        tokens = window_status(self._tokens, now) if bounds.tpm else None
        return write_limit_headers(requests, tokens, dialect, self._clock.now_ms())

    def count_request(self) -> None:
        """Count a turn."""
        self._counted_requests += 1
        if self.bounds.rpm:
            self._requests.add(self._clock.steady_ms(), 1)

    def settle(self, tokens: int, cost_micros: int) -> None:
        """Count what a turn cost."""
        self._counted_tokens += tokens
        if self.bounds.tpm:
            self._tokens.add(self._clock.steady_ms(), tokens)
        if (budget := self.bounds.budget) is not None:
            self._add_spent(budget, self._spent, tokens, cost_micros)
        if self._next_spent is not None:
            self._add_spent(*self._next_spent, tokens, cost_micros)

    def _add_spent(self, budget: Budget, sums: PeriodSums, tokens: int, cost_micros: int) -> None:
        begin = begin_of(budget.period, self._clock.now_ms())
        sums.add(begin, budget.find_spent(tokens, cost_micros))

    def enter(self) -> None:
        """Count an answer that runs."""
        self._running += 1

    def leave(self) -> None:
        """Count one less: it is held, or over."""
        self._running -= 1
        if self._running < self.told_running and self.bounds.concurrent:
            self.on_freed()

    # Over several instances.

    @property
    def counts(self) -> OwnerCounts:
        """What was counted here since the start, and how many answers run now."""
        return OwnerCounts(self._counted_requests, self._counted_tokens, self._running)

    def add_foreign(self, requests: int, tokens: int) -> None:
        """Count what another instance has counted."""
        now = self._clock.steady_ms()
        if requests > 0:
            self._requests.add(now, requests)
        if tokens > 0:
            self._tokens.add(now, tokens)

    def set_spent(self, budget: Budget, begin: int, spent: Spent) -> None:
        """Correct what was spent of the budget in the period that began then."""
        if self.bounds.budget == budget:
            self._spent.set(begin, budget.find_spent(spent.tokens, spent.cost_micros))


class OwnerAllowance:
    """What one exchange takes of its owner's limits."""

    __slots__ = ("_dialect", "_is_running", "_limiter", "_refusal", "_turn")

    def __init__(self, limiter: OwnerLimiter, dialect: str) -> None:
        self._limiter = limiter
        self._dialect = dialect
        self._is_running = False
        self._turn = 0
        self._refusal: tuple[int, LimitExceeded] | None = None
        """A turn that was refused, and why."""

    def allows_turn(self, number: int) -> bool:
        """Tell whether a turn may be asked for; one that may not is refused by `take_turn`, too."""
        try:
            self._limiter.check(self._dialect, resumes=number > 1)
        except LimitExceeded as error:
            self._refusal = (number, error)
            return False
        return True

    def take_turn(self, number: int) -> None:
        """Count a turn that is about to be asked for, once; raise `LimitExceeded` if it is over."""
        if number <= self._turn:
            # Another route is asked for the same turn.
            return
        if self._refusal is not None and self._refusal[0] == number:
            raise self._refusal[1]
        self._limiter.check(self._dialect, resumes=number > 1)
        self._turn = number
        self._limiter.count_request()
        if not self._is_running:
            self._is_running = True
            self._limiter.enter()

    def pause(self) -> None:
        """Leave the place to others while the answer is held."""
        if self._is_running:
            self._is_running = False
            self._limiter.leave()

    end = pause

    def headers(self) -> Headers:
        """Say what is left of the limits."""
        return self._limiter.headers(self._dialect)


class OwnerLimits:
    """The limits of all owners; those without any cost nothing."""

    def __init__(
        self, bounds: Mapping[str, OwnerBounds], clock: Clock, note: Callable[..., None]
    ) -> None:
        self._clock = clock
        self._note = note
        self.on_freed: Callable[[], None] = _tell_nobody
        """Called when an answer ended that other instances believe to run."""
        self._limiters: dict[str, OwnerLimiter] = {}
        for owner, one in bounds.items():
            if one.is_limited:
                self._add(owner, one)

    def _add(self, owner: str, bounds: OwnerBounds) -> None:
        limiter = OwnerLimiter(owner, bounds, self._clock)
        limiter.on_freed = lambda: self.on_freed()
        self._limiters[owner] = limiter

    @property
    def limiters(self) -> Mapping[str, OwnerLimiter]:
        """The counts of all owners who have limits, or had some."""
        return self._limiters

    def list_budgets(self) -> Mapping[str, Budget]:
        """Return the budgets that owners have."""
        budgets = {owner: one.bounds.budget for owner, one in self._limiters.items()}
        return {owner: budget for owner, budget in budgets.items() if budget is not None}

    async def load(self, sum_since: SumSince) -> None:
        """Find out what was spent of all budgets before the gateway started."""
        for limiter in self._limiters.values():
            if (budget := limiter.bounds.budget) is not None:
                try:
                    await limiter.load(budget, sum_since)
                    limiter.replace_bounds(limiter.bounds)
                except StoreUnavailable as error:
                    # The gateway starts without its store, too; the budget is then as good as new.
                    self._note("budget_not_read", owner=limiter.owner, why=error.message)

    async def replace_bounds(self, bounds: Mapping[str, OwnerBounds], sum_since: SumSince) -> None:
        """Go by other bounds from now on; if `sum_since` raises, change nothing and raise that."""
        for owner, one in bounds.items():
            if one.is_limited and owner not in self._limiters:
                self._add(owner, UNLIMITED)
        try:
            for owner, one in bounds.items():
                limiter = self._limiters.get(owner)
                if limiter is not None and one.budget not in (None, limiter.bounds.budget):
                    await limiter.load(one.budget, sum_since)
        except BaseException:
            for limiter in self._limiters.values():
                limiter.forget_load()
            raise
        # Also of owners that are gone: an answer may still run, and leaves by the same limiter.
        for owner, limiter in self._limiters.items():
            limiter.replace_bounds(bounds.get(owner, UNLIMITED))

    def check(self, owner: str, dialect: str) -> None:
        """Raise `LimitExceeded` if an owner may ask nothing now."""
        if (limiter := self._limiters.get(owner)) is not None:
            limiter.check(dialect)

    def open(self, owner: str, dialect: str) -> OwnerAllowance | None:
        """Return what an exchange takes of its owner's limits; None: there are none."""
        limiter = self._limiters.get(owner)
        return None if limiter is None else OwnerAllowance(limiter, dialect)

    def find_budget(self, owner: str) -> BudgetStatus | None:
        """Return how much of an owner's budget is spent; None: there is no budget."""
        limiter = self._limiters.get(owner)
        budget = None if limiter is None else limiter.bounds.budget
        return None if limiter is None or budget is None else limiter.find_status(budget)

    def settle(self, owner: str, usage: Usage | None, cost_micros: int) -> None:
        """Count what a turn cost, if its upstream told it."""
        limiter = self._limiters.get(owner)
        if limiter is not None and usage is not None:
            limiter.settle(usage.input + usage.output, cost_micros)
