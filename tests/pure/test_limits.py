"""Limits of owners: budgets as they are written, calendars, sliding windows, headers."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.budgets import read_budget
from gateway.timestamps import iso
from gateway.usage.limits_model import (
    KEPT_PERIODS,
    WINDOW_MS,
    Budget,
    OwnerBounds,
    Period,
    PeriodSums,
    SlidingWindow,
    WindowStatus,
    begin_of,
    end_of,
    window_status,
    write_limit_headers,
)


@pytest.mark.parametrize(
    "text, budget, shown",
    [
        ("20 USD/month", Budget(20_000_000, "USD", "month"), "20 USD/month"),
        ("0.5 usd / day", Budget(500_000, "USD", "day"), "0.5 USD/day"),
        ("1.25k USD/month", Budget(1_250_000_000, "USD", "month"), "1250 USD/month"),
        ("2M tokens/day", Budget(2_000_000, "tokens", "day"), "2000000 tokens/day"),
        ("1.5k tokens/month", Budget(1500, "tokens", "month"), "1500 tokens/month"),
        (" 7tokens/day ", Budget(7, "tokens", "day"), "7 tokens/day"),
    ],
)
def test_budgets(text: str, budget: Budget, shown: str) -> None:
    assert Budget(*read_budget(text)) == budget
    assert str(budget) == shown
    assert Budget(*read_budget(shown)) == budget


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "write it like"),
        ("20", "write it like"),
        ("20 EUR/month", "write it like"),
        ("20 USD/week", "write it like"),
        ("-1 USD/day", "write it like"),
        ("1e3 tokens/day", "write it like"),
        ("٣ tokens/day", "write it like"),
        ("0.5 tokens/day", "whole number"),
        ("0 USD/day", "would refuse every request"),
    ],
)
def test_what_is_no_budget(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_budget(text)


def at(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    "now, day, next_day, month, next_month",
    [
        ((2026, 12, 31, 23, 59, 59), (2026, 12, 31), (2027, 1, 1), (2026, 12, 1), (2027, 1, 1)),
        ((2028, 2, 29), (2028, 2, 29), (2028, 3, 1), (2028, 2, 1), (2028, 3, 1)),
        ((2026, 11, 18, 12), (2026, 11, 18), (2026, 11, 19), (2026, 11, 1), (2026, 12, 1)),
    ],
)
def test_periods_go_by_the_calendar_of_utc(
    now: tuple[int, ...],
    day: tuple[int, ...],
    next_day: tuple[int, ...],
    month: tuple[int, ...],
    next_month: tuple[int, ...],
) -> None:
    assert begin_of("day", at(*now)) == at(*day)
    assert end_of("day", at(*now)) == at(*next_day)
    assert begin_of("month", at(*now)) == at(*month)
    assert end_of("month", at(*now)) == at(*next_month)


@given(st.integers(0, 4_000_000_000_000), st.sampled_from(["day", "month"]))
def test_every_instant_is_in_its_period(now_ms: int, period: str) -> None:
    chosen: Period = "day" if period == "day" else "month"
    begin, end = begin_of(chosen, now_ms), end_of(chosen, now_ms)
    assert begin <= now_ms < end
    assert begin_of(chosen, end - 1) == begin
    assert begin_of(chosen, end) == end


steps = st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 5)), max_size=60)


@given(steps, st.integers(1, 12))
def test_a_window_counts_what_a_plain_sum_counts(moves: list[tuple[int, int]], limit: int) -> None:
    window, now = SlidingWindow(limit), 0
    added: list[tuple[int, int]] = []
    for pause, amount in moves:
        now += pause
        window.add(now, amount)
        added.append((now, amount))

        def counted(when: int) -> int:
            return sum(amount for at, amount in added if at > when - WINDOW_MS)

        assert window.count(now) == counted(now)
        assert window.remaining(now) == max(0, limit - counted(now))
        wait = window.wait_ms(now)
        assert (wait == 0) == (counted(now) < limit)
        if wait:
            assert counted(now + wait) < limit <= counted(now + wait - 1)
        assert counted(now + window.reset_ms(now)) == 0


def test_a_window_in_which_nothing_happened() -> None:
    window = SlidingWindow(3)
    assert window_status(window, 5) == WindowStatus(3, 3, 0)
    assert window.wait_ms(5) == 0


def test_what_headers_say() -> None:
    requests, tokens = WindowStatus(10, 4, 30_500), WindowStatus(100, 0, 59_000)
    openai = write_limit_headers(requests, tokens, "openai-chat", 0)
    assert openai == (
        (b"x-ratelimit-limit-requests", b"10"),
        (b"x-ratelimit-remaining-requests", b"4"),
        (b"x-ratelimit-reset-requests", b"30.5s"),
        (b"x-ratelimit-limit-tokens", b"100"),
        (b"x-ratelimit-remaining-tokens", b"0"),
        (b"x-ratelimit-reset-tokens", b"59s"),
    )
    anthropic = dict(write_limit_headers(requests, None, "anthropic-messages", 1000))
    assert anthropic[b"anthropic-ratelimit-requests-limit"] == b"10"
    assert anthropic[b"anthropic-ratelimit-requests-remaining"] == b"4"
    assert anthropic[b"anthropic-ratelimit-requests-reset"] == iso(31_500).encode()
    assert not any(b"tokens" in name for name in anthropic)
    assert write_limit_headers(None, None, "openai-chat", 0) == ()


def test_what_counts_for_a_budget() -> None:
    assert Budget(9, "tokens", "day").find_spent(tokens=3, cost_micros=7) == 3
    assert Budget(9, "USD", "day").find_spent(tokens=3, cost_micros=7) == 7


def test_sums_of_periods_outlive_a_clock_that_is_set_back() -> None:
    sums = PeriodSums({10: 5})
    sums.add(20, 1)
    sums.add(10, 2)
    assert (sums.find(10), sums.find(20), sums.find(30)) == (7, 1, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1))
def test_no_more_than_the_last_periods_are_kept(spent: list[tuple[int, int]]) -> None:
    sums = PeriodSums()
    for begin, amount in spent:
        before = sums.find(begin)
        sums.add(begin, amount)
        assert sums.find(begin) == before + amount
        assert sum(sums.find(one) > 0 for one in range(10)) <= KEPT_PERIODS


def test_who_is_limited() -> None:
    assert not OwnerBounds().is_limited
    for bounds in (
        OwnerBounds(rpm=1),
        OwnerBounds(tpm=1),
        OwnerBounds(concurrent=1),
        OwnerBounds(budget=Budget(1, "tokens", "day")),
    ):
        assert bounds.is_limited
