"""The stored states of sessions, and a session for the length of one exchange."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import anyio

from gateway.exchange.additions import ToolResult
from gateway.sessions.call_signatures import CallSignatures
from gateway.sessions.directives.memory import NewestMessage
from gateway.sessions.directives.routing import Routing
from gateway.sessions.identity import Requester
from gateway.sessions.model import (
    KeptTurn,
    SessionState,
    StopMessage,
    disarm,
    end_message,
    is_sent,
    keep,
    use_one,
    without_old,
)
from gateway.sessions.remaining_work import states_completion
from gateway.sessions.request_kind import SideCalls, digest_system
from gateway.sessions.session_request import (
    CALL,
    KIND,
    NEW,
    SHAPE,
    Kind,
    SessionRequest,
    SessionSettings,
)
from gateway.sessions.task_tracker import TaskTracker
from gateway.stores.documents import (
    DocumentKey,
    Documents,
    StoreUnavailable,
    amend,
    fetch,
    iterate_due,
    unseal,
)
from gateway.stores.hints import STATE

R = TypeVar("R")
Note = Callable[..., None]
Change = Callable[[SessionState], tuple[SessionState, R]]
SILENT = (Kind.COMPACTION, Kind.STRUCTURED)
NOTHING_LISTED = "no work is left: bd lists none"
NOTHING_LEFT_SAID = "no work is left: the answer says so"


class SessionStates:
    """The stored states of all sessions."""

    def __init__(self, store: Documents, note: Note) -> None:
        self.store = store
        self.note = note
        self.signatures = CallSignatures(store, note)
        self.hints = store.hints
        self.on_forget: Callable[[DocumentKey], None] = lambda key: None
        """Called for each session that is forgotten."""

    async def read(self, key: DocumentKey | None) -> SessionState:
        """Return a session's state; an empty one if the store is down."""
        if key is None or self.store.absent(key):
            return NEW
        try:
            return await fetch(self.store, key, SHAPE)
        except StoreUnavailable as error:
            self.note("session_not_read", owner=key.owner, session=key.session, why=error.message)
            return NEW

    def recall_routing(self, owner: str, name: str) -> Routing:
        """Return the routing that was in force when the state was seen last by this process."""
        key = DocumentKey(KIND, owner, name)
        stored = self.store.recall(key)
        try:
            return (
                NEW.routing
                if not (stored and stored.revision)
                else unseal(key, stored, SHAPE).routing
            )
        except StoreUnavailable:
            return NEW.routing

    async def show(self, owner: str, name: str) -> SessionState:
        """Return a session's state; raise `StoreUnavailable` if the store is down."""
        return await fetch(self.store, DocumentKey(KIND, owner, name), SHAPE)

    async def change(self, key: DocumentKey, change: Change[R], elsewhere: bool = True) -> R:
        """Change a session's state, durably; raise `StoreUnavailable` if the store is down.

        `elsewhere`: exchanges at other instances look again, too.
        """
        is_changed = False

        def change_and_note(state: SessionState) -> tuple[SessionState, R]:
            nonlocal is_changed
            after, answer = change(state)
            is_changed = after != state
            return after, answer

        try:
            return await amend(self.store, key, change_and_note, SHAPE)
        finally:
            if is_changed:
                self.hints.tell(STATE, (key.owner, key.session), elsewhere)

    async def forget(self, owner: str, name: str) -> None:
        """Delete a session's state."""
        key = DocumentKey(KIND, owner, name)
        await self.signatures.forget(owner, name)
        await self.store.delete(key)
        self.hints.tell(STATE, (owner, name))
        self.on_forget(key)

    async def run(self, tick_ms: int) -> NoReturn:
        """Sweep now, and then every tick, for ever; of those that share a store one does it."""
        while True:
            try:
                if await self.store.chores.take("sessions", tick_ms):
                    await self.sweep()
            except StoreUnavailable as error:
                self.note("sessions_not_swept", why=error.message)
            await anyio.sleep(tick_ms / 1000)

    async def sweep(self) -> None:
        """Delete kept turns and signatures that expired, and sessions of which nothing is left."""
        await self.signatures.sweep()
        async with aclosing(iterate_due(self.store, KIND, self.store.now_ms())) as found:
            async for keys in found:
                for key in keys:
                    await self._tidy(key)

    async def _tidy(self, key: DocumentKey) -> None:
        now_ms = self.store.now_ms()
        try:
            await self.change(key, lambda state: (without_old(state, now_ms), None), False)
        except StoreUnavailable as error:
            # One bad session must not stop the sweep of the others.
            who = {"owner": key.owner, "session": key.session}
            self.note("sessions_not_swept", **who, why=error.message)


@dataclass(slots=True)
class SessionServices:
    """What all sessions share: stored states, settings, the task tracker, side calls."""

    states: SessionStates
    settings: SessionSettings
    tracker: TaskTracker
    side_calls: SideCalls


class RequestSession:
    """A session during one exchange: the stop message, kept turns, whether it is a side call."""

    def __init__(
        self,
        services: SessionServices,
        request: SessionRequest,
        state: SessionState,
        kind: Kind,
        message: NewestMessage | None = None,
    ) -> None:
        self._services = services
        self._states = services.states
        # Not the request itself: its body may be large, and the exchange long.
        self._owner, self._name, self._key = request.owner, request.name, request.key
        self._dialect = request.dialect.name
        self._kind = kind
        self._read = state
        self._hints = services.states.hints
        self._mark = request.mark
        self._offered: StopMessage | None = None
        self._claimed: StopMessage | None = None
        # For a message that came without history, it matters how its exchange ends.
        self._message = message if message is not None and is_sent(state, message) else None
        self.awaits_end = self._message is not None
        self._tools = bool(request.asked.tools)
        # A request without tools may turn out to be a side call while it is being answered.
        self._doubtful = None if self._tools or request.key is None else request
        self._system = ""
        if self._tools and request.key is not None:
            self._system = services.side_calls.last_system(request.key) or ""

    def is_quiet(self) -> bool:
        """Return without I/O whether there is no stop message, as in nearly all sessions."""
        return self._read.stop is None and not self._is_changed()

    def _is_changed(self) -> bool:
        """Return whether the stored state may be another than was read last."""
        name = self._name
        # Without a session id, what is in force ends with the exchange.
        return name is not None and self._hints.has_changed(STATE, (self._owner, name), self._mark)

    def is_auxiliary(self) -> bool:
        """Check again whether this is a side call: a request with tools may have come since."""
        if self._tools or self._key is None:
            return False
        last = self._services.side_calls.last_system(self._key)
        if last is None:
            return False
        self.rest()
        return last != self._system

    def requester(self) -> Requester:
        """Return what kind of request this is."""
        self.rest()
        return Requester(self._tools, self._system)

    def rest(self) -> None:
        """Release the request, so that it is not in memory during a long wait."""
        request, self._doubtful = self._doubtful, None
        if request is not None:
            self._system = digest_system(request.dialect, request.asked)

    async def repeat(self) -> str | None:
        """Return the stop message's text if it may be sent once more; else None."""
        if self._kind in SILENT or self.is_auxiliary():
            return None
        if self._is_changed():
            self._mark = self._hints.mark()
            self._read = await self._states.read(self._key)
        stop = self._read.stop
        if stop is None or not stop.armed or not self._services.settings.rules.enabled:
            return None
        self._offered = stop
        return stop.text

    async def claim(self, answer: str) -> str:
        """Count one use of the stop message, durably; return why it is not sent, or empty."""
        if why := await self._why_no_work_is_left(answer):
            self._log("stop_message_rests", why=why)
            return f"stopMessage was not sent: {why}"
        stop, now = self._offered, self._states.store.now_ms()
        assert stop is not None
        self._claimed = stop
        counted = await self._change(lambda state: use_one(state, stop, now), failed=None)
        if counted is None:
            return "stopMessage was not sent: the new count cannot be stored"
        return "" if counted else "stopMessage was not sent: another request used or changed it"

    @property
    def uses(self) -> tuple[int, int]:
        """How often the stop message was used until now, and how often it may be used."""
        stop = self._claimed
        assert stop is not None
        return stop.used + 1, stop.max_repeats

    async def disarm(self, reason: str) -> None:
        """Mark the stop message that was claimed last as used up, durably."""
        stop = self._claimed
        assert stop is not None
        self._log("stop_message_disarmed", why=reason)
        await self._change(lambda state: (disarm(state, stop), None), failed=None)

    async def keep(
        self, message: bytes, calls: tuple[str, ...], results: tuple[ToolResult, ...]
    ) -> None:
        """Store a turn of which the client was shown only some calls, to rebuild it later.

        Without a session it is found again by the id of the first of those calls.
        """
        now_ms = self._states.store.now_ms()
        if not calls:
            return
        kept = KeptTurn(message, self._dialect, calls, results, now_ms)
        key = self._key or DocumentKey(KIND, self._owner, CALL + calls[0])
        try:
            # No other exchange needs it: it is for the next request.
            await self._states.change(key, lambda state: (keep(state, kept, now_ms), None), False)
        except StoreUnavailable as error:
            self._log("tool_results_not_stored", why=error.message)

    async def end(self) -> None:
        """Store that the exchange ended normally: its message, sent again, acts again."""
        message = self._message
        assert message is not None
        await self._change(lambda state: (end_message(state, message), None), failed=None)

    async def _change(self, change: Change[R], failed: R) -> R:
        if self._key is None:
            self._read, answer = change(self._read)
            return answer
        try:
            return await self._states.change(self._key, change, False)
        except StoreUnavailable as error:
            self._log("session_not_stored", why=error.message)
            return failed

    async def _why_no_work_is_left(self, answer: str) -> str:
        mode = self._services.settings.bd_mode
        left = None if mode == "heuristic" else await self._services.tracker.is_work_left()
        if left is None and mode != "runtime":
            return NOTHING_LEFT_SAID if states_completion(answer) else ""
        return NOTHING_LISTED if left is False else ""

    def _log(self, event: str, **fields: object) -> None:
        self._states.note(event, owner=self._owner, session=self._name, **fields)
