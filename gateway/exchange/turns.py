"""The effects `OpenTurn` and `RelayTurn`: ask an upstream, pass its frames on, judge the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from anyio.lowlevel import checkpoint_if_cancelled

from gateway.dialects.protocol import Tap
from gateway.dialects.seals import may_be_sealed
from gateway.dialects.translators import translate_large
from gateway.errors import (
    Headers,
    HoldgateError,
    LimitExceeded,
    ReservationLost,
    UpstreamAnswered,
    UpstreamError,
)
from gateway.exchange.additions import UserText
from gateway.exchange.answer_form import find_header, read_form
from gateway.exchange.claim_check import confirm_claim
from gateway.exchange.effects import OpenTurn, RelayTurn
from gateway.exchange.events import (
    OpeningFailed,
    Outcome,
    RouteFailed,
    StreamBroke,
    TurnFinished,
    TurnOpened,
)
from gateway.exchange.model import Route, Stop, TurnEnd
from gateway.exchange.observer import (
    FirstFrame,
    Heartbeat,
    RouteTried,
    Spliced,
    StopMessageFired,
    TurnEnded,
    UpstreamClosed,
    UsageRefused,
)
from gateway.exchange.settling import settle
from gateway.exchange.state import ExchangeState
from gateway.exchange.trail import TURN_ENDED
from gateway.exchange.turn_signatures import keep_signatures, load_signatures
from gateway.reminders.turn_claim import TurnClaims
from gateway.sessions.request_session import RequestSession
from gateway.wire.http_client.upstream import Turn, Upstream

Ask = Callable[[ExchangeState, OpenTurn], Awaitable[None]]
OPENED = TurnOpened()
# Statuses with which upstreams refuse a member they do not know, and how they name it.
REFUSALS = (400, 422)
USAGE_OPTION = b"stream_options"
STREAM_HEADERS: Headers = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


async def open_turn(state: ExchangeState, effect: OpenTurn, ask: Ask | None = None) -> Outcome:
    """Ask a route, until its first frame is in."""
    upstream, services = effect.route.upstream, state.services
    if (allowance := state.request.allowance) is not None:
        try:
            allowance.take_turn(effect.number)
        except LimitExceeded as exceeded:
            state.error = exceeded
            return OpeningFailed(exceeded)
    if RouteTried in state.wants:
        await state.tell(RouteTried(effect.number, effect.route))
    try:
        try:
            await (ask or _send)(state, effect)
        except UpstreamAnswered as refused:
            if not _refuses_usage(state, refused):
                raise
            await state.let_go()
            await _send_without_usage(state, effect)
        if state.tools is not None and (claim := state.tools.claims.current) is not None:
            await confirm_claim(claim)
    except HoldgateError as raised:
        # An upstream's own error: translated, it may have lost its status.
        error = (state.translator and state.translator.failure) or raised
        error = state.note_failure(upstream, error)
        if error.may_fail_over:
            services.health.note_failure(upstream, services.now(), _retry_after(error))
        await state.let_go()
        if RouteFailed in state.wants:
            await state.tell(RouteFailed(error, effect.route))
        return OpeningFailed(error)
    if upstream in services.health.troubles:
        services.health.note_answer(upstream)
    state.error = None
    state.turn_began, state.first_reads = services.now(), state.turn_reads
    if state.first_at is None:
        state.first_at = state.turn_began
    if FirstFrame in state.wants:
        await state.tell(FirstFrame(effect.number))
    if effect.number > 1 and Spliced in state.wants:
        await state.tell(Spliced(effect.number))
    return OPENED


def _refuses_usage(state: ExchangeState, error: UpstreamAnswered) -> bool:
    """Whether an upstream may have refused a request because it was asked for usage."""
    asked = state.request.asked
    is_own = asked.stream and (state.translator is not None or not asked.wants_usage)
    return is_own and error.status in REFUSALS and USAGE_OPTION in error.body


async def _send_without_usage(state: ExchangeState, effect: OpenTurn) -> None:
    """Send the request without asking for usage; if that was why it was refused, never ask again.

    The client may have had the name in what it wrote, and what it wrote changes nothing for others.
    """
    services, upstream = state.services, effect.route.upstream
    plain = services.translators.without_usage(upstream)
    state.services = replace(services, translators=plain)
    await _send(state, effect)
    if services.translators.stop_asking_usage(upstream) and UsageRefused in state.wants:
        await state.tell(UsageRefused(upstream))


async def _send(state: ExchangeState, effect: OpenTurn) -> None:
    """Send the turn's request and wait for its first frame."""
    request, state.translator = state.request, None
    state.begin_try()
    if effect.waits_its_turn:
        await state.acquire_slot()
    if effect.number > state.body_turn and (effect.number > 1 or not state.begin_now()):
        await _build(state, effect)
    name = f"{request.id}:{effect.suffix}" if effect.suffix else request.id
    translators, where = state.services.translators, effect.route.upstream
    if where in translators.signed and state.signatures is None:
        await load_signatures(state)
    if len(state.body) <= state.services.offload.above:
        body = _address(state, effect.route, name)
    else:
        body = await _address_aside(state, effect.route, name)
    if state.translator is not None:
        state.hide_usage()
    upstream = state.upstreams[where]
    query = request.query if state.translator is None else b""
    passed = translators.select_headers(where, request.dialect.name, request.headers)
    headers = make_headers(state, name, passed, upstream)
    turn = await upstream.open(body, headers, query, effect.route.model)
    state.turn = turn
    if not state.client.started:
        greet(state, where, turn)
    state.turn, first = await read_form(state, turn, name)
    await read_first(state, state.turn, first)
    if request.asked.stream and state.exchange.has_other_routes:
        await settle(state, upstream.endpoint.timeouts.settle)


def make_headers(state: ExchangeState, name: str, passed: Headers, upstream: Upstream) -> Headers:
    """Return what an upstream is told beside the body: what passes of the client's, and an id."""
    headers = (*passed, (b"x-request-id", name.encode()))
    if upstream.endpoint.takes_client_key:
        headers += state.request.client_key
    if state.trace is not None:
        return headers + state.trace.open_turn(state.exchange.route)
    return headers + state.request.source.trace_context


async def read_first(state: ExchangeState, turn: Turn, data: bytes | None) -> None:
    """Read until the first frame is in, or the whole body; this is what was read before."""
    tap = state.tap = state.splice.tap()
    state.first = b""
    while data is not None:
        if data:
            state.turn_bytes += len(data)
            state.turn_reads += 1
            state.first += tap.feed(data)
        if tap.seen:
            return
        if turn.over:
            break
        if state.ending:
            await checkpoint_if_cancelled()
        data = await anext(turn, None)
    state.first += tap.close()


def _address(state: ExchangeState, route: Route, name: str) -> bytes:
    """Say the request to an upstream: by its name for the model, in its dialect.

    The fast twin of `_address_aside`, for all but large requests: it saves a coroutine and a task
    that could be sent elsewhere for each step.
    """
    asked, dialect, body = state.request.asked, state.request.dialect, state.body
    if route.model != asked.model or asked.stream_implied:
        body = dialect.rewrite(body, route.model, asked.stream)
    translators = state.services.translators
    translator = translators.make_translator(route.upstream, dialect, body, name)
    state.translator = translator
    if translator is None:
        body = dialect.strip_foreign_reasoning(body)
        if asked.stream and not asked.wants_usage and _asks_usage(state, route.upstream):
            body = dialect.ask_usage(body)
        return translators.fit_body(route.upstream, body, state.gateway_parts)
    body = translator.request(body, state.gateway_parts())
    state.lost = translator.lost
    return body


async def _address_aside(state: ExchangeState, route: Route, name: str) -> bytes:
    """Say a large request to an upstream; the same as `_address`, done beside the loop."""
    asked, dialect, body = state.request.asked, state.request.dialect, state.body
    work = partial(state.work, len(body))
    if route.model != asked.model or asked.stream_implied:
        body = await work(partial(dialect.rewrite, body, route.model, asked.stream))
    translators, upstream = state.services.translators, route.upstream
    state.translator = None
    task = translators.plan_translation(upstream, dialect, name, state.gateway_parts)
    if task is None:
        if may_be_sealed(body):
            body = await work(partial(dialect.strip_foreign_reasoning, body))
        if asked.stream and not asked.wants_usage and _asks_usage(state, upstream):
            body = await work(partial(dialect.ask_usage, body))
        fitting = translators.make_fitter(upstream, state.gateway_parts)
        return body if fitting is None else await work(partial(fitting, body))
    translated = await work(partial(translate_large, task, body))
    state.translator = translators.make_answer_translator(upstream, dialect, translated)
    state.lost = translated.lost
    return translated.body


def _asks_usage(state: ExchangeState, upstream: str) -> bool:
    """Whether a client's stream is asked for usage in its place; then the client gets no usage."""
    asks = state.splice.hides_usage = state.services.translators.asks_usage(upstream)
    return asks


async def _build(state: ExchangeState, effect: OpenTurn) -> None:
    """Build the turn's request, once: another route is asked the same."""
    if effect.number == 1:
        assert state.tools is not None
        additions = state.tools.begin_now()
        if additions is None:
            additions = await state.tools.begin()
    elif state.tap is not None:
        additions = (state.tap.rebuild_turn(), *effect.additions)
    else:
        # After a long wait that turn is in the request already; only what ended the wait is not.
        assert state.tools is not None
        additions = state.tools.wake_up()
    if additions:
        body = await state.unpack() if state.packed else state.body
        await state.add(body, additions)
    state.body_turn = effect.number


def greet(state: ExchangeState, upstream: str, turn: Turn) -> None:
    """Prepare the start line: from here on a quiet upstream means heartbeats."""
    name = (b"x-holdgate-upstream", upstream.encode())
    kind = (b"content-type", state.splice.content_type)
    state.headers = (kind, name, *state.choose_client_headers(turn.headers))
    if state.request.asked.stream:
        state.client.ready(state.headers + STREAM_HEADERS, state.splice.heartbeat)
        on_sent = state.tell_heartbeat if Heartbeat in state.wants else None
        state.services.heartbeats.add(state.client, on_sent)


async def relay_turn(state: ExchangeState, effect: RelayTurn) -> Outcome:
    """Pass frames on; this is the data plane."""
    turn, tap = state.turn, state.tap
    assert turn is not None
    assert tap is not None
    try:
        if state.first or state.request.asked.stream:
            first, state.first = state.first, b""
            await _show(state, first)
        if not tap.ended:
            if state.client.blocked:
                await _wait_for_client(state, turn)
            await _pass_on(state, turn, tap)
        if tap.failure is not None:
            raise tap.failure
    except (UpstreamError, ReservationLost) as raised:
        error = state.note_failure(state.exchange.route.upstream, raised)
        await state.let_go()
        return StreamBroke(error)
    state.splice.take(tap)
    end = tap.end()
    if TurnEnded in state.wants:
        # Before the connection is given back, which may take a moment: a client that leaves just
        # then has used these tokens. And nothing of the turn can break any more.
        ended, state.turn_reads = _describe_turn(state, end, tap), 0
        at = state.turn_began + ended.seconds
        if (trail := state.trail) is not None:
            trail.steps.append((at, TURN_ENDED, end.stop, ended.bytes, end.usage, ended.route))
        pending = state.observer.observe(at, ended) if TurnEnded in state.observer.wants else None
        if pending is not None:
            await pending
    state.turn = None
    await turn.release()
    if state.has_slot:
        state.release_slot()
    # The trail knows it by the end of the turn.
    if UpstreamClosed in state.observer.wants:
        await state.tell(UpstreamClosed(state.exchange.number, was_cut=False))
    return await _end_turn(state, end, tap)


async def _pass_on(state: ExchangeState, turn: Turn, tap: Tap) -> None:
    client, feed, reads = state.client, tap.feed, 0
    claims = None if state.tools is None else state.tools.claims
    try:
        async for data in turn:
            # Not in a variable of its own: whoever looks at the exchange reads it meanwhile.
            state.turn_bytes += len(data)
            reads += 1
            shown = feed(data)
            if shown:
                if claims is None or claims.current is None:
                    await client.frames(shown)
                else:
                    await _show(state, shown)
            if tap.ended:
                break
            if client.blocked:
                # What was read is not to be kept twice meanwhile.
                data = shown = b""
                await _wait_for_client(state, turn)
            if state.ending:
                # A stream that never pauses leaves no moment to cancel it in.
                await checkpoint_if_cancelled()
        else:
            await _show(state, tap.close())
    finally:
        state.turn_reads += reads


async def _wait_for_client(state: ExchangeState, turn: Turn) -> None:
    """Wait until the client reads; whoever does not is not read ahead for."""
    turn.pause()
    await state.client.drain()


async def _show(state: ExchangeState, frames: bytes) -> None:
    """Show frames, and deliver what they answer."""
    claims = None if state.tools is None else state.tools.claims
    if not frames or claims is None or claims.current is None:
        await state.client.frames(frames)
        return
    await confirm_claim(claims.current)
    await state.client.frames(frames)
    await _deliver(state, claims, frames)


async def _deliver(state: ExchangeState, claims: TurnClaims, shown: bytes) -> None:
    """Count what the turn carries as delivered with the first frames that say anything.

    Frames that only announce an answer do not count: after a reset the client asks again.
    """
    if state.request.dialect.shows_content(shown):
        await state.commit_claim(claims)


async def _end_turn(state: ExchangeState, end: TurnEnd, tap: Tap) -> Outcome:
    tools = state.tools
    if state.signatures is not None and (end.server_calls or end.client_calls):
        await keep_signatures(state, tap)
    if end.usage is not None:
        state.usage = end.usage if state.usage is None else state.usage + end.usage
    if tools is not None and tools.claims.current is not None:
        # Nothing was shown of it: it only called our tools, or is shown as a whole at the end.
        if state.request.asked.stream:
            await state.commit_claim(tools.claims)
        else:
            tools.claims.keep_for_end()
    session = state.request.session
    # `is_quiet` is the fast twin of `repeat`: for nearly all sessions it saves a coroutine.
    if end.stop is Stop.STOP and session is not None and not session.is_quiet():
        offered = await _offer(state, session, end, tap)
        if offered is not None:
            return offered
    # Here too: `is_quiet` saves the coroutine of `find_wait`.
    if tools is not None and end.stop in (Stop.STOP, Stop.LENGTH) and not tools.policy.is_quiet():
        return TurnFinished(end, wait=await tools.policy.find_wait())
    return TurnFinished(end)


def _describe_turn(state: ExchangeState, end: TurnEnd, tap: Tap) -> TurnEnded:
    exchange = state.exchange
    return TurnEnded(
        end,
        tap.text,
        state.turn_bytes,
        state.turn_reads,
        exchange.number,
        exchange.route,
        state.services.now() - state.turn_began,
        state.info,
        state.first_reads,
    )


async def _offer(
    state: ExchangeState, session: RequestSession, end: TurnEnd, tap: Tap
) -> TurnFinished | None:
    """Ask the session whether it goes on; what it goes on with is counted before it is sent."""
    text = await session.repeat()
    if text is None:
        return None
    answer = tap.text()
    offered = TurnFinished(end, text, " ".join(answer.casefold().split()))
    if not state.exchange.would_repeat(offered):
        return offered
    allowance = state.request.allowance
    if allowance is not None and not allowance.allows_turn(state.exchange.number + 1):
        # It is refused when it is to be asked for, which ends the answer; it uses nothing up.
        return offered
    due = await state.tools.follow_up() if state.tools is not None else ()
    additions = (tap.rebuild_turn(), *due, UserText(text))
    adding = partial(state.request.dialect.add, state.body, additions)
    body = await state.work(len(state.body), adding)
    if why_not := await session.claim(answer):
        state.remark = why_not
        await state.release_claim()
        return None
    state.body, state.body_turn = body, state.exchange.number + 1
    await state.extend(additions)
    if StopMessageFired in state.wants:
        await state.tell(StopMessageFired(*session.uses))
    return offered


def _retry_after(error: HoldgateError) -> float | None:
    if not isinstance(error, UpstreamAnswered):
        return error.retry_after
    value = find_header(error.headers, b"retry-after")
    return float(value) if value.isdigit() else None
