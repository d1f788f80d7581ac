"""Any course of setting, cancelling, failing and clock steps, against a model that has no heap."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from gateway.clock import ManualClock, TimerQueue

START = 1000
TURNS = 40
times = st.integers(0, 2 * START)
numbers = st.integers(0, 40)


@dataclass(frozen=True)
class Deed:
    """What an alarm does when it rings: cancel one, set one, fail."""

    cancels: int | None = None
    sets: int | None = None
    fails: bool = False


@dataclass(frozen=True)
class Set:
    at_ms: int
    deed: Deed


@dataclass(frozen=True)
class CancelOne:
    number: int


@dataclass(frozen=True)
class Step:
    to_ms: int


Act = Set | CancelOne | Step
acts = st.one_of(
    st.builds(Set, times, st.builds(Deed, st.none() | numbers, st.none() | times, st.booleans())),
    st.builds(CancelOne, numbers),
    st.builds(Step, times),
)


class Real:
    """The timers themselves, and what rang."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.timers = TimerQueue(self.clock)
        self.numbers: list[int] = []
        self.rung: list[int] = []

    def set(self, at_ms: int, deed: Deed) -> None:
        number = len(self.numbers)
        self.numbers.append(self.timers.call_at(at_ms, lambda: self.ring(number, deed)))

    def ring(self, number: int, deed: Deed) -> None:
        self.rung.append(number)
        if deed.cancels is not None:
            self.cancel(deed.cancels)
        if deed.sets is not None:
            self.set(deed.sets, Deed())
        if deed.fails:
            raise LookupError(number)

    def cancel(self, number: int) -> None:
        if number < len(self.numbers):
            self.timers.cancel(self.numbers[number])


@dataclass
class Model:
    """The same with a list that is sorted whenever something may ring."""

    now_ms: int = START
    known: int = 0
    waiting: dict[int, tuple[int, Deed]] = field(default_factory=dict)
    rung: list[int] = field(default_factory=list)

    def set(self, at_ms: int, deed: Deed) -> None:
        self.waiting[self.known] = at_ms, deed
        self.known += 1

    def cancel(self, number: int) -> None:
        self.waiting.pop(number, None)

    def ring(self) -> None:
        while due := [n for n, (at_ms, _) in self.waiting.items() if at_ms <= self.now_ms]:
            for number in sorted(due, key=lambda n: (self.waiting[n][0], n)):
                if number in self.waiting:
                    self._ring(number)

    def _ring(self, number: int) -> None:
        _, deed = self.waiting.pop(number)
        self.rung.append(number)
        if deed.cancels is not None:
            self.cancel(deed.cancels)
        if deed.sets is not None:
            self.set(deed.sets, Deed())


def perform(act: Act, real: Real, model: Model) -> None:
    match act:
        case Set(at_ms, deed):
            real.set(at_ms, deed)
            model.set(at_ms, deed)
        case CancelOne(number):
            real.cancel(number)
            model.cancel(number)
        case Step(to_ms):
            real.clock.set(to_ms)
            model.now_ms = to_ms


async def play(bursts: list[list[Act]]) -> None:
    real, model = Real(), Model()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(real.timers.run)
        for burst in bursts:
            for act in burst:
                perform(act, real, model)
            for _ in range(TURNS):
                await anyio.lowlevel.checkpoint()
            model.ring()
            assert real.rung == model.rung
            assert len(real.timers) == len(model.waiting)
        tasks.cancel_scope.cancel()
    assert len(set(real.rung)) == len(real.rung)


@given(st.lists(st.lists(acts, max_size=8), max_size=12))
def test_alarms_do_what_a_sorted_list_does(bursts: list[list[Act]]) -> None:
    anyio.run(play, bursts)
