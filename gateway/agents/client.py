"""One exchange with an agent: frames and happenings become events and history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

import anyio

from gateway.agents.conversations import (
    UPSTREAM_ERROR,
    Bookmark,
    Failure,
    ForeignCallShown,
    ReasoningShown,
    Record,
    Shown,
    TextShown,
    Transcript,
    read_failure,
    read_frames,
)
from gateway.agents.locks import Lease
from gateway.agents.model import (
    COMPLETED,
    DRAINING,
    ERROR,
    FILTERED,
    LENGTH,
    TAKEN_OVER,
    TURNS,
    Outcome,
)
from gateway.errors import Headers
from gateway.exchange.events import CloseReason
from gateway.exchange.machine import State
from gateway.exchange.model import Stop
from gateway.exchange.observer import (
    ExchangeFailed,
    Happening,
    HeldUntil,
    HoldMoved,
    RequestExtended,
    StateChanged,
    ToolReturned,
    ToolStarted,
    TurnEnded,
    Wants,
)
from gateway.reminders.holds import DRAINING as HOLD_DRAINED
from gateway.reminders.holds import REPLACED
from gateway.reminders.holds import TAKEN_OVER as HOLD_TAKEN_OVER
from gateway.stores.documents import StoreUnavailable
from gateway.wire.heartbeats import HeartbeatTarget
from gateway.wire.sse import encode

PATIENCE = 10.0
NO_SUCH_TOOL = "This agent has no such tool."
CRASHED = Failure("Something went wrong inside the gateway.", "unavailable")
SHUTTING_DOWN = Failure("The gateway is shutting down; try again.", "draining")
LOST = Failure("The model did not answer the follow-up request.", UPSTREAM_ERROR)
STRANGE = Failure("The model called a tool that this agent does not have.", "unknown_tool")
STOPS = {Stop.LENGTH: LENGTH, Stop.FILTER: FILTERED}
HOLD_ENDS = {HOLD_TAKEN_OVER: TAKEN_OVER, REPLACED: TAKEN_OVER, HOLD_DRAINED: DRAINING}


class Connected(HeartbeatTarget, Protocol):
    """The connection of a listener, who may disconnect."""

    def rest(self) -> None:
        """Let go of what is not needed while nothing is sent but heartbeats."""

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Call this when the client has left; return how to stop watching."""


class AgentListener:
    """Gets the events of an agent's answer. This one ignores them: it is for runs of jobs."""

    line: Connected | None = None
    """Its connection; None: it has none, and cannot disconnect."""

    async def start(self, report: str) -> None:
        """Handle the accepted message; `report` says what became of its directives."""

    async def thinking(self, delta: str) -> None:
        """Handle reasoning of the model."""

    async def text(self, delta: str) -> None:
        """Handle text of the model."""

    async def tool_start(self, name: str, arguments: str) -> None:
        """Handle the start of a tool."""

    async def tool_end(self, name: str, ms: int) -> None:
        """Handle the end of a tool."""

    async def tool_error(self, name: str, error: str) -> None:
        """Handle the failure of a tool."""

    async def hold(self, until_ms: int) -> None:
        """Handle that the answer is held until this time."""

    async def complete(self, outcome: Outcome) -> None:
        """Handle the end of a complete answer; this is the last event."""

    async def error(self, outcome: Outcome) -> None:
        """Handle the failure of the answer; this is the last event."""


class AgentClient:
    """One exchange with an agent: its client, and its observer.

    As the client it gets the frames with the model's text; as the observer it gets what happens.
    Both become events for the listener, and messages of the conversation. However the exchange
    ends, the messages are stored, then the lock is released, and only then the listener gets the
    end: it may send its next message at once.
    """

    wants: Wants = frozenset(
        {
            StateChanged,
            RequestExtended,
            TurnEnded,
            ToolStarted,
            ToolReturned,
            HeldUntil,
            HoldMoved,
            ExchangeFailed,
        }
    )
    # For the runner the answer has always started, so errors come in the stream.
    started = True
    scope: anyio.CancelScope | None = None
    # Each write is taken completely before more is read.
    blocked = False

    def __init__(
        self,
        message: str,
        listener: AgentListener,
        lease: Lease | None,
        record: Record,
    ) -> None:
        self.transcript = Transcript(message)
        self.outcome: Outcome | None = None
        self.give_up: Callable[[], None] = _nothing
        self._listener = listener
        self._lease = lease
        self._record = record
        self._keeping = False
        self._ending = False
        self._text: list[str] = []
        self._strangers: set[str] = set()
        self._tool_count = 0
        self._changed = StateChanged(State.OPENING, 1)
        self._failure: Failure | None = None

    def __repr__(self) -> str:
        return f"<AgentClient {self._changed.state}>"

    # The connection, as heartbeats and the runner see it.

    @property
    def last(self) -> float:
        """When something was last sent."""
        return self._listener.line.last if self._listener.line else 0.0

    @property
    def blocked_since(self) -> float | None:
        """Since when a send has been waiting for the client to read, if one is."""
        return self._listener.line.blocked_since if self._listener.line else None

    def rest(self) -> None:
        """Let go of what is not needed while nothing is sent but heartbeats."""
        if self._listener.line is not None:
            self._listener.line.rest()

    def send_heartbeat_now(self) -> bool:
        """Send a heartbeat if that needs no waiting; return whether it is done."""
        return self._listener.line is None or self._listener.line.send_heartbeat_now()

    async def send_heartbeat(self) -> None:
        """Send a heartbeat."""
        if self._listener.line is not None:
            await self._listener.line.send_heartbeat()

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Call this when the client has left; return how to stop watching."""
        if self._listener.line is None:
            return _nothing

        def leave() -> None:
            self._mark_closing()
            left()

        return self._listener.line.watch(leave)

    def _mark_closing(self) -> None:
        """Mark the lease as ending soon, so that the session's next message waits for it."""
        if self._lease is not None:
            self._lease.mark_closing()

    # The client of the runner.

    def ready(self, headers: Headers, heartbeat: Callable[[], bytes]) -> None:
        """Do nothing: the answer has started already."""

    async def frames(self, frames: bytes) -> None:
        """Handle whole frames."""
        for shown in read_frames(frames):
            await self._hear(shown)

    async def drain(self) -> None:
        """Do nothing: there is nothing to flush."""

    async def end(self, frames: bytes) -> None:
        """Handle the last frames, and close."""
        self._ending = True
        await self.frames(frames)
        await self.close()

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Handle an answer in one piece: a refusal, which is also the end."""
        await self.end(encode(body.replace(b"\n", b" ")))

    async def _hear(self, shown: Shown) -> None:
        match shown:
            case ReasoningShown(text):
                await self._listener.thinking(text)
            case TextShown(text):
                self._text.append(text)
                if not self._ending:
                    self.transcript.add_text(text)
                await self._listener.text(text)
            case ForeignCallShown(name) if name not in self._strangers:
                self._strangers.add(name)
                await self._listener.tool_error(name, NO_SUCH_TOOL)

    # The observer.

    def observe(self, at: float, happening: Happening) -> Awaitable[None] | None:
        """Add to the transcript what belongs to it, and pass events to the listener."""
        match happening:
            case StateChanged():
                before, self._changed = self._changed.state, happening
                if before is State.HOLDING and happening.state is not State.CLOSING:
                    return self._rest(False)
            case RequestExtended(additions):
                self.transcript.extend(additions)
            case TurnEnded(turn, read_text):
                self.transcript.end_turn(read_text(), turn)
            case ToolStarted(call):
                self._tool_count += 1
                return self._listener.tool_start(call.name, call.arguments)
            case ToolReturned(call, text, ms, error):
                self.transcript.add_result(call, text)
                if error:
                    return self._listener.tool_error(call.name, error)
                return self._listener.tool_end(call.name, ms)
            case HeldUntil(until_ms):
                self._record.let_go()
                return self._begin_hold(until_ms)
            case HoldMoved(until_ms):
                return self._listener.hold(until_ms)
            case ExchangeFailed(error):
                self._failure = read_failure(error)
        return None

    async def _begin_hold(self, until_ms: int) -> None:
        await self._rest(True)
        await self._listener.hold(until_ms)

    async def _rest(self, resting: bool) -> None:
        """Note for other instances whether the session waits in a hold."""
        if self._lease is not None:
            await self._lease.rest(resting)

    # The end.

    async def close(self) -> Outcome:
        """Store the messages, release the lock, and send the end; once, even on a cancel."""
        if self.outcome is None:
            self.outcome = await self._settle(*self._judge())
            if self.outcome.error is None:
                await self._listener.complete(self.outcome)
            else:
                await self._listener.error(self.outcome)
        return self.outcome

    async def leave(self, why: str) -> Outcome:
        """Store the messages and release the lock if not done yet; nobody is listening."""
        if self.outcome is None:
            self.outcome = await self._settle(why, None)
        return self.outcome

    async def crash(self) -> None:
        """Close after a bug in the gateway."""
        self._failure = CRASHED
        await self.close()

    async def _settle(self, reason: str, failure: Failure | None) -> Outcome:
        self._mark_closing()
        with anyio.CancelScope(shield=True):
            bookmark, trouble = await self._keep()
            if trouble is not None and failure is None:
                reason, failure = ERROR, trouble
            if self._lease is not None:
                await self._lease.release(reason, is_unlocked=bookmark.is_unlocked)
        outcome = Outcome(
            text="".join(self._text),
            reason=reason,
            tool_count=self._tool_count,
            turns=self.transcript.turns,
            version=bookmark.version,
            at_ms=bookmark.at_ms,
        )
        if failure is None:
            return outcome
        return replace(outcome, error=failure.message, code=failure.code)

    async def _keep(self) -> tuple[Bookmark, Failure | None]:
        """Store the messages, only once: a first try that was cut off may have succeeded."""
        if self._keeping:
            return Bookmark(), None
        self._keeping = True
        try:
            with anyio.fail_after(PATIENCE):
                token = self._lease.token if self._lease is not None else ""
                return await self._record.add(self.transcript.messages(), token), None
        except StoreUnavailable as error:
            return Bookmark(), Failure(
                f"The answer could not be stored: {error.message}", error.code
            )
        except TimeoutError:
            code = StoreUnavailable.code
            return Bookmark(), Failure(
                "The answer could not be stored: the store does not answer.", code
            )

    def _judge(self) -> tuple[str, Failure | None]:
        """Return how the exchange ended: the reason, and the failure if any."""
        failure = self._failure or self._cut_short()
        if failure is not None:
            return ERROR, failure
        if self._changed.state is State.HOLDING:
            return DRAINING, None
        if self.transcript.unanswered:
            return TURNS, None
        ended = STOPS.get(self.transcript.stop, COMPLETED)
        return HOLD_ENDS.get(self._changed.reason, ended), None

    def _cut_short(self) -> Failure | None:
        """Return the failure of an answer that ended early without an error; None if complete."""
        if self.transcript.calls_strangers:
            return STRANGE
        if self._changed.state not in (State.CLOSING, State.HOLDING):
            return SHUTTING_DOWN
        return LOST if self._changed.reason is CloseReason.FOLLOW_UP_FAILED else None


def _nothing() -> None:
    return None
