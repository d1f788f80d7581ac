"""The sampler: whatever happens between its steps, the history has all of it once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clock import ManualClock
from gateway.clock.timer_queue import TimerQueue
from gateway.console.metrics_history import MetricsReport
from gateway.console.metrics_sampler import PROBES, MetricsSampler
from gateway.errors import BadRequest, UpstreamUnreachable
from gateway.exchange.events import RouteFailed
from gateway.exchange.exchange_totals import ExchangeTotals
from gateway.exchange.machine import State
from gateway.exchange.model import (
    ExchangeInfo,
    Route,
    Stop,
    ToolCall,
    TurnEnd,
    Usage,
)
from gateway.exchange.observer import (
    ExchangeEnded,
    Happening,
    ObserverGroup,
    ToolReturned,
    TurnBroke,
    TurnEnded,
)
from gateway.reminders.holds import Holds

BEGUN = 1_770_000_000_000
INFO = ExchangeInfo("id", "id", "ann", None, "m", "openai-chat", stream=True)
ROUTES = (Route("a", "m"), Route("b", "m"))
UNREACHABLE = RouteFailed(UpstreamUnreachable("It is away."), ROUTES[0])
NOT_ITS_FAULT = RouteFailed(BadRequest("This is no request."), ROUTES[0])


def end_exchange(state: State, route: Route, size: int, first: float | None) -> ExchangeEnded:
    status = 200 if first is not None else 502
    return ExchangeEnded(INFO, state, route, 1, 1, status, 1.0, first, size, None)


def end_turn(route: Route, usage: Usage | None) -> TurnEnded:
    return TurnEnded(TurnEnd(Stop.STOP, usage=usage), str, 10, 1, 1, route, 0.1, INFO)


def end_tool(name: str, error: str) -> ToolReturned:
    return ToolReturned(ToolCall("id", name, "{}"), "", 1, error)


USAGES = st.none() | st.builds(Usage, st.integers(0, 99), st.integers(0, 99))
HAPPENINGS = st.one_of(
    st.builds(
        end_exchange,
        st.sampled_from([State.DONE, State.FAILED, State.GONE]),
        st.sampled_from(ROUTES),
        st.integers(0, 1000),
        st.none() | st.floats(0, 100),
    ),
    st.builds(end_turn, st.sampled_from(ROUTES), USAGES),
    st.builds(TurnBroke, st.just(1), st.sampled_from(ROUTES), st.just(INFO)),
    st.builds(end_tool, st.sampled_from(["clock", "other"]), st.sampled_from(["", "No."])),
    st.sampled_from([UNREACHABLE, NOT_ITS_FAULT]),
)
OUTCOMES = st.sampled_from(["due", "limit", "client_gone"])
MINUTES = st.integers(1, 90)
"""Over the end of an hour, too, when all that was added up is handed over."""
STEP = "step"


@given(st.lists(HAPPENINGS | OUTCOMES | MINUTES | st.just(STEP), max_size=60))
def test_all_that_happened_is_in_the_history_once(
    steps: list[Happening | str | int],
) -> None:
    clock = ManualClock(BEGUN)
    totals, holds = ExchangeTotals(clock), Holds(TimerQueue(clock), lambda: 0.0)
    sampler = MetricsSampler(totals, holds, set(), clock, lambda: clock.steady_ms() / 1000)
    observer = ObserverGroup(totals, sampler)
    for step in steps:
        if step == STEP:
            clock.advance(10_000)
            sampler.take_sample()
        elif isinstance(step, str):
            holds.counts.outcomes[step] += 1
        elif isinstance(step, int):
            clock.advance(step * 60_000)
        elif type(step) in observer.wants:
            observer.observe(0.0, step)
    clock.advance(10_000)
    sampler.take_sample()
    check_sums(sampler, steps)


def check_sums(sampler: MetricsSampler, steps: list[Happening | str | int]) -> None:
    counts = [sample.counts for sample in sampler.history.hour]
    ended = [step for step in steps if isinstance(step, ExchangeEnded)]
    turns = [step for step in steps if isinstance(step, TurnEnded)]
    broke = [step for step in steps if isinstance(step, TurnBroke)]
    usages = [turn.turn.usage for turn in turns if turn.turn.usage is not None]
    assert sum(one.exchanges for one in counts) == len(ended)
    assert sum(one.failed for one in counts) == sum(e.state is State.FAILED for e in ended)
    assert sum(one.bytes for one in counts) == sum(e.bytes for e in ended)
    assert sum(one.first.count for one in counts) == sum(e.first_seconds is not None for e in ended)
    assert sum(one.turns for one in counts) == len(turns) + len(broke)
    assert sum(one.reported_turns for one in counts) == len(usages)
    assert sum(one.tokens_in for one in counts) == sum(usage.input for usage in usages)
    assert sum(one.tokens_out for one in counts) == sum(usage.output for usage in usages)
    for outcome in ("due", "limit", "client_gone"):
        assert sum(one.holds[outcome] for one in counts) == steps.count(outcome)
    calls, errors = sampler.history.count_tool_calls()
    tools = [step for step in steps if isinstance(step, ToolReturned)]
    assert sum(calls.values()) == len(tools)
    assert sum(errors.values()) == sum(bool(tool.error) for tool in tools)
    if len(counts) <= 30:
        found = sampler.history.sum_up_upstreams()
        assert sum(one.turns for one in found.values()) == len(turns) + len(broke)
        assert sum(one.refused for one in found.values()) == steps.count(UNREACHABLE)


class Over(Exception):
    """The test has seen enough."""


async def test_the_loop_is_watched_every_second() -> None:
    """Of ten looks, the latest one counts."""
    report, seconds = await watch_loop(late_at=3, late=0.25)
    assert report.series.loop_lag_ms == [250, 0]
    assert seconds == [10.25, 10]


async def watch_loop(late_at: int, late: float) -> tuple[MetricsReport, list[float]]:
    now, slept = 100.0, 0

    async def sleep(seconds: float) -> None:
        nonlocal now, slept
        slept += 1
        if slept > 2 * PROBES:
            raise Over
        now += seconds + (late if slept == late_at else 0.0)

    clock = ManualClock(BEGUN)
    totals, holds = ExchangeTotals(clock), Holds(TimerQueue(clock), lambda: now)
    sampler = MetricsSampler(totals, holds, set(), clock, lambda: now, sleep)
    with pytest.raises(Over):
        await sampler.run()
    return sampler.history.report("hour"), [one.seconds for one in sampler.history.hour]
