"""A trail: what it costs, and how it is read."""

from __future__ import annotations

import sys
import time
from array import array

import pytest

from gateway.console.trail_view import ExchangeView, show_row, show_trail
from gateway.errors import UpstreamTimeout
from gateway.exchange.events import HoldEnded, ReminderDue, RouteFailed
from gateway.exchange.machine import State
from gateway.exchange.model import RequestSource, Route, Stop, ToolCall, Usage
from gateway.exchange.observer import (
    HeldUntil,
    HoldMoved,
    Spliced,
    StopMessageFired,
    ToolReturned,
    ToolStarted,
    UpstreamClosed,
)
from gateway.exchange.trail import MOST_BEATS, MOST_POINTS, TURN_ENDED, Trail, find_action
from tests.console.words import ROUTE, USAGE, ended_of, plain_trail

OTHER = Route("b", "m")
CALL = ToolCall("call_1", "clock", '{"action": "schedule", "items": [{"task": "drink tea"}]}')


def held_trail() -> Trail:
    """Return the trail of an exchange that failed over, called the clock, and is held."""
    trail = Trail(RequestSource("/v1/chat/completions"), 0.0)
    trail.observe(0.15, RouteFailed(UpstreamTimeout("Too late."), OTHER))
    trail.steps.append((0.15, State.OPENING))
    trail.steps.append((0.4, State.RELAYING))
    trail.steps.append((0.6, TURN_ENDED, Stop.TOOL_CALLS, 300, USAGE, ROUTE))
    trail.steps.append((0.61, State.TOOLING))
    trail.observe(0.61, ToolStarted(CALL))
    trail.observe(0.62, ToolReturned(CALL, "{}", 6))
    trail.steps.append((0.62, State.OPENING))
    trail.observe(0.9, Spliced(2))
    trail.steps.append((0.9, State.RELAYING))
    trail.steps.append((2.4, TURN_ENDED, Stop.STOP, 800, None, ROUTE))
    trail.steps.append((2.41, State.HOLDING))
    trail.observe(2.41, HeldUntil(1_700_000_060_000, 1_700_000_000_000))
    return trail


def finish(trail: Trail) -> ExchangeView:
    """Let a held exchange go on with its reminder and one stop message, and end."""
    trail.observe(62.41, ReminderDue())
    trail.steps.append((62.42, State.OPENING))
    trail.steps.append((62.7, State.RELAYING))
    trail.steps.append((63.0, TURN_ENDED, Stop.STOP, 200, USAGE, ROUTE))
    trail.observe(63.0, StopMessageFired(1, 2))
    trail.steps.append((63.01, State.OPENING))
    trail.observe(63.5, UpstreamClosed(4, was_cut=True))
    trail.steps.append((63.5, State.GONE))
    summed = ended_of(State.GONE, turns=4, tries=5, seconds=63.5, first_seconds=0.4, bytes=1300)
    trail.ended = summed
    return show_trail(trail, summed)


def test_a_plain_exchange_is_read_from_four_steps() -> None:
    trail = plain_trail()
    assert trail.ended is not None
    view = show_trail(trail, trail.ended)
    assert view.states == [(0, "opening"), (200, "relaying"), (900, "closing"), (1000, "done")]
    (turn,) = view.turns
    assert (turn.why, turn.first, turn.ended, turn.stop, turn.closed) == (
        "request",
        200,
        900,
        "stop",
        900,
    )
    (tried,) = turn.tries
    assert (tried.at, tried.route, tried.ended, tried.status) == (0, "a/m", None, 0)
    assert turn.usage is not None
    assert (turn.usage.input, turn.usage.output) == (10, 5)
    assert turn.flow == [(900, 500)]
    assert (view.kind, view.ended, view.first, view.code) == ("client", 1000, 200, "")
    assert show_row(trail, trail.ended).states == view.states


def test_each_turn_says_why_it_was_asked_for() -> None:
    view = finish(held_trail())
    assert [(turn.why, turn.round) for turn in view.turns] == [
        ("request", None),
        ("clock", None),
        ("reminder", None),
        ("stop_message", (1, 2)),
    ]
    assert [[(one.route, one.code) for one in turn.tries] for turn in view.turns[:2]] == [
        [("b/m", "upstream_timeout"), ("a/m", "")],
        [("a/m", "")],
    ]
    assert [(t.name, t.action, t.at, t.ms, t.ok) for t in view.tools] == [
        ("clock", "schedule", 610, 6, True)
    ]
    assert [(h.turn, h.at, h.until, h.ended, h.outcome) for h in view.holds] == [
        (2, 2410, 62410, 62410, "due")
    ]
    assert view.splices == [900]


def test_a_turn_that_was_cut_says_when_its_upstream_closed() -> None:
    last = finish(held_trail()).turns[-1]
    assert (last.first, last.closed, last.was_cut, last.stop) == (None, 63500, True, "broke")


def test_a_live_hold_has_an_end_to_come() -> None:
    trail = held_trail()
    trail.begun_at = 1_000_000
    summed = ended_of(State.HOLDING, turns=2, tries=3, seconds=3.0)
    (hold,) = show_trail(trail, summed).holds
    assert (hold.until, hold.ended, hold.outcome) == (62410, None, None)
    assert show_row(trail, summed).until == 1_062_410


def test_a_hold_that_moved_shows_its_new_end_and_takes_no_more_memory() -> None:
    trail = held_trail()
    trail.begun_at = 1_000_000
    size, version = len(trail.marks or b""), trail.version
    trail.observe(3.41, HoldMoved(1_700_000_091_000, 1_700_000_001_000))
    trail.observe(4.41, HoldMoved(1_700_000_032_000, 1_700_000_002_000))
    summed = ended_of(State.HOLDING, turns=2, tries=3, seconds=5.0)
    (hold,) = show_trail(trail, summed).holds
    assert (hold.at, hold.until, hold.ended) == (2410, 34410, None)
    assert show_row(trail, summed).until == 1_034_410
    assert (len(trail.marks or b""), trail.version) == (size, version + 2)


def test_a_hold_whose_client_leaves_says_so() -> None:
    trail = held_trail()
    trail.steps.append((5.0, State.GONE))
    (hold,) = show_trail(trail, ended_of(State.GONE, turns=2, tries=3, seconds=5.0)).holds
    assert (hold.ended, hold.outcome) == (5000, "client_gone")


def test_a_request_that_no_upstream_was_asked_has_no_try() -> None:
    trail = Trail(RequestSource(), 0.0)
    trail.steps.append((0.0, State.FAILED))
    view = show_trail(trail, ended_of(State.FAILED, tries=0, bytes=0, first_seconds=None))
    assert view.turns[0].tries == []


@pytest.mark.parametrize(
    ("tool", "arguments", "action"),
    [
        ("clock", '{"action": "get"}', "get"),
        ("schedule_task", '{"action": "add", "name": "tea"}', "add"),
        ("clock", '{"action": "drink tea"}', ""),
        ("clock", '{"action": ["get"]}', ""),
        ("clock", "[]", ""),
        ("clock", '{"action"', ""),
        ("clock", "\ud800", ""),
        ("other", '{"action": "get"}', ""),
    ],
)
def test_only_fixed_words_of_a_tool_are_kept(tool: str, arguments: str, action: str) -> None:
    assert find_action(tool, arguments) == action


def test_whatever_an_upstream_reports_is_kept_within_bounds() -> None:
    trail = Trail(RequestSource(), 5.0)
    trail.steps.append((1.0, TURN_ENDED, Stop.STOP, 2**70, Usage(-1, 2**70, 3, 4), ROUTE))
    (turn,) = show_trail(trail, ended_of(bytes=2**70)).turns
    assert turn.bytes == 2**32 - 1
    assert turn.usage is not None
    assert (turn.usage.input, turn.usage.output) == (0, 10**9)


def test_there_are_few_points_of_a_long_turn_and_the_newest_is_among_them() -> None:
    trail = Trail(RequestSource(), 0.0)
    for second in range(1, 1000):
        trail.note_flow(second, 1, second * 10)
        assert trail.flows is not None
        points = trail.flows[0][1:]
        assert len(points) <= 2 * MOST_POINTS
        assert list(points[-2:]) == [second * 1000, second * 10]
        assert list(points[::2]) == sorted(set(points[::2]))


def test_bytes_that_stay_the_same_are_no_point() -> None:
    trail = Trail(RequestSource(), 0.0)
    for second in range(1, 9):
        trail.note_flow(second, 1, 10)
    assert trail.flows == [array("I", (1, 1000, 10))]


def test_the_newest_heartbeats_are_kept() -> None:
    trail = Trail(RequestSource(), 0.0)
    for second in range(1, 101):
        trail.note_beat(second)
    assert list(trail.beats or ()) == [s * 1000 for s in range(101 - MOST_BEATS, 101)]


def test_a_held_exchange_takes_600_bytes() -> None:
    trail = held_trail()
    for beat in range(6):
        trail.note_beat(12.5 + 10 * beat)
    assert trail.steps == []
    # All names are somebody else's.
    parts = (trail.marks, trail.names, trail.beats, trail.message)
    held = (trail, trail.steps, *filter(None, parts), *(trail.flows or ()))
    assert sum(map(sys.getsizeof, held)) <= 600


def test_a_step_takes_2_microseconds() -> None:
    trail, best = Trail(RequestSource(), 0.0), 1.0
    # The best of some: the machine may have other things to do.
    for _ in range(20):
        trail.steps = []
        begun = time.perf_counter()
        for at in range(1000):
            trail.steps.append((at, State.RELAYING))
            trail.observe(at, HoldEnded("limit"))
        best = min(best, (time.perf_counter() - begun) / 2000)
    assert best <= 2e-6


def test_what_was_sent_before_a_turn_is_opened_is_no_heartbeat() -> None:
    trail = Trail(RequestSource("/v1/chat/completions"), 0.0)
    trail.steps.append((0.4, State.RELAYING))
    trail.steps.append((0.6, TURN_ENDED, Stop.TOOL_CALLS, 300, USAGE, ROUTE))
    trail.steps.append((0.61, State.TOOLING))
    trail.steps.append((0.62, State.OPENING))
    for is_packed in (False, True):
        if is_packed:
            trail.pack()
        assert not trail.is_later(0.6, State.OPENING)
        assert trail.is_later(0.9, State.OPENING)
