"""The exchange: one client request until its answer ends, as a state machine.

`MOVES` says where to go, `ON_ENTRY` what to do on arrival. The machine never awaits, reads a clock
or sees a socket: it takes what happened and returns the one thing to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.errors import HoldgateError, UpstreamError
from gateway.exchange.additions import Addition
from gateway.exchange.effects import (
    Close,
    Effect,
    Hold,
    LetGo,
    OpenTurn,
    RelayTurn,
    RunTools,
    ShowError,
)
from gateway.exchange.events import (
    HOLD_FOLLOW_UP,
    CallTools,
    ClientGone,
    CloseReason,
    Continue,
    Crashed,
    Cut,
    Event,
    Finish,
    FollowUpLost,
    HoldEnded,
    OpeningFailed,
    Outcome,
    ReminderDue,
    RouteFailed,
    RoutesExhausted,
    Saved,
    StreamBroke,
    ToolsKept,
    ToolsReturned,
    TurnFinished,
    TurnOpened,
    Verdict,
    WaitUntil,
)
from gateway.exchange.model import Route
from gateway.exchange.rules import (
    FINISH,
    RULES,
    STOP_FOLLOW_UP,
    Facts,
    Rule,
    can_only_finish,
    verdict,
)


class State(StrEnum):
    """Where an exchange is."""

    OPENING = "opening"
    RELAYING = "relaying"
    TOOLING = "tooling"
    HOLDING = "holding"
    CLOSING = "closing"
    DONE = "done"
    GONE = "gone"
    FAILED = "failed"


MOVES: Mapping[State, Mapping[type[Event], State]] = {
    State.OPENING: {
        TurnOpened: State.RELAYING,
        RouteFailed: State.OPENING,
        RoutesExhausted: State.FAILED,
        FollowUpLost: State.CLOSING,
        ClientGone: State.GONE,
        Crashed: State.FAILED,
    },
    State.RELAYING: {
        CallTools: State.TOOLING,
        Continue: State.OPENING,
        WaitUntil: State.HOLDING,
        Finish: State.CLOSING,
        StreamBroke: State.FAILED,
        ClientGone: State.GONE,
        Crashed: State.FAILED,
    },
    State.TOOLING: {
        ToolsReturned: State.OPENING,
        ToolsKept: State.CLOSING,
        ClientGone: State.GONE,
        Crashed: State.FAILED,
    },
    State.HOLDING: {
        ReminderDue: State.OPENING,
        HoldEnded: State.CLOSING,
        ClientGone: State.GONE,
        Crashed: State.FAILED,
    },
    State.CLOSING: {
        Saved: State.DONE,
        # The answer is complete; whoever leaves now has missed nothing that was owed.
        ClientGone: State.DONE,
        Crashed: State.FAILED,
    },
    State.DONE: {},
    State.GONE: {},
    State.FAILED: {},
}
RELAY = RelayTurn()


class IllegalEvent(Exception):
    """An event came in a state that has no row for it: a fault of ours."""

    def __init__(self, state: State, event: object) -> None:
        super().__init__(f"{type(event).__name__} can not happen while an exchange is {state}.")
        self.state = state
        self.event = event


@dataclass(slots=True, eq=False)
class Exchange:
    """One client request: which turn it is in, which routes are left, what comes next."""

    routes: tuple[Route, ...]
    rules: tuple[Rule, ...] = RULES
    tool_turns: int = 16
    """How many turns in a row may call server tools."""
    number: int = field(default=1, init=False)
    additions: tuple[Addition, ...] = field(default=(), init=False)
    _state: State = field(default=State.OPENING, init=False)
    _untried: tuple[Route, ...] = field(init=False)
    _tool_turns_left: int = field(init=False)
    _suffixes: dict[str, int] = field(default_factory=dict, init=False)
    """How often each suffix of a follow-up's id was used."""
    _suffix: str = field(default="", init=False)
    _said: str = field(default="", init=False)
    _said_times: int = field(default=0, init=False)
    _tried_again: bool = field(default=False, init=False)
    _follows_tools: bool = field(default=False, init=False)
    _keeps_results: bool = field(default=False, init=False)
    _waits_its_turn: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._untried = self.routes
        self._tool_turns_left = self.tool_turns

    def __repr__(self) -> str:
        return f"<Exchange turn {self.number} {self._state}>"

    @property
    def state(self) -> State:
        """Where it is; only the table moves it."""
        return self._state

    @property
    def route(self) -> Route:
        """The route that is asked now, or answered last."""
        return self._untried[0]

    @property
    def has_other_routes(self) -> bool:
        """Whether the turn at hand could be, or was, asked of another route."""
        return len(self.routes) > 1

    def open_turn(self) -> OpenTurn:
        """Ask the next route for the turn at hand; this is the first thing to do."""
        return OpenTurn(self.number, self.route, self.additions, self._suffix, self._waits_its_turn)

    def handle(self, outcome: Outcome) -> Effect | None:
        """Take what happened; return what to do next, or None at the end.

        Raises `IllegalEvent` for what can not happen where the exchange is.
        """
        # By `type`, which is faster than `isinstance`: this runs three times in every exchange.
        event: Event
        if type(outcome) is TurnFinished:
            event = self.verdict_on(outcome)
            self._said, self._said_times = outcome.said, self._count_repeats(outcome.said)
        elif type(outcome) is OpeningFailed:
            event = self._judge_failure(outcome.error)
        elif type(outcome) is Cut:
            event = self._judge_cut(outcome.error)
        else:
            event = outcome
        target = MOVES[self._state].get(type(event))
        if target is None:
            raise IllegalEvent(self._state, event)
        self._state = target
        return ON_ENTRY[target](self, event)

    def verdict_on(self, ended: TurnFinished) -> Verdict:
        """Judge the end of a turn, and change nothing by it."""
        if self.rules is RULES and can_only_finish(ended.turn, ended.repeat, ended.wait):
            return FINISH
        facts = Facts(
            turn=ended.turn,
            number=self.number,
            tool_turns_left=self._tool_turns_left,
            repeat=ended.repeat,
            repeated=self.repeats,
            same_answers=self._count_repeats(ended.said),
            wait=ended.wait,
        )
        return verdict(facts, self.rules)

    def would_repeat(self, ended: TurnFinished) -> bool:
        """Whether the stop message would be sent: then it is to be counted first."""
        judged = self.verdict_on(ended)
        return isinstance(judged, Continue) and judged.suffix == STOP_FOLLOW_UP

    @property
    def repeats(self) -> bool:
        """Whether the turn at hand answers a stop message."""
        return self._suffix.startswith(STOP_FOLLOW_UP)

    def _count_repeats(self, text: str) -> int:
        return self._said_times + 1 if text == self._said else 1

    def _judge_failure(self, error: HoldgateError) -> Event:
        if error.may_fail_over and len(self._untried) > 1 and not self._tried_again:
            return RouteFailed(error)
        if self.repeats and isinstance(error, UpstreamError) and not self._tried_again:
            # It was counted already, so it gets the one second try there is.
            self._tried_again = True
            return RouteFailed(error)
        if self.number == 1:
            return RoutesExhausted(error)
        return FollowUpLost(error)

    def _judge_cut(self, error: HoldgateError) -> Event:
        """Say what it means here that the exchange is ended from outside."""
        match self._state:
            case State.OPENING:
                return self._judge_failure(error)
            case State.RELAYING:
                return StreamBroke(error)
            case State.HOLDING:
                return HoldEnded(error.code)
            case State.TOOLING:
                return ToolsKept(neutral_finish=not self._keeps_results)
        return Saved()

    def _follow_up(
        self, additions: tuple[Addition, ...], suffix: str, after_tools: bool = False
    ) -> None:
        """Go on to another turn; whoever answered last is asked first."""
        self._follows_tools = after_tools
        if not after_tools:
            # The model stopped by itself: its tools may run again.
            self._tool_turns_left = self.tool_turns
        self._waits_its_turn = suffix == HOLD_FOLLOW_UP
        answered = self.route
        self._untried = (answered, *(r for r in self.routes if r != answered))
        self._tried_again = False
        self.number += 1
        self.additions = additions
        used = self._suffixes[suffix] = self._suffixes.get(suffix, 0) + 1
        self._suffix = suffix if used == 1 else f"{suffix}.{used}"

    # What is done on entry of a state.

    def _enter_opening(self, event: Event) -> Effect:
        if isinstance(event, RouteFailed):
            # After the last one, begin with the first again.
            self._untried = self._untried[1:] or self.routes
        elif isinstance(event, ToolsReturned):
            self._tool_turns_left -= 1
            self._follow_up(event.results, event.suffix, after_tools=True)
        elif isinstance(event, ReminderDue):
            self._follow_up((), HOLD_FOLLOW_UP)
        else:
            assert isinstance(event, Continue)
            self._follow_up(event.additions, event.suffix)
        return self.open_turn()

    def _enter_tooling(self, event: Event) -> Effect:
        assert isinstance(event, CallTools)
        self._keeps_results = event.keep
        return RunTools(event.calls, event.keep)

    def _enter_holding(self, event: Event) -> Effect:
        assert isinstance(event, WaitUntil)
        # They are in the request by now, and the wait may be long.
        self.additions = ()
        return Hold(event.at_ms, event.most_ms)

    def _enter_closing(self, event: Event) -> Effect:
        if isinstance(event, Finish):
            return Close(event.neutral_finish, event.disarm)
        if isinstance(event, FollowUpLost):
            lost = CloseReason.FOLLOW_UP_FAILED
            # That the gateway has to go is no failure of the follow-up.
            failed = self.repeats and isinstance(event.error, UpstreamError)
            disarm, reason = (lost, "") if failed else ("", lost)
            # Lost after tools, it leaves a turn whose reason names a call nobody saw.
            return Close(self._follows_tools, disarm, reason)
        reason = event.reason if isinstance(event, HoldEnded) else ""
        return Close(isinstance(event, ToolsKept) and event.neutral_finish, reason=reason)

    def _enter_failed(self, event: Event) -> Effect | None:
        assert isinstance(event, RoutesExhausted | StreamBroke | Crashed)
        # After a fault of ours nothing more is done here: whoever runs the exchange says it.
        return None if isinstance(event, Crashed) else ShowError(event.error)


ON_ENTRY: Mapping[State, Callable[[Exchange, Event], Effect | None]] = {
    State.OPENING: Exchange._enter_opening,
    State.RELAYING: lambda exchange, event: RELAY,
    State.TOOLING: Exchange._enter_tooling,
    State.HOLDING: Exchange._enter_holding,
    State.CLOSING: Exchange._enter_closing,
    State.DONE: lambda exchange, event: None,
    State.GONE: lambda exchange, event: LetGo(),
    State.FAILED: Exchange._enter_failed,
}


def diagram() -> str:
    """Draw the table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> opening"]
    for state, moves in MOVES.items():
        lines += [f"    {state} --> {target}: {event.__name__}" for event, target in moves.items()]
        lines += [] if moves else [f"    {state} --> [*]"]
    return "\n".join(lines) + "\n"
