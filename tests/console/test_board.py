"""The board: what is kept of exchanges that ended, and how much of it."""

from __future__ import annotations

import tracemalloc

from gateway.clock import ManualClock
from gateway.console.live_board import MOST_ENDED, ExchangeQuery, LiveBoard
from gateway.exchange.exchange_totals import ExchangeTotals
from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo
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
        board.keep(trail)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(names(board)) == MOST_ENDED
    assert size <= 4 * 1024 * 1024


def test_a_name_that_is_too_long_is_cut() -> None:
    board, _ = make_board()
    trail = plain_trail()
    long = ExchangeInfo("req_1", "req_1", "ann", None, "m" * 10_000, "openai-chat")
    trail.ended = ended_of(info=long)
    board.keep(trail)
    (found,) = board.list_all(None, ExchangeQuery())
    assert len(found.summed.info.model) == 200


def test_each_owner_sees_their_own() -> None:
    board, _ = make_board()
    board.keep(plain_trail(1, "ann", 1.0))
    board.keep(plain_trail(2, "bob", 2.0))
    one, two = info_of(1).exchange_id, info_of(2).exchange_id
    assert names(board) == [two, one]
    assert names(board, "ann") == [one]
    assert board.find(two, "ann") is None
    assert board.find(two, "bob") is not None


def test_the_list_can_be_narrowed() -> None:
    board, _ = make_board()
    board.keep(plain_trail(1, "ann"))
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
    board.keep(trail)
    (found,) = board.list_all(None, ExchangeQuery())
    assert found.trail.begun_at == 1_770_000_000_000 - 5000
    board._now_ms = lambda: 5
    (found,) = board.list_all(None, ExchangeQuery())
    assert found.trail.begun_at == 1_770_000_000_000 - 5000
