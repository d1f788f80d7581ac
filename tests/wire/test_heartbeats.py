"""Heartbeats: idle lines get them, busy lines do not, and whoever never reads is given up."""

import weakref
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from gateway.wire.heartbeats import BATCH, Heartbeats


class Line:
    """A line whose clock the test owns."""

    def __init__(self, at_once: bool = False) -> None:
        self.at_once = at_once
        self.last = 0.0
        self.blocked_since: float | None = None
        self.beats = 0
        self.given_up = False
        self.stuck = False

    def send_heartbeat_now(self) -> bool:
        if self.at_once:
            self.beats += 1
            self.last = anyio.current_time()
        return self.at_once

    async def send_heartbeat(self) -> None:
        if self.blocked_since is not None:
            return
        if self.stuck:
            await anyio.sleep_forever()
        self.beats += 1
        self.last = anyio.current_time()

    def give_up(self) -> None:
        self.given_up = True


class BusyLine(Line):
    """A line to which something was sent just now, whenever that is asked."""

    @property
    def last(self) -> float:
        return anyio.current_time()

    @last.setter
    def last(self, at: float) -> None:
        pass


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: nothing here touches a socket."""
    return "asyncio"


async def settle(fact: object) -> None:
    with anyio.fail_after(5):
        while not fact():  # type: ignore[operator]  # noqa: ASYNC110
            await anyio.sleep(0.005)


@pytest.mark.parametrize("at_once", [False, True])
async def test_an_idle_line_beats_and_a_busy_one_does_not(at_once: bool) -> None:
    beats = Heartbeats(0.05, 10, anyio.current_time)
    idle, busy = Line(at_once), BusyLine(at_once)
    idle.last = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        beats.add(idle)
        beats.add(idle)
        beats.add(busy)
        assert len(beats) == 2
        await settle(lambda: idle.beats >= 3)
        tasks.cancel_scope.cancel()
    assert busy.beats == 0


async def test_a_removed_line_is_left_alone_and_the_wheel_sleeps() -> None:
    beats = Heartbeats(0.02, 10, anyio.current_time)
    line, later = Line(), Line()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        beats.add(line)
        beats.remove(line)
        await anyio.sleep(0.06)
        beats.add(later)
        await settle(lambda: later.beats > 0)
        tasks.cancel_scope.cancel()
    assert line.beats == 0


async def test_a_line_that_cannot_take_a_beat_does_not_stop_the_others() -> None:
    beats = Heartbeats(0.02, 10, anyio.current_time)
    stuck, fine = Line(), Line()
    stuck.stuck = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        beats.add(stuck)
        beats.add(fine)
        await settle(lambda: fine.beats >= 2)
        tasks.cancel_scope.cancel()


async def test_a_client_that_never_reads_is_given_up() -> None:
    beats = Heartbeats(0.02, 0.1, anyio.current_time)
    line = Line()
    line.blocked_since = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        beats.add(line)
        await settle(lambda: line.given_up)
        tasks.cancel_scope.cancel()
    assert line.beats == 0


def test_a_removed_line_is_not_kept_in_memory() -> None:
    beats = Heartbeats(1000, 10, lambda: 0.0)
    line = Line()
    watched = weakref.ref(line)
    beats.add(line)
    beats.remove(line)
    beats.remove(line)
    del line
    assert watched() is None
    assert len(beats) == 0


@pytest.mark.parametrize("at_once", [False, True])
async def test_many_lines_beat_together_and_let_others_in_between(at_once: bool) -> None:
    beats = Heartbeats(0.2, 10, anyio.current_time)
    lines = [Line(at_once) for _ in range(10 * BATCH)]
    most_at_once = 0

    async def look() -> None:
        nonlocal most_at_once
        before = 0
        while True:
            await anyio.lowlevel.checkpoint()
            now = sum(line.beats for line in lines)
            most_at_once, before = max(most_at_once, now - before), now

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        for line in lines:
            beats.add(line)
        tasks.start_soon(look)
        await settle(lambda: all(line.beats for line in lines))
        tasks.cancel_scope.cancel()
    assert 1 < most_at_once <= BATCH


async def test_a_full_line_among_many_holds_up_nobody_twice() -> None:
    beats = Heartbeats(0.02, 10, anyio.current_time)
    lines = [Line() for _ in range(20)]
    lines[7].stuck = lines[8].stuck = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        for line in lines:
            beats.add(line)
        await settle(lambda: sum(line.beats > 0 for line in lines) == 18)
        lines[7].stuck = False
        await settle(lambda: lines[7].beats > 0)
        tasks.cancel_scope.cancel()
    assert lines[8].beats == 0


@pytest.mark.parametrize("at_once", [False, True])
async def test_whoever_wants_to_hears_of_each_heartbeat_that_was_sent(at_once: bool) -> None:
    beats = Heartbeats(0.05, 10, anyio.current_time)
    observed, other, stuck = Line(at_once), Line(at_once), Line()
    stuck.stuck = True
    told: list[str] = []

    async def tell(name: str) -> None:
        await anyio.lowlevel.checkpoint()
        told.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        beats.add(stuck, partial(tell, "stuck"))
        beats.add(observed, partial(tell, "observed"))
        beats.add(other)
        await settle(lambda: len(told) >= 2 and other.beats >= 2)
        beats.remove(observed)
        tasks.cancel_scope.cancel()
    assert len(told) <= observed.beats
    assert set(told) == {"observed"}


async def test_whoever_is_observed_is_given_up_like_others() -> None:
    beats = Heartbeats(0.05, 0.1, anyio.current_time)
    line = Line()
    line.blocked_since = anyio.current_time()

    async def tell() -> None:
        raise AssertionError("nothing was sent")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        beats.add(line, tell)
        await settle(lambda: line.given_up)
        tasks.cancel_scope.cancel()


async def test_a_line_that_is_there_already_can_be_observed_later() -> None:
    beats = Heartbeats(0.02, 10, anyio.current_time)
    line, told = Line(), anyio.Event()

    async def tell() -> None:
        told.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        beats.add(line)
        beats.add(line, tell)
        with anyio.fail_after(5):
            await told.wait()
        tasks.cancel_scope.cancel()
    assert len(beats) == 1


async def test_an_observer_that_fails_stops_no_heartbeat() -> None:
    beats = Heartbeats(0.02, 10, anyio.current_time)
    observed, other = Line(), Line()

    async def fail() -> None:
        raise ZeroDivisionError

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beats.run)
        beats.add(observed, fail)
        beats.add(other)
        await settle(lambda: observed.beats > 1 and other.beats > 1)
        tasks.cancel_scope.cancel()
