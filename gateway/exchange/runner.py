"""Performs what the exchange machine decides: `WORK` names the function for each effect.

One such function, a worker, runs at a time and returns one outcome, which the machine judges. Only
two things cancel a worker: the client leaves or does not read (`_leave`), or the exchange is cut
because the gateway shuts down or the session is deleted (`cut`). However an exchange ends, its
connection and its claims are released, and the observers are told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import anyio

from gateway.errors import Draining, HoldgateError, Unavailable
from gateway.exchange.after_turns import close, hold, let_go, run_tools, show_error
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
    ClientGone,
    Crashed,
    Cut,
    HoldEnded,
    Outcome,
)
from gateway.exchange.machine import MOVES, Exchange, State
from gateway.exchange.model import ExchangeInfo
from gateway.exchange.notes import ClientNotes
from gateway.exchange.observer import (
    NOBODY,
    ExchangeEnded,
    Observer,
    RequestAnswered,
    RequestRefused,
    StateChanged,
    combine,
)
from gateway.exchange.ports import (
    Client,
    ExchangeTrace,
    Request,
    Services,
    Tracer,
    TrailKeeper,
)
from gateway.exchange.state import CLEAN_UP, ExchangeState
from gateway.exchange.trail import Trail
from gateway.exchange.turns import open_turn, relay_turn
from gateway.exchange.unread_turn import open_unread_turn, show_unread_error

WORK: Mapping[type[Effect], Callable[..., Awaitable[Outcome | None]]] = {
    OpenTurn: open_turn,
    RelayTurn: relay_turn,
    RunTools: run_tools,
    Hold: hold,
    Close: close,
    ShowError: show_error,
    LetGo: let_go,
}
UNREAD_WORK = {**WORK, OpenTurn: open_unread_turn, ShowError: show_unread_error}
"""The same for a request that is passed on unread."""


class ExchangeRunner:
    """Runs one exchange: one worker at a time, each with one outcome."""

    __slots__ = ("_scope", "_state", "_work")

    def __init__(
        self,
        request: Request,
        client: Client,
        observer: Observer,
        trace: ExchangeTrace | None = None,
        trail: Trail | None = None,
    ) -> None:
        self._state = ExchangeState(request, client, observer, trace, trail)
        self._work = WORK if request.unread_at is None else UNREAD_WORK
        self._scope: anyio.CancelScope | None = None

    def __repr__(self) -> str:
        return f"<ExchangeRunner {self._state.request.id} {self.exchange!r}>"

    @property
    def exchange(self) -> Exchange:
        """The machine that decides."""
        return self._state.exchange

    @property
    def trail(self) -> Trail | None:
        """What happened in it so far, if that is kept."""
        return self._state.trail

    @property
    def info(self) -> ExchangeInfo:
        """Which exchange it is, and whose."""
        return self._state.info

    @property
    def session_key(self) -> tuple[str, str | None]:
        """Whose exchange it is, and the session it belongs to, if the request names one."""
        return self._state.request.owner, self._state.request.session_id

    @property
    def begun(self) -> float:
        """When it began, by the clock of its services."""
        return self._state.begun

    @property
    def bytes(self) -> int:
        """How many bytes of upstreams' answers were read so far."""
        return self._state.past_bytes + self._state.turn_bytes

    async def run(self) -> None:
        """Do one thing after the other until there is nothing more, or the client leaves."""
        client = self._state.client
        client.give_up = self._leave
        unwatch = client.watch(self._leave)
        try:
            scope = self._scope = client.scope
            if scope is not None:
                await self._run()
            else:
                with anyio.CancelScope() as self._scope:
                    await self._run()
        finally:
            unwatch()
            # Nothing of an exchange is to wait for the collector: what it knows must not know it.
            client.give_up = _nothing
            self._state.splice.forget()

    async def _run(self) -> None:
        state, exchange = self._state, self._state.exchange
        now, trail = state.services.now, state.trail
        note = None if trail is None else trail.steps.append
        tells = StateChanged in state.wants
        effect: Effect | None = exchange.open_turn()
        try:
            while effect is not None and not state.ending:
                outcome = await self._work[type(effect)](state, effect)
                if outcome is None:
                    # After an error was shown, or all let go of, the machine is where it was.
                    effect = None
                    break
                effect = exchange.handle(outcome)
                if note is not None:
                    note((now(), exchange.state))
                if tells:
                    await self._tell_state(effect)
        finally:
            if effect is not None and state.ending:
                with anyio.move_on_after(CLEAN_UP, shield=True):
                    await self._give_in(effect)

    async def _give_in(self, effect: Effect) -> None:
        """Tell the machine that its worker was stopped, and do what is left to do."""
        state, exchange = self._state, self._state.exchange
        after: Effect | None = effect
        if not isinstance(effect, ShowError | LetGo):
            was_held, cut = exchange.state is State.HOLDING, state.cut
            after = exchange.handle(ClientGone() if state.gone or cut is None else Cut(cut))
            self._note_move()
            if was_held and isinstance(after, Close) and HoldEnded in state.wants:
                await state.tell(HoldEnded(after.reason))
        while after is not None:
            outcome = await self._work[type(after)](state, after)
            after = state.exchange.handle(outcome) if outcome is not None else None
            if outcome is not None:
                self._note_move()

    def cut(self, error: HoldgateError) -> None:
        """End what is under way: the gateway has to go, or its session was deleted."""
        self._state.cut = error
        self._state.ending = True
        self._stop()

    def is_clean(self) -> bool:
        """Whether it holds nothing that would have to be given back."""
        return self._state.is_clean()

    async def let_go(self) -> None:
        """Release all that is still held, whatever else is being cancelled."""
        await let_go(self._state, LetGo())

    def crash(self) -> None:
        """Take note that a fault of ours ended it."""
        state, error = self._state, Unavailable("Something went wrong inside the gateway.")
        if MOVES[state.exchange.state]:
            state.exchange.handle(Crashed(error))
            self._note_move()
        state.error = error
        state.status = state.status if state.client.started else error.status

    def _note_move(self) -> None:
        if self.trail is not None:
            self.trail.steps.append((self._state.services.now(), self.exchange.state))

    def tell_end(self) -> None:
        """Tell how it went; nobody is waited for."""
        state, now = self._state, self._state.services.now()
        ended = self.sum_up(now)
        if (trail := state.trail) is not None:
            if ended.error is None:
                trail.ended = ended
            else:
                trail.end_with_error(ended, ended.error)
        state.observer.observe(now, ended)

    def sum_up(self, now: float) -> ExchangeEnded:
        """Say how it went until now."""
        state = self._state
        first = state.first_at - state.begun if state.first_at is not None else None
        return ExchangeEnded(
            info=state.info,
            state=state.exchange.state,
            route=state.exchange.route,
            turns=state.exchange.number,
            tries=state.tries,
            status=state.status,
            seconds=now - state.begun,
            first_seconds=first,
            bytes=self.bytes,
            usage=state.usage,
            error=state.error,
            lost=state.lost,
        )

    def end_hold(self, reason: str) -> bool:
        """End its hold, so that the answer is finished; tell whether it was held."""
        # It may be held no more in the next moment, or not yet: the hold itself is asked.
        tools = self._state.tools
        is_held = self.exchange.state is State.HOLDING and tools is not None
        return is_held and tools is not None and tools.policy.end_hold(reason)

    def sample(self, now: float) -> None:
        """Note how many bytes of the turn came so far, and when the client got a heartbeat.

        To be told of each heartbeat costs more. While no bytes come, nothing else is sent.
        """
        state, trail = self._state, self.trail
        if trail is None:
            return
        exchange, client = state.exchange, state.client
        # Before the heartbeats: bytes that came meanwhile explain what was sent.
        if exchange.state is State.RELAYING:
            trail.note_flow(now, exchange.number, state.turn_bytes)
        if client.started and trail.is_later(client.last, exchange.state):
            trail.note_beat(client.last)

    def _leave(self) -> None:
        if not self._state.gone:
            self._state.gone = self._state.ending = True
            self._stop()

    def _stop(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    async def _tell_state(self, effect: Effect | None) -> None:
        """Tell in which state the machine is now."""
        state, exchange = self._state, self._state.exchange
        reason, state.remark = state.remark, ""
        if isinstance(effect, Close):
            reason = effect.disarm or effect.reason or reason
        await state.tell(StateChanged(exchange.state, exchange.number, reason))


def _nothing() -> None:
    return None


class LiveExchanges:
    """Runs exchanges; knows the upstreams, their health, and who is connected now."""

    def __init__(self, services: Services) -> None:
        self.services = services
        """What new exchanges are run with."""
        self.live: set[ExchangeRunner] = set()
        self._left: anyio.Event | None = None
        self.observer: Observer = NOBODY
        """Hears of all exchanges."""
        self.tracer: Tracer | None = None
        """Traces all exchanges."""
        self.trails: TrailKeeper | None = None
        """Keeps the trails of all exchanges."""
        self.draining = False
        """Whether no new ones are let in."""

    async def run(self, request: Request, client: Client) -> None:
        """Answer one request, whatever happens."""
        observer, tracer, trails = self._observer_of(request, client), self.tracer, self.trails
        trace = trail = None
        if tracer is not None:
            trace = tracer.open_exchange(request)
            observer = combine(observer, trace)
        if trails is not None:
            trail = Trail(request.source, self.services.now())
        runner = ExchangeRunner(request, client, observer, trace, trail)
        allowance = request.allowance
        # In a long wait the runner lets go of what is large in it, and nobody else is to hold it.
        del request
        self.live.add(runner)
        try:
            await runner.run()
        except Exception:
            runner.crash()
            raise
        finally:
            self.services.heartbeats.remove(client)
            if allowance is not None:
                allowance.end()
            if not runner.is_clean():
                await runner.let_go()
            self.live.discard(runner)
            if self._left is not None:
                self._left.set()
            runner.tell_end()
            # Last of all: then it has its end.
            if trails is not None and trail is not None:
                trails.keep(trail)

    def _observer_of(self, request: Request, client: Client) -> Observer:
        """Return who hears all that happens in one exchange; mostly nobody does."""
        observer = request.observer
        if request.notes and request.asked.stream:
            # A body of one piece has no place for notes, even when white space has begun it.
            observer = combine(observer, ClientNotes(client))
        return combine(observer, self.observer)

    def check_open(self) -> None:
        """Raise `Draining` once no new exchanges are let in."""
        if self.draining:
            raise Draining("The gateway is shutting down; try again shortly.", retry_after=1)

    def tell(self, happening: RequestRefused | RequestAnswered) -> None:
        """Tell of a request that does not become an exchange."""
        if type(happening) in self.observer.wants:
            self.observer.observe(self.services.now(), happening)

    async def idle(self) -> None:
        """Return when no exchange is under way."""
        while self.live:
            await self._wait_for_an_end()

    def is_answering(self, owner: str, session: str) -> bool:
        """Whether an exchange of this session is under way."""
        return any(runner.session_key == (owner, session) for runner in self.live)

    def live_sessions(self, owner: str) -> set[str]:
        """Return the sessions of an owner in which an exchange is under way."""
        keys = [runner.session_key for runner in self.live]
        return {session for of, session in keys if of == owner and session is not None}

    async def idle_session(self, owner: str, session: str) -> None:
        """Return when no exchange of this session is under way."""
        while self.is_answering(owner, session):
            await self._wait_for_an_end()

    def cut_session(self, owner: str, session: str, error: HoldgateError) -> None:
        """End the exchanges of a session that are still going, with this to say."""
        for runner in tuple(self.live):
            if runner.session_key == (owner, session):
                runner.cut(error)

    async def _wait_for_an_end(self) -> None:
        if self._left is None or self._left.is_set():
            self._left = anyio.Event()
        await self._left.wait()

    def cut(self, error: HoldgateError) -> None:
        """End every exchange that is still going, with this to say."""
        for runner in tuple(self.live):
            runner.cut(error)
