"""One exchange with an agent: what the driver shows becomes events, what it tells, history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio

from gateway.agents.conversations import Bookmark, Record, Unkept
from gateway.agents.frames import (
    UPSTREAM_ERROR,
    Called,
    Failed,
    Noted,
    Said,
    Shown,
    Thought,
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
    Ear,
    Outcome,
)
from gateway.agents.transcript import Transcript
from gateway.dialects.events import read_object
from gateway.errors import Headers
from gateway.exchange.machine import State
from gateway.exchange.model import Stop, ToolCall
from gateway.reminders.holds import DRAINING as HOLD_DRAINED
from gateway.reminders.holds import REPLACED
from gateway.reminders.holds import TAKEN_OVER as HOLD_TAKEN_OVER
from gateway.stores.documents import StoreUnavailable
from gateway.wire.sse import encode

PATIENCE = 10.0
NO_SUCH_TOOL = "This agent has no such tool."
CRASHED = Failed("Something went wrong inside the gateway.", "unavailable")
LEAVING = Failed("The gateway is shutting down; ask again.", "draining")
LOST = Failed("The model did not answer any more after what came before.", UPSTREAM_ERROR)
STRANGE = Failed("The model called a tool that this agent does not have.", "unknown_tool")
# How the exchange machine says that a follow-up got no answer.
FOLLOW_UP_LOST = "the follow-up failed"
STOPS = {Stop.LENGTH: LENGTH, Stop.FILTER: FILTERED}
HOLD_ENDS = {HOLD_TAKEN_OVER: TAKEN_OVER, REPLACED: TAKEN_OVER, HOLD_DRAINED: DRAINING}


class Narration:
    """Tells whoever listens which tools run, and the history what they returned."""

    def __init__(self, ear: Ear, gains: Transcript) -> None:
        self._ear = ear
        self._gains = gains
        self.count = 0

    async def started(self, call: ToolCall) -> None:
        """Tell that a tool begins."""
        self.count += 1
        await self._ear.tool_start(call.name, call.arguments)

    async def returned(self, call: ToolCall, text: str, ms: int) -> None:
        """Tell what a tool returned."""
        self._gains.returned(call, text)
        error = _error_of(text)
        if error is None:
            await self._ear.tool_end(call.name, ms)
        else:
            await self._ear.tool_error(call.name, error)


class AgentClient:
    """One exchange with an agent, as the driver's client.

    Whatever way it ends, what was said is kept, then the lock is released, and only then is the
    end told: who hears it may go on at once.
    """

    # To the driver the answer has always begun: what fails is said in the stream.
    started = True
    scope: anyio.CancelScope | None = None
    # What it is shown is taken before more is read.
    blocked = False

    def __init__(
        self,
        message: str,
        ear: Ear,
        lease: Lease | None,
        record: Record | Unkept,
    ) -> None:
        self.gains = Transcript(message)
        self.narration = Narration(ear, self.gains)
        self.outcome: Outcome | None = None
        self.give_up: Callable[[], None] = _nothing
        self._ear = ear
        self._lease = lease
        self._record = record
        self._keeping = False
        self._ending = False
        self._text: list[str] = []
        self._strangers: set[str] = set()
        self._state: str = State.OPENING
        self._why = ""
        self._failed: Failed | None = None

    def __repr__(self) -> str:
        return f"<AgentClient {self._state}>"

    # The connection, as heartbeats and the driver see it.

    @property
    def last(self) -> float:
        """When something was last sent."""
        return self._ear.line.last if self._ear.line else 0.0

    @property
    def blocked_since(self) -> float | None:
        """Since when a send has been waiting for the client to read, if one is."""
        return self._ear.line.blocked_since if self._ear.line else None

    def rest(self) -> None:
        """Let go of what is not needed while nothing is sent but heartbeats."""
        if self._ear.line is not None:
            self._ear.line.rest()

    def send_heartbeat_now(self) -> bool:
        """Send a heartbeat if nothing has to be waited for; tell whether that is done with."""
        return self._ear.line is None or self._ear.line.send_heartbeat_now()

    async def send_heartbeat(self) -> None:
        """Send a heartbeat."""
        if self._ear.line is not None:
            await self._ear.line.send_heartbeat()

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Call this when the client has left; return how to stop watching."""
        if self._ear.line is None:
            return _nothing

        def leave() -> None:
            self._mark_closing()
            left()

        return self._ear.line.watch(leave)

    def _mark_closing(self) -> None:
        """Let the session's next message wait for the end, which is near."""
        if self._lease is not None:
            self._lease.closing.set()

    # What the driver shows.

    def ready(self, headers: Headers, heartbeat: Callable[[], bytes]) -> None:
        """Prepare nothing: the answer has begun."""

    async def frames(self, frames: bytes) -> None:
        """Hear whole frames."""
        for shown in read_frames(frames):
            await self._hear(shown)

    async def drain(self) -> None:
        """Never have to be waited for."""

    async def end(self, frames: bytes) -> None:
        """Hear the last frames, and close."""
        self._ending = True
        await self.frames(frames)
        await self.close()

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Hear an answer of one piece: a refusal, which is the end as well."""
        await self.end(encode(body.replace(b"\n", b" ")))

    async def _hear(self, shown: Shown) -> None:
        match shown:
            case Thought(text):
                await self._ear.thinking(text)
            case Said(text):
                self._text.append(text)
                if not self._ending:
                    self.gains.shown(text)
                await self._ear.text(text)
            case Called(name) if name not in self._strangers:
                self._strangers.add(name)
                await self._ear.tool_error(name, NO_SUCH_TOOL)
            case Failed():
                self._failed = shown
            case Noted():
                await self._note(shown)

    async def _note(self, noted: Noted) -> None:
        self._state, self._why = noted.state, noted.why
        if noted.state == State.HOLDING:
            self._record.let_go()
            await self._ear.hold(noted.until_ms)

    # The end.

    async def close(self) -> Outcome:
        """Keep what was said, release the lock, and tell; once, whatever is being cancelled."""
        if self.outcome is None:
            self.outcome = await self._settled(*self._judged())
            if self.outcome.error is None:
                await self._ear.complete(self.outcome)
            else:
                await self._ear.error(self.outcome)
        return self.outcome

    async def leave(self, why: str) -> Outcome:
        """Keep what was said and release the lock, if that was not done: nobody is listening."""
        if self.outcome is None:
            self.outcome = await self._settled(why, None)
        return self.outcome

    async def crash(self) -> None:
        """Close after a fault of ours."""
        self._failed = CRASHED
        await self.close()

    async def _settled(self, reason: str, failed: Failed | None) -> Outcome:
        self._mark_closing()
        with anyio.CancelScope(shield=True):
            bookmark, trouble = await self._kept()
            if trouble is not None and failed is None:
                reason, failed = ERROR, trouble
            if self._lease is not None:
                await self._lease.release(reason)
        outcome = Outcome(
            text="".join(self._text),
            reason=reason,
            tool_count=self.narration.count,
            turns=self.gains.turns,
            version=bookmark.version,
            at_ms=bookmark.at_ms,
        )
        if failed is None:
            return outcome
        return replace(outcome, error=failed.message, code=failed.code)

    async def _kept(self) -> tuple[Bookmark, Failed | None]:
        """Keep what was said, once: cut off in the middle of it, it may be kept all the same."""
        if self._keeping:
            return Bookmark(), None
        self._keeping = True
        try:
            with anyio.fail_after(PATIENCE):
                return await self._record.add(self.gains.messages()), None
        except StoreUnavailable as error:
            return Bookmark(), Failed(f"The answer could not be kept: {error.message}", error.code)
        except TimeoutError:
            code = StoreUnavailable.code
            return Bookmark(), Failed(
                "The answer could not be kept: the store does not answer.", code
            )

    def _judged(self) -> tuple[str, Failed | None]:
        """Say how the exchange ended."""
        failed = self._failed or self._cut_short()
        if failed is not None:
            return ERROR, failed
        if self._state == State.HOLDING:
            return DRAINING, None
        if self.gains.unanswered:
            return TURNS, None
        ended = STOPS.get(self.gains.stop, COMPLETED)
        return HOLD_ENDS.get(self._why, ended), None

    def _cut_short(self) -> Failed | None:
        """Say what is missing of an answer that ended without an error."""
        if self.gains.calls_strangers:
            return STRANGE
        if self._state not in (State.CLOSING, State.HOLDING):
            return LEAVING
        return LOST if self._why == FOLLOW_UP_LOST else None


def _error_of(text: str) -> str | None:
    """Return what a tool says went wrong, if it does."""
    result = read_object(text.encode())
    if result is None or result.get("ok") is not False:
        return None
    return str(result.get("error") or "The tool failed.")


def _nothing() -> None:
    return None
