"""One exchange under way: the machine's effects, performed one at a time."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from gateway.core.additions import Addition, UserText
from gateway.core.effects import (
    Close,
    Effect,
    LetGo,
    OpenTurn,
    RelayTurn,
    ShowError,
)
from gateway.core.events import (
    ClientGone,
    HoldEnded,
    OpeningFailed,
    Outcome,
    Saved,
    StreamBroke,
    ToolsKept,
    TurnEnded,
    TurnOpened,
)
from gateway.core.exchange import Exchange, State
from gateway.core.model import Stop, TurnEnd, Usage
from gateway.dialects.base import Splice, Tap
from gateway.driver.values import (
    Client,
    Report,
    Request,
    Services,
    Session,
    error_headers,
)
from gateway.errors import (
    Headers,
    HoldgateError,
    Unavailable,
    UpstreamAnswered,
    UpstreamError,
)
from gateway.sse import comment
from gateway.upstream.base import Turn, Upstream
from gateway.upstream.blot import blotted
from gateway.upstream.headers import towards_client

CLEAN_UP = 2.0
OPENED = TurnOpened()
SAVED = Saved()
STREAM_HEADERS: Headers = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Drive:
    """One exchange under way."""

    __slots__ = (
        "_begun",
        "_body",
        "_body_turn",
        "_client",
        "_cut",
        "_error",
        "_first",
        "_first_at",
        "_gone",
        "_headers",
        "_request",
        "_scope",
        "_services",
        "_splice",
        "_status",
        "_tap",
        "_turn",
        "_usage",
        "exchange",
    )

    def __init__(self, services: Services, request: Request, client: Client) -> None:
        asked, limits = request.asked, services.limits
        routes = services.health.order(request.routes, services.now())
        size = limits.event_bytes if asked.stream else limits.answer_bytes
        self.exchange = Exchange(routes, services.rules, limits.turns)
        self._services = services
        self._request = request
        self._client = client
        self._splice: Splice = request.dialect.splice(asked, frozenset(), size)
        self._body = asked.body
        self._body_turn = 1
        self._tap: Tap | None = None
        self._turn: Turn | None = None
        self._first = b""
        self._headers: Headers = ()
        self._scope: anyio.CancelScope | None = None
        self._gone = False
        self._cut: HoldgateError | None = None
        self._error: HoldgateError | None = None
        self._status = 200
        self._usage: Usage | None = None
        self._begun = services.now()
        self._first_at: float | None = None

    def __repr__(self) -> str:
        return f"<Drive {self._request.id} {self.exchange!r}>"

    async def run(self) -> None:
        """Do one thing after the other until there is nothing more, or the client leaves."""
        self._client.give_up = self._leave
        unwatch = self._client.watch(self._leave)
        effect: Effect | None = self.exchange.begin()
        try:
            while effect is not None:
                with anyio.CancelScope() as self._scope:
                    while effect is not None and not (self._gone or self._cut):
                        outcome = await WORK[type(effect)](self, effect)
                        effect = self.exchange.handle(outcome) if outcome is not None else None
                        if self._request.notes:
                            await self._note(effect)
                if effect is not None:
                    effect = await self._give_in(effect)
        finally:
            unwatch()

    async def _give_in(self, effect: Effect) -> Effect | None:
        """Tell the machine that its worker was stopped, and do what is left to do."""
        if not isinstance(effect, ShowError | LetGo):
            outcome: Outcome | None = ClientGone() if self._gone else self._cut_short()
            assert outcome is not None
            after = self.exchange.handle(outcome)
        else:
            after = effect
        with anyio.move_on_after(CLEAN_UP):
            while after is not None:
                outcome = await WORK[type(after)](self, after)
                after = self.exchange.handle(outcome) if outcome is not None else None
        return None

    def cut(self, error: HoldgateError) -> None:
        """End what is under way: the gateway has to go."""
        self._cut = error
        self._stop()

    @property
    def holds_turn(self) -> bool:
        """Whether an upstream is still connected."""
        return self._turn is not None

    async def let_go(self) -> None:
        """Close the upstream at once, whatever else is being cancelled."""
        turn, self._turn = self._turn, None
        if turn is not None:
            with anyio.move_on_after(CLEAN_UP, shield=True):
                await turn.aclose()

    def crashed(self) -> None:
        """Note that a fault of ours ended it."""
        self.exchange.state = State.FAILED
        self._error = Unavailable("Something went wrong inside the gateway.")
        self._status = self._status if self._client.started else self._error.status

    def report(self) -> Report:
        """Say how it went."""
        request, error = self._request, self._error
        first = self._first_at - self._begun if self._first_at is not None else None
        return Report(
            request_id=request.id,
            owner=request.owner,
            model=request.asked.model,
            stream=request.asked.stream,
            state=self.exchange.state,
            upstream=self.exchange.route.upstream,
            turns=self.exchange.number,
            status=self._status,
            code=error.code if error else "",
            seconds=self._services.now() - self._begun,
            first_seconds=first,
            usage=self._usage,
        )

    def _leave(self) -> None:
        if not self._gone:
            self._gone = True
            self._stop()

    def _stop(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _cut_short(self) -> Outcome:
        assert self._cut is not None
        # The state tells, not the effect: a note may have been waiting between two of them.
        match self.exchange.state:
            case State.OPENING:
                return OpeningFailed(self._cut)
            case State.RELAYING:
                return StreamBroke(self._cut)
            case State.HOLDING:
                return HoldEnded("draining")
            case State.TOOLING:
                return ToolsKept()
        return Saved()

    async def _open(self, effect: OpenTurn) -> Outcome:
        upstream = self._services.upstreams[effect.route.upstream]
        try:
            await self._ask(upstream, effect)
        except HoldgateError as error:
            self._failed(upstream, error)
            await self.let_go()
            return OpeningFailed(error)
        self._services.health.answered(effect.route.upstream)
        self._error = None
        if self._first_at is None:
            self._first_at = self._services.now()
        return OPENED

    def _noted(self, upstream: Upstream, error: HoldgateError) -> None:
        self._error = error
        if isinstance(error, UpstreamAnswered):
            error.body = blotted(error.body, upstream.endpoint)

    def _failed(self, upstream: Upstream, error: HoldgateError) -> None:
        self._noted(upstream, error)
        if error.may_fail_over:
            after = _retry_after(error)
            self._services.health.failed(upstream.endpoint.id, self._services.now(), after)

    async def _ask(self, upstream: Upstream, effect: OpenTurn) -> None:
        """Send the turn's request and wait for its first frame."""
        request = self._request
        body = self._built(effect.number, effect.additions)
        asked = request.asked
        if effect.route.model != asked.model or asked.stream_implied:
            body = request.dialect.rewrite(body, effect.route.model, asked.stream)
        name = f"{request.id}:{effect.suffix}" if effect.suffix else request.id
        turn = await upstream.open(body, (*request.headers, (b"x-request-id", name.encode())))
        self._turn = turn
        if not self._splice.accepts(_content_type(turn.headers)):
            raise await self._refusal(turn)
        if not self._client.started:
            self._greet(effect.route.upstream, turn)
        tap = self._tap = self._splice.tap()
        async for data in turn:
            self._first = tap.feed(data)
            if tap.seen:
                return
            if self._gone or self._cut:
                await checkpoint_if_cancelled()
        self._first = tap.close()

    def _built(self, number: int, additions: tuple[Addition, ...]) -> bytes:
        """Build a follow-up once; another route is asked the same."""
        if number > self._body_turn:
            assert self._tap is not None
            told = (self._tap.answered(), *additions)
            self._body = self._request.dialect.add(self._body, told)
            self._body_turn = number
        return self._body

    async def _refusal(self, turn: Turn) -> UpstreamError:
        """Read what was answered instead of what was asked for."""
        body = b""
        async for data in turn:
            body += data
            if len(body) > 65536:
                break
        return self._request.dialect.refusal(body)

    def _greet(self, upstream: str, turn: Turn) -> None:
        """Prepare the start line: from here on a quiet upstream means heartbeats."""
        name = (b"x-holdgate-upstream", upstream.encode())
        kind = (b"content-type", self._splice.content_type)
        self._headers = (kind, name, *towards_client(turn.headers))
        if self._request.asked.stream:
            self._client.ready(self._headers + STREAM_HEADERS, self._splice.heartbeat)
            self._services.beats.add(self._client)

    async def _relay(self, effect: RelayTurn) -> Outcome:
        """Pass frames on; this loop is the data plane."""
        turn, tap, client = self._turn, self._tap, self._client
        assert turn is not None
        assert tap is not None
        try:
            if self._request.asked.stream:
                await client.frames(self._first)
            if not tap.ended:
                async for data in turn:
                    shown = tap.feed(data)
                    if shown:
                        await client.frames(shown)
                    if tap.ended:
                        break
                    if self._gone or self._cut:
                        # A stream that never pauses leaves no moment to cancel it in.
                        await checkpoint_if_cancelled()
                else:
                    await client.frames(tap.close())
            if tap.failure is not None:
                raise tap.failure
        except UpstreamError as error:
            self._noted(self._services.upstreams[self.exchange.route.upstream], error)
            await self.let_go()
            return StreamBroke(error)
        self._turn = None
        await turn.release()
        return await self._ended(tap)

    async def _ended(self, tap: Tap) -> Outcome:
        self._splice.take(tap)
        end = tap.end()
        if end.usage is not None:
            self._usage = end.usage if self._usage is None else self._usage + end.usage
        session = self._request.session
        if session is None or end.stop is not Stop.STOP:
            return TurnEnded(end)
        return await self._offer(session, end, tap)

    async def _offer(self, session: Session, end: TurnEnd, tap: Tap) -> Outcome:
        """Ask the session whether it goes on; what it goes on with is counted before it is sent."""
        text = await session.repeat()
        if text is None:
            return TurnEnded(end)
        said = tap.text()
        offered = TurnEnded(end, text, " ".join(said.casefold().split()))
        if not self.exchange.would_repeat(offered):
            return offered
        body = self._request.dialect.add(self._body, (tap.answered(), UserText(text)))
        if not await session.claim(said):
            return TurnEnded(end)
        self._body, self._body_turn = body, self.exchange.number + 1
        return offered

    async def _close(self, effect: Close) -> Outcome:
        if effect.disarm and self._request.session is not None:
            with anyio.move_on_after(CLEAN_UP, shield=True):
                await self._request.session.disarm(effect.disarm)
        tail = self._splice.tail(effect.plainly)
        if self._request.asked.stream:
            await self._client.end(tail)
        else:
            await self._client.whole(200, self._headers, tail)
        return SAVED

    async def _show_error(self, effect: ShowError) -> None:
        error, dialect = effect.error, self._request.dialect
        self._error = error
        if self._client.started:
            await self._client.end(dialect.error_frame(error))
            return
        self._status = error.status
        route = (b"x-holdgate-upstream", self.exchange.route.upstream.encode())
        headers = (*error_headers(error), route)
        await self._client.whole(error.status, headers, dialect.error_body(error))

    async def _let_go(self, effect: LetGo) -> None:
        await self.let_go()

    async def _note(self, effect: Effect | None) -> None:
        if self._client.started and self.exchange.state not in (State.DONE, State.FAILED):
            note = {"state": self.exchange.state, "turn": self.exchange.number}
            why = effect.disarm if isinstance(effect, Close) else ""
            text = json.dumps({**note, "why": why} if why else note)
            await self._client.frames(comment(f"holdgate {text}"))


WORK: Mapping[type[Effect], Callable[..., Awaitable[Outcome | None]]] = {
    OpenTurn: Drive._open,
    RelayTurn: Drive._relay,
    Close: Drive._close,
    ShowError: Drive._show_error,
    LetGo: Drive._let_go,
}


def _content_type(headers: Headers) -> bytes:
    for name, value in headers:
        if name == b"content-type":
            return value.lower()
    return b""


def _retry_after(error: HoldgateError) -> float | None:
    if not isinstance(error, UpstreamAnswered):
        return error.retry_after
    value = next((value for name, value in error.headers if name == b"retry-after"), b"")
    return float(value) if value.isdigit() else None
