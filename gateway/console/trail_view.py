"""Reads the marks of a trail into what the console shows of one exchange."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, Route, Usage
from gateway.exchange.observer import ExchangeEnded
from gateway.exchange.trail import (
    HELD,
    HOLD_ENDED,
    RESULT,
    ROUTE_FAILED,
    SIZES,
    SPLICED,
    STATES,
    STOP_MESSAGE,
    STOPS,
    TOOL_RETURNED,
    TOOL_STARTED,
    TURN_ENDED,
    UPSTREAM_CLOSED,
    Trail,
)
from gateway.reminders.clock_calls import NAME as CLOCK

Kind = Literal["client", "chat", "job", "pass_through"]
Why = Literal["request", "clock", "tool", "reminder", "stop_message", "result"]
Step = tuple[int, str]
"""When a state was reached, in milliseconds since the begin, and which."""
Point = tuple[int, int]
LIVE = frozenset({State.OPENING, State.RELAYING, State.TOOLING, State.HOLDING, State.CLOSING})
BROKE = "broke"
CLIENT_GONE = "client_gone"


class TokenCounts(msgspec.Struct, frozen=True):
    """Tokens, as upstreams reported them."""

    input: int
    output: int
    cached: int
    reasoning: int


class RouteTry(msgspec.Struct):
    """A route that was asked for a turn, and how it failed, if it did."""

    at: int
    route: str
    ended: int | None = None
    status: int = 0
    code: str = ""


class TurnTrail(msgspec.Struct):
    """One turn; times are milliseconds since the exchange began."""

    n: int
    why: Why
    round: Annotated[
        tuple[int, int] | None, Meta(description="Of a stop message: which time, of how many.")
    ] = None
    tries: list[RouteTry] = []
    first: int | None = None
    ended: int | None = None
    stop: str = ""
    usage: TokenCounts | None = None
    bytes: int = 0
    closed: int | None = None
    was_cut: bool = False
    flow: list[Point] = []


class ToolTrail(msgspec.Struct):
    """One call of a tool of the gateway's."""

    turn: int
    name: str
    action: str
    at: int
    ms: int | None = None
    ok: bool | None = None


class HoldTrail(msgspec.Struct):
    """One hold, and how it ended."""

    turn: int
    at: int
    until: int
    ended: int | None = None
    outcome: str | None = None


class ExchangeRow(msgspec.Struct, kw_only=True):
    """An exchange in a list; `ended`, `first` and `states` are milliseconds since its begin."""

    id: str
    request_id: str
    owner: str
    session: str | None
    kind: Kind
    agent: str | None
    dialect: str
    model: str
    route: str
    state: str
    begun_at: Annotated[int, Meta(description="UTC milliseconds.")]
    ended: int | None
    turns: int
    tries: int
    first: int | None
    bytes: int
    status: int
    code: str
    until: Annotated[int | None, Meta(description="Of a hold: its end, UTC milliseconds.")]
    states: Annotated[list[Step], Meta(description="The newest.")]
    usage: TokenCounts | None
    version: int


class ExchangeView(msgspec.Struct, kw_only=True):
    """The trail of one exchange; times are milliseconds since its begin, `begun_at` is UTC."""

    id: str
    request_id: str
    owner: str
    session: str | None
    kind: Kind
    agent: str | None
    job: str | None
    run: str | None
    dialect: str
    model: str
    stream: bool
    begun_at: int
    state: str
    ended: int | None
    status: int
    code: str
    message: str
    route: str
    first: int | None
    bytes: int
    usage: TokenCounts | None
    states: list[Step]
    turns: list[TurnTrail]
    tools: list[ToolTrail]
    holds: list[HoldTrail]
    splices: list[int]
    beats: list[int]
    version: int


Mark = tuple[int, int, "array[int]"]


def read_marks(marks: array[int]) -> Iterator[Mark]:
    """Yield when each mark was made, what it is, and its values."""
    place = 0
    while place < len(marks):
        end = place + SIZES[marks[place + 1]]
        yield marks[place], marks[place + 1], marks[place + 2 : end]
        place = end


class TrailReader:
    """Reads one trail; `sum` says how the exchange went until now."""

    def __init__(self, trail: Trail, summed: ExchangeEnded) -> None:
        self._trail = trail
        self._summed = summed
        trail.pack()
        self._names = trail.names
        self.states: list[Step] = [(0, State.OPENING.value)]
        self.turns: list[TurnTrail] = []
        self.tools: list[ToolTrail] = []
        self.holds: list[HoldTrail] = []
        self.splices: list[int] = []
        self._round: tuple[int, int] | None = None
        self._failed_at: int | None = None
        self._open_turn(0, "request")
        for at, what, values in read_marks(trail.pack()):
            if what < len(STATES):
                self._move(at, STATES[what])
            else:
                self._read(at, what, values)
        self._finish()

    def _move(self, at: int, state: State) -> None:
        before = self.states[-1][1]
        self.states.append((at, state.value))
        if state is State.OPENING and self._failed_at is not None:
            self.turns[-1].tries.append(RouteTry(at, ""))
        elif state is State.OPENING:
            self._open_turn(at, self._find_reason(before))
        elif state is State.RELAYING:
            self.turns[-1].first = at
        self._failed_at = None

    def _find_reason(self, before: str) -> Why:
        if self._round is not None:
            return "stop_message"
        if before == State.TOOLING:
            names = {tool.name for tool in self.tools if tool.turn == len(self.turns)}
            return "clock" if names == {CLOCK} else "tool"
        return "result" if self.holds and self.holds[-1].outcome == RESULT else "reminder"

    def _open_turn(self, at: int, why: Why) -> None:
        turn = TurnTrail(len(self.turns) + 1, why, self._round, tries=[RouteTry(at, "")], flow=[])
        self._round = None
        self.turns.append(turn)

    def _read(self, at: int, what: int, values: array[int]) -> None:
        turn = self.turns[-1]
        if what == TURN_ENDED:
            self._end_turn(turn, at, values)
        elif what == ROUTE_FAILED:
            turn.tries[-1] = RouteTry(
                turn.tries[-1].at, self._name(values[0]), at, values[1], self._name(values[2])
            )
            self._failed_at = at
        elif what == UPSTREAM_CLOSED:
            turn.closed, turn.was_cut = at, bool(values[0])
        elif what == TOOL_STARTED:
            name, action = self._name(values[0]), self._name(values[1])
            self.tools.append(ToolTrail(turn.n, name, action, at))
        elif what == TOOL_RETURNED:
            self.tools[-1].ms, self.tools[-1].ok = values[0], bool(values[1])
        elif what == HELD:
            self.holds.append(HoldTrail(turn.n, at, at + values[0]))
        elif what == HOLD_ENDED:
            self.holds[-1].ended, self.holds[-1].outcome = at, self._name(values[0])
        elif what == SPLICED:
            self.splices.append(at)
        elif what == STOP_MESSAGE:
            self._round = (values[0], values[1])

    def _end_turn(self, turn: TurnTrail, at: int, values: array[int]) -> None:
        turn.ended, turn.stop, turn.bytes = at, STOPS[values[0]].value, values[1]
        turn.usage = TokenCounts(*values[3:7]) if values[2] else None
        turn.tries[-1].route = self._name(values[7])
        # A later mark says it if the connection was cut off after all.
        turn.closed = at

    def _name(self, number: int) -> str:
        return str(self._names[number])

    def _finish(self) -> None:
        """Complete what the marks leave open: the turn at hand, and what the end cut short."""
        summed, turn = self._summed, self.turns[-1]
        is_over = summed.state not in LIVE
        end = round(summed.seconds * 1000) if is_over else None
        last = turn.tries[-1]
        if not last.route:
            last.route = str(summed.route)
        if sum(len(one.tries) for one in self.turns) > summed.tries and last.ended is None:
            # Refused before anybody was asked.
            turn.tries.pop()
        if turn.ended is None:
            turn.bytes = max(0, summed.bytes - sum(one.bytes for one in self.turns[:-1]))
            if is_over:
                self._break_turn(turn)
        for hold in self.holds:
            if hold.ended is None and is_over:
                hold.ended, hold.outcome = end, CLIENT_GONE
        self._add_flows()

    def _break_turn(self, turn: TurnTrail) -> None:
        """Say how a turn ended that did not come to its end."""
        left = self.states[-1][0]
        if turn.closed is None and turn.tries and turn.tries[-1].ended is None:
            # It was cut off while it was asked for, before the exchange moved on.
            turn.closed, turn.was_cut = left, True
        turn.ended, turn.stop = left if turn.closed is None else turn.closed, BROKE

    def _add_flows(self) -> None:
        for points in self._trail.flows or ():
            pairs = iter(points[1:])
            self.turns[points[0] - 1].flow = list(zip(pairs, pairs, strict=True))
        for turn in self.turns:
            # The end of a turn is a point as well, known without a sample.
            if turn.ended is not None and turn.bytes and turn.first is not None:
                turn.flow = [*[p for p in turn.flow if p[0] < turn.ended], (turn.ended, turn.bytes)]


def show_trail(trail: Trail, summed: ExchangeEnded) -> ExchangeView:
    """Show the trail of an exchange, which may still go on."""
    read, info, source = TrailReader(trail, summed), summed.info, trail.source
    return ExchangeView(
        id=info.exchange_id,
        request_id=info.request_id,
        owner=info.owner,
        session=info.session,
        kind=find_kind(trail, info),
        agent=source.agent_id or None,
        job=source.job_id or None,
        run=source.run_id or None,
        dialect=info.dialect,
        model=info.model,
        stream=info.stream,
        begun_at=trail.begun_at,
        state=summed.state.value,
        ended=find_end(summed),
        status=summed.status,
        code=trail.code,
        message=trail.message,
        route=str(summed.route),
        first=_to_ms(summed.first_seconds),
        bytes=summed.bytes,
        usage=show_usage(summed.usage),
        states=read.states,
        turns=read.turns,
        tools=read.tools,
        holds=read.holds,
        splices=read.splices,
        beats=list(trail.beats or ()),
        version=trail.version,
    )


def find_kind(trail: Trail, info: ExchangeInfo) -> Kind:
    """Return who asked: a client, somebody who talks to an agent, or a job."""
    if info.dialect.startswith("/"):
        return "pass_through"
    if trail.source.job_id:
        return "job"
    return "chat" if trail.source.agent_id else "client"


def find_end(summed: ExchangeEnded) -> int | None:
    """Return when an exchange ended, if it did."""
    return None if summed.state in LIVE else round(summed.seconds * 1000)


def show_usage(usage: Usage | None) -> TokenCounts | None:
    """Show tokens, if any were reported."""
    if usage is None:
        return None
    return TokenCounts(usage.input, usage.output, usage.cached, usage.reasoning)


MOST_STEPS = 24


def show_row(trail: Trail, summed: ExchangeEnded) -> ExchangeRow:
    """Show an exchange in one line; this reads only what a line needs."""
    states: list[Step] = [(0, State.OPENING.value)]
    until = None
    for at, what, values in read_marks(trail.pack()):
        if what < len(STATES):
            states.append((at, STATES[what].value))
        elif what == HELD:
            until = trail.begun_at + at + values[0]
    info = summed.info
    return ExchangeRow(
        id=info.exchange_id,
        request_id=info.request_id,
        owner=info.owner,
        session=info.session,
        kind=find_kind(trail, info),
        agent=trail.source.agent_id or None,
        dialect=info.dialect,
        model=info.model,
        route=_write_route(summed.route),
        state=summed.state.value,
        begun_at=trail.begun_at,
        ended=find_end(summed),
        turns=summed.turns,
        tries=summed.tries,
        first=_to_ms(summed.first_seconds),
        bytes=summed.bytes,
        status=summed.status,
        code=trail.code,
        until=until if summed.state is State.HOLDING else None,
        states=states[-MOST_STEPS:],
        usage=show_usage(summed.usage),
        version=trail.version,
    )


def _write_route(route: Route) -> str:
    return f"{route.upstream}/{route.model}"


def _to_ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
