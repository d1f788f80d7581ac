"""The trail of an exchange: when it moved, which routes failed, its turns, tools and holds.

Every exchange has one, so it costs little. The runner stamps each move and the end of each turn;
the trail observes only what happens in few exchanges. What follows from that is not noted again:
a route is tried when the exchange opens a turn or when another route has failed, the first frame
of a turn is in when the exchange relays, and a turn that ends well gives its connection back.
Nothing is noted for each frame: a sampler reads how many bytes came so far.

In a long wait, and for whoever reads it, a trail is packed into marks: whole numbers in one
array, and a list of the names in them. `gateway/console/trail_view.py` reads them.

Texts of messages, tasks and arguments are not in it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from gateway.errors import HoldgateError
from gateway.exchange.events import HoldEnded, ReminderDue, RouteFailed
from gateway.exchange.exchange_totals import limit_usage
from gateway.exchange.machine import State
from gateway.exchange.model import RequestSource, Route, Stop, Usage
from gateway.exchange.observer import (
    ExchangeEnded,
    Happening,
    HeldUntil,
    HoldMoved,
    Spliced,
    StopMessageFired,
    ToolReturned,
    ToolStarted,
    UpstreamClosed,
    Wants,
)
from gateway.jobs.tool_calls import ACTIONS as JOB_ACTIONS
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.reminders.clock_calls import ACTIONS as CLOCK_ACTIONS
from gateway.reminders.clock_calls import NAME as CLOCK

if TYPE_CHECKING:
    Numbers = array[int]
else:
    # Python 3.11 does not know its element type when fields are read to decode a trail.
    Numbers = array

# Each mark is its millisecond, what it is, and a fixed number of values. First the states.
STATES = tuple(State)
MOVES = {state: number for number, state in enumerate(STATES)}
ROUTE_FAILED, TURN_ENDED, UPSTREAM_CLOSED, TOOL_STARTED, TOOL_RETURNED = range(16, 21)
HELD, HOLD_ENDED, SPLICED, STOP_MESSAGE = range(21, 25)
SIZES = {
    **dict.fromkeys(range(len(STATES)), 2),
    ROUTE_FAILED: 5,
    TURN_ENDED: 10,
    UPSTREAM_CLOSED: 3,
    TOOL_STARTED: 4,
    TOOL_RETURNED: 4,
    HELD: 3,
    HOLD_ENDED: 3,
    SPLICED: 2,
    STOP_MESSAGE: 4,
}
STOPS = tuple(Stop)
LARGEST = 2**32 - 1
NO_TOKENS = (0, 0, 0, 0, 0)
StepValue = int | str | Route | Usage | None
TrailStep = tuple[Any, ...]
"""When, by the clock of the exchange; a state or another kind of mark; its values."""
MOST_POINTS = 64
MOST_BEATS = 64
LONGEST_NAME = 200
LONGEST_MESSAGE = 400
DUE, RESULT = "due", "result"
# The fixed words of the tools; what else a model wrote as an action is not kept.
TOOL_ACTIONS: Mapping[str, frozenset[str]] = {
    CLOCK: frozenset(CLOCK_ACTIONS),
    SCHEDULE_TASK: frozenset(JOB_ACTIONS),
}


class Trail(msgspec.Struct, array_like=True, gc=False):
    """What happened in one exchange so far, and when."""

    source: RequestSource
    begun: float
    begun_at: int = 0
    """The same in UTC milliseconds; 0 until somebody looks."""
    steps: list[TrailStep] = []
    """What was noted since marks were made of all that was."""
    marks: bytes | None = None
    names: tuple[str | Route, ...] = ()
    """The names in marks; a mark has the number of one."""
    noted: int = 0
    """How many steps marks were made of, and how many moments are in flows and beats."""
    flows: list[Numbers] | None = None
    """Of turns that lasted: the number of the turn, then moments and bytes so far."""
    beats: Numbers | None = None
    ended: ExchangeEnded | None = None
    """How it went, without the error: that may hold all that led to it."""
    code: str = ""
    message: str = ""

    wants: ClassVar[Wants]

    @property
    def version(self) -> int:
        """A number that grows with all that is noted."""
        return self.noted + len(self.steps) + (self.ended is not None)

    def measure_ms(self, at: float) -> int:
        """Return how many milliseconds after its begin that was."""
        return min(max(int((at - self.begun) * 1000), 0), LARGEST)

    def observe(self, at: float, happening: Happening) -> None:
        """Note what happened."""
        if type(happening) is HoldMoved:
            self._move_hold(at, happening)
            return
        self.steps.append(STEPS[type(happening)](at, happening))
        if type(happening) is HeldUntil:
            # A hold may be long, and there may be thousands.
            self.pack()

    def _move_hold(self, at: float, moved: HoldMoved) -> None:
        """Change the mark of the hold, which is the last: it may move often."""
        marks = self.pack()
        passed = self.measure_ms(at) - marks[-SIZES[HELD]]
        marks[-1] = self._pack_value(passed + moved.until_ms - moved.now_ms)[0]
        self.marks = marks.tobytes()
        self.noted += 1

    def pack(self) -> array[int]:
        """Make marks of all that was noted, since they take less memory; return them."""
        steps, marks = self.steps, array("I", self.marks or b"")
        if steps or self.marks is None:
            for at, what, *values in steps:
                marks.append(self.measure_ms(at))
                marks.append(MOVES[what] if isinstance(what, State) else what)
                for value in values:
                    marks.extend(self._pack_value(value))
            self.noted += len(steps)
            self.marks = marks.tobytes()
            # The same list, since the runner goes on with it.
            steps.clear()
        return marks

    def _pack_value(self, value: StepValue) -> tuple[int, ...]:
        if isinstance(value, int):
            return (min(max(value, 0), LARGEST),)
        if isinstance(value, Stop):
            return (STOPS.index(value),)
        if value is None:
            return NO_TOKENS
        if isinstance(value, Usage):
            used = limit_usage(value)
            return 1, used.input, used.output, used.cached, used.reasoning
        if value not in self.names:
            self.names = (*self.names, value)
        return (self.names.index(value),)

    def note_flow(self, at: float, turn: int, size: int) -> None:
        """Note how many bytes of a turn came so far."""
        if self.flows is None:
            self.flows = []
        flows = self.flows
        if not flows or flows[-1][0] != turn:
            flows.append(array("I", (turn,)))
        points, size = flows[-1], min(size, LARGEST)
        if len(points) > 1 and points[-1] == size:
            return
        points.extend((self.measure_ms(at), size))
        self.noted += 1
        if len(points) > 2 * MOST_POINTS:
            flows[-1] = _merge_points(points)

    def note_beat(self, at: float) -> None:
        """Note that the client was sent a heartbeat; the newest are kept."""
        if self.beats is None:
            self.beats = array("I")
        beats = self.beats
        beats.append(self.measure_ms(at))
        self.noted += 1
        if len(beats) > MOST_BEATS:
            del beats[0]

    def is_later(self, sent: float, state: State) -> bool:
        """Whether something was sent after what is known of, while the exchange only waits."""
        ms = self.measure_ms(sent)
        if self.beats is not None and ms <= self.beats[-1]:
            return False
        if state is State.RELAYING:
            # The newest point says since when no more bytes came.
            return self.flows is not None and ms > self.flows[-1][-2]
        if state is State.HOLDING:
            return not self.steps and self.marks is not None and ms > self.pack()[-SIZES[HELD]]
        return state is State.OPENING and ms > self._find_newest()

    def _find_newest(self) -> int:
        """Return when the newest step was noted, in milliseconds."""
        if self.steps:
            return self.measure_ms(self.steps[-1][0])
        marks, place, newest = array("I", self.marks or b""), 0, 0
        while place < len(marks):
            newest = marks[place]
            place += SIZES[marks[place + 1]]
        return newest

    def end_with_error(self, ended: ExchangeEnded, error: HoldgateError) -> None:
        """Note how it went, but for the error: only what it says is kept."""
        self.code, self.message = error.code, error.message[:LONGEST_MESSAGE]
        self.ended = msgspec.structs.replace(ended, error=None)


def _merge_points(points: array[int]) -> array[int]:
    """Keep every second point, and the newest."""
    merged, count = points[:1], len(points) // 2
    for number in range((count - 1) % 2, count, 2):
        place = 1 + 2 * number
        merged.extend(points[place : place + 2])
    return merged


def _describe_failed_route(at: float, failed: RouteFailed) -> TrailStep:
    error = failed.error
    return at, ROUTE_FAILED, failed.route or "", error.status, error.code


def _describe_tool(at: float, started: ToolStarted) -> TrailStep:
    name = started.call.name
    action = find_action(name, started.call.arguments)
    return at, TOOL_STARTED, name[:LONGEST_NAME], action


def find_action(tool: str, arguments: str) -> str:
    """Return the action that a call names, if it is one of the tool's own words."""
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any]).get("action")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""
    return given if isinstance(given, str) and given in TOOL_ACTIONS.get(tool, ()) else ""


STEPS: Mapping[type[Happening], Callable[[float, Any], TrailStep]] = {
    UpstreamClosed: lambda at, closed: (at, UPSTREAM_CLOSED, closed.was_cut),
    RouteFailed: _describe_failed_route,
    ToolStarted: _describe_tool,
    ToolReturned: lambda at, returned: (at, TOOL_RETURNED, returned.ms, not returned.error),
    # How long it lasts by the clock that reminders go by.
    HeldUntil: lambda at, held: (at, HELD, held.until_ms - held.now_ms),
    HoldEnded: lambda at, ended: (at, HOLD_ENDED, ended.reason),
    ReminderDue: lambda at, due: (at, HOLD_ENDED, RESULT if due.is_result else DUE),
    Spliced: lambda at, spliced: (at, SPLICED),
    StopMessageFired: lambda at, fired: (at, STOP_MESSAGE, fired.n, fired.of),
}
Trail.wants = frozenset({*STEPS, HoldMoved})
