"""What bounds an owner: requests and tokens of a minute, answers at once, a budget. All of it pure.

Requests and tokens are counted in a sliding window of 60 seconds. Budgets go by the calendar of
UTC. Times are arguments: `now` is a steady time in milliseconds, `now_ms` the time of day.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec

from gateway.errors import Headers
from gateway.timestamps import iso, moment

WINDOW_MS = 60_000
KEPT_PERIODS = 3
MICROS = 1_000_000
MESSAGES = "anthropic-messages"

Unit = Literal["USD", "tokens"]
Period = Literal["day", "month"]


class Budget(msgspec.Struct, frozen=True):
    """How much may be spent in a day or a month."""

    amount: int
    """Tokens, or millionths of a dollar."""
    unit: Unit
    period: Period

    def find_spent(self, tokens: int, cost_micros: int) -> int:
        """Return what counts for it of tokens and what they cost."""
        return tokens if self.unit == "tokens" else cost_micros

    def __str__(self) -> str:
        if self.unit == "tokens":
            return f"{self.amount} tokens/{self.period}"
        return f"{self.amount / MICROS:.6f}".rstrip("0").rstrip(".") + f" USD/{self.period}"


def begin_of(period: Period, now_ms: int) -> int:
    """Return when the day or month of this instant began, in UTC."""
    now = moment(now_ms // 1000)
    return _ms(datetime(now.year, now.month, now.day if period == "day" else 1, tzinfo=UTC))


def end_of(period: Period, now_ms: int) -> int:
    """Return when the day or month of this instant ends, in UTC."""
    begin = begin_of(period, now_ms)
    if period == "day":
        return begin + 86_400_000
    now = moment(begin // 1000)
    years, month = divmod(now.month, 12)
    return _ms(datetime(now.year + years, month + 1, 1, tzinfo=UTC))


def _ms(at: datetime) -> int:
    return int(at.timestamp()) * 1000


class BudgetStatus(msgspec.Struct, frozen=True):
    """How much of a budget is spent, and when it begins again."""

    budget: Budget
    spent: int
    resets_ms: int


class PeriodSums:
    """What was spent of a budget in each of its last periods, by when they began.

    A clock may be set over the end of a period and back again: then the sum of the first one is
    still there.
    """

    def __init__(self, sums: Mapping[int, int] | None = None) -> None:
        self._sums = dict(sums or {})

    def find(self, begin: int) -> int:
        """Return what was spent in the period that began then."""
        return self._sums.get(begin, 0)

    def add(self, begin: int, amount: int) -> None:
        """Count what was spent in a period."""
        self.set(begin, self.find(begin) + amount)

    def set(self, begin: int, amount: int) -> None:
        """Correct what was spent in a period."""
        self._sums[begin] = amount
        if len(self._sums) > KEPT_PERIODS:
            # The oldest; but not the one that counts now, if the clock was set far back.
            del self._sums[min(self._sums.keys() - {begin})]


class OwnerBounds(msgspec.Struct, frozen=True):
    """What the operator allows an owner; None and 0 are no limit."""

    rpm: int = 0
    tpm: int = 0
    concurrent: int = 0
    budget: Budget | None = None

    @property
    def is_limited(self) -> bool:
        """Whether anything is limited at all."""
        return bool(self.rpm or self.tpm or self.concurrent or self.budget)


class SlidingWindow:
    """What was counted in the last 60 seconds."""

    __slots__ = ("_entries", "_sum", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: deque[tuple[int, int]] = deque()
        self._sum = 0

    def add(self, now: int, amount: int) -> None:
        """Count an amount."""
        self._entries.append((now, amount))
        self._sum += amount

    def count(self, now: int) -> int:
        """Return how much was counted in the last 60 seconds."""
        entries = self._entries
        while entries and entries[0][0] <= now - WINDOW_MS:
            self._sum -= entries.popleft()[1]
        return self._sum

    def remaining(self, now: int) -> int:
        """Return how much is left of the limit."""
        return max(0, self.limit - self.count(now))

    def wait_ms(self, now: int) -> int:
        """Return in how many milliseconds something of the limit is left again; 0: it is now."""
        surplus = self.count(now) - self.limit
        for at, amount in self._entries:
            if surplus < 0:
                break
            surplus -= amount
            if surplus < 0:
                return at + WINDOW_MS - now
        return 0

    def reset_ms(self, now: int) -> int:
        """Return in how many milliseconds all of the limit is left again."""
        self.count(now)
        return self._entries[-1][0] + WINDOW_MS - now if self._entries else 0


class WindowStatus(msgspec.Struct, frozen=True, gc=False):
    """What is left of a limit, as headers say it."""

    limit: int
    remaining: int
    reset_ms: int


def window_status(window: SlidingWindow, now: int) -> WindowStatus:
    """Return what is left of a limit."""
    return WindowStatus(window.limit, window.remaining(now), window.reset_ms(now))


def write_limit_headers(
    requests: WindowStatus | None, tokens: WindowStatus | None, dialect: str, now_ms: int
) -> Headers:
    """Say what is left of the limits, in OpenAI's names; to clients of Messages in theirs too."""
    found: list[tuple[bytes, bytes]] = []
    for kind, status in ((b"requests", requests), (b"tokens", tokens)):
        if status is None:
            continue
        numbers = ((b"limit", status.limit), (b"remaining", status.remaining))
        for name, number in numbers:
            found.append((b"x-ratelimit-%b-%b" % (name, kind), b"%d" % number))
        seconds = f"{status.reset_ms / 1000:.3f}".rstrip("0").rstrip(".")
        found.append((b"x-ratelimit-reset-%b" % kind, f"{seconds}s".encode()))
        if dialect == MESSAGES:
            for name, number in numbers:
                found.append((b"anthropic-ratelimit-%b-%b" % (kind, name), b"%d" % number))
            reset = iso(now_ms + status.reset_ms).encode()
            found.append((b"anthropic-ratelimit-%b-reset" % kind, reset))
    return tuple(found)
