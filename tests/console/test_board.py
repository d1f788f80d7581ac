"""The board: what is kept of exchanges that ended, and how much of it."""

from __future__ import annotations

import tracemalloc

from gateway.clock import ManualClock
from gateway.console.live_board import ExchangeQuery, LiveBoard
from gateway.console.trail_ring import MOST_ENDED, pack_trails, unpack_trails
from gateway.errors import UpstreamTimeout
from gateway.exchange.events import HoldEnded, ReminderDue, RouteFailed
from gateway.exchange.exchange_totals import ExchangeTotals
from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, RequestSource, Route, Stop, ToolCall, Usage
from gateway.exchange.observer import (
    Happening,
    Spliced,
    StopMessageFired,
    ToolReturned,
    ToolStarted,
    UpstreamClosed,
)
from gateway.exchange.trail import TURN_ENDED, Trail
from tests.console.test_trail import held_trail
from tests.console.words import ended_of, info_of, plain_trail


class Times:
    """A steady time that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def make_board(now: Times | None = None) -> tuple[LiveBoard, ExchangeTotals]:
    clock = ManualClock(1_770_000_000_000)
    totals = ExchangeTotals(clock)
    return LiveBoard(set(), totals, now or Times(), clock.now_ms), totals


def names(board: LiveBoard, owner: str | None = None, **query: str) -> list[str]:
    states = frozenset(filter(None, [query.pop("state", "")]))
    found = board.list_all(owner, ExchangeQuery(states, **query))
    return [one.summed.info.exchange_id for one in found]


def test_the_newest_2000_are_kept_in_4_megabytes() -> None:
    tracemalloc.start()
    board, _ = make_board()
    for number in range(MOST_ENDED + 500):
        trail = plain_trail(number)
        if number % 2:
            trail = held_trail()
            for second in range(200):
                trail.note_flow(3.0 + second, 2, second)
                trail.note_beat(3.0 + second)
            error = ended_of(State.FAILED, info=info_of(number, session=f"session {number}"))
            trail.message = f"It broke. {number}" + "x" * 300
            trail.ended = error
        board.ended.keep(trail)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(names(board)) == MOST_ENDED
    assert size <= 4 * 1024 * 1024


def test_a_name_that_is_too_long_is_cut() -> None:
    board, _ = make_board()
    trail = plain_trail()
    long = ExchangeInfo("req_1", "req_1", "ann", None, "m" * 10_000, "openai-chat")
    trail.ended = ended_of(info=long)
    board.ended.keep(trail)
    (found,) = board.list_all(None, ExchangeQuery())
    assert len(found.summed.info.model) == 200


def test_each_owner_sees_their_own() -> None:
    board, _ = make_board()
    board.ended.keep(plain_trail(1, "ann", 1.0))
    board.ended.keep(plain_trail(2, "bob", 2.0))
    one, two = info_of(1).exchange_id, info_of(2).exchange_id
    assert names(board) == [two, one]
    assert names(board, "ann") == [one]
    assert board.find(two, "ann") is None
    assert board.find(two, "bob") is not None


def test_the_list_can_be_narrowed() -> None:
    board, _ = make_board()
    board.ended.keep(plain_trail(1, "ann"))
    assert names(board, state="done") == names(board, model="m") == names(board)
    assert names(board, upstream="a") == names(board, text="REQ_") == names(board, owner="ann")
    for query in ({"state": "gone"}, {"model": "x"}, {"upstream": "b"}, {"text": "zzz"}):
        assert names(board, None, **query) == []


def test_those_of_the_last_hour_are_counted_by_owner_and_state() -> None:
    times = Times()
    board, totals = make_board(times)
    for owner, state in (("ann", State.DONE), ("ann", State.DONE), ("bob", State.FAILED)):
        totals.observe(0.0, ended_of(state, info=info_of(1, owner)))
    assert board.count_ended(None) == {"done": 2, "gone": 0, "failed": 1}
    times.seconds += 1800
    totals.observe(0.0, ended_of(State.GONE))
    assert board.count_ended("ann") == {"done": 2, "gone": 1, "failed": 0}
    times.seconds += 1801
    assert board.count_ended("ann") == {"done": 0, "gone": 1, "failed": 0}
    times.seconds += 100_000
    assert board.count_ended(None) == {"done": 0, "gone": 0, "failed": 0}


def test_when_it_began_does_not_move_with_the_clock() -> None:
    board, _ = make_board()
    trail = plain_trail(1, "ann", 95.0)
    board.ended.keep(trail)
    (found,) = board.list_all(None, ExchangeQuery())
    assert found.trail.begun_at == 1_770_000_000_000 - 5000
    board._now_ms = lambda: 5
    (found,) = board.list_all(None, ExchangeQuery())
    assert found.trail.begun_at == 1_770_000_000_000 - 5000


def test_a_trail_is_read_as_it_was_kept() -> None:
    for trail in (plain_trail(), held_trail(), failed_trail()):
        for second in range(3):
            trail.note_flow(3.0 + second, 1, second)
        trail.ended = trail.ended or ended_of(State.GONE)
        trail.begun_at = 5
        assert unpack_trails(pack_trails([trail], 0)) == [trail]


def failed_trail() -> Trail:
    """Return a trail of every kind of step, none of them made into marks yet."""
    trail, call = Trail(RequestSource("/v1/messages"), 0.5), ToolCall("c", "clock", "{}")
    happenings: tuple[Happening, ...] = (
        RouteFailed(UpstreamTimeout("Too late."), Route("a", "m")),
        RouteFailed(UpstreamTimeout("Too late."), None),
        ToolStarted(call),
        ToolReturned(call, "", 5),
        HoldEnded("limit"),
        ReminderDue(),
        Spliced(2),
        StopMessageFired(1, 2),
        UpstreamClosed(1, was_cut=True),
    )
    for at, happening in enumerate(happenings):
        trail.observe(at, happening)
    for usage in (None, Usage(1, 2, 3, 4)):
        trail.steps.append((9.0, TURN_ENDED, Stop.LENGTH, 300, usage, Route("a", "m")))
    trail.steps.extend((10.0, state) for state in State)
    return trail


def test_no_number_and_no_name_is_too_odd_to_be_kept() -> None:
    board, _ = make_board()
    odd = Usage(2**70, -1)
    trail = plain_trail(1)
    trail.steps.append((9.0, TURN_ENDED, Stop.STOP, 5, odd, Route("a", "\ud800" + "m" * 500)))
    trail.ended = ended_of(info=info_of(1), usage=odd)
    board.ended.keep(trail)
    board.ended.keep(plain_trail(2))
    two, one = board.list_all(None, ExchangeQuery())
    assert one.summed.usage == Usage(10**9, 0)
    assert one.show().turns[-1].tries[0].route.startswith("a/?mmm")
    assert two.summed.info == info_of(2)


def test_the_oldest_go_if_all_take_too_much() -> None:
    board, _ = make_board()
    for number in range(100):
        trail = plain_trail(number)
        trail.message = "x" * 100_000
        board.ended.keep(trail)
    kept = [one.summed.info for one in board.list_ended(None)]
    assert kept == [info_of(number) for number in range(99, 99 - len(kept), -1)]
    # A batch of 32, and the newest four.
    assert len(kept) == 36
