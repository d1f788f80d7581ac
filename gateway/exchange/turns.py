"""Turns: asking an upstream, passing its frames on, and what stands at the end."""

from __future__ import annotations

from functools import partial

from anyio.lowlevel import checkpoint_if_cancelled

from gateway.dialects.protocol import Tap
from gateway.dialects.seals import may_be_sealed
from gateway.dialects.translators import say_again
from gateway.errors import Headers, HoldgateError, UpstreamAnswered, UpstreamError
from gateway.exchange.additions import Addition, UserText
from gateway.exchange.answer_form import read_form
from gateway.exchange.effects import OpenTurn, RelayTurn
from gateway.exchange.events import OpeningFailed, Outcome, StreamBroke, TurnEnded, TurnOpened
from gateway.exchange.model import Route, Stop, TurnEnd
from gateway.exchange.ports import Session, Time
from gateway.exchange.settling import settle
from gateway.exchange.state import Course
from gateway.wire.http_client.headers import towards_client
from gateway.wire.http_client.upstream import Turn

OPENED = TurnOpened()
STREAM_HEADERS: Headers = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


async def open_turn(course: Course, effect: OpenTurn) -> Outcome:
    """Ask a route, until its first frame is in."""
    upstream, services = effect.route.upstream, course.services
    try:
        await _ask(course, effect)
    except HoldgateError as raised:
        error = _told(course) or raised
        course.note_failure(upstream, error)
        if error.may_fail_over:
            services.health.failed(upstream, services.now(), _retry_after(error))
        await course.let_go()
        return OpeningFailed(error)
    services.health.answered(upstream)
    course.error = None
    if course.first_at is None:
        course.first_at = services.now()
    return OPENED


def _told(course: Course) -> UpstreamError | None:
    """Return an upstream's own error: translated, it may have lost its status."""
    return None if course.passage is None else course.passage.failure


async def _ask(course: Course, effect: OpenTurn) -> None:
    """Send the turn's request and wait for its first frame."""
    request, course.passage = course.request, None
    if effect.waits_its_turn:
        await course.take_place()
    if effect.number > course.body_turn:
        await _build(course, effect)
    name = f"{request.id}:{effect.suffix}" if effect.suffix else request.id
    ways, where, dialect = course.services.ways, effect.route.upstream, request.dialect.name
    if len(course.body) <= course.services.offload.above:
        body = _address(course, effect.route, name)
    else:
        body = await _address_aside(course, effect.route, name)
    passage = course.passage
    headers = ways.headers(where, dialect, request.headers)
    upstream = course.services.upstreams[where]
    query = request.query if passage is None else b""
    turn = await upstream.open(body, (*headers, (b"x-request-id", name.encode())), query)
    course.turn = turn
    if not course.client.started:
        _greet(course, effect.route.upstream, turn)
    course.turn, first = await read_form(course, turn, name)
    await _read_first(course, course.turn, first)
    if request.asked.stream and course.exchange.has_other_routes:
        await settle(course, upstream.endpoint.timeouts.settle)


async def _read_first(course: Course, turn: Turn, data: bytes | None) -> None:
    """Read until the first frame is in, or the whole body; this is what was read before."""
    tap = course.tap = course.splice.tap()
    course.first = b""
    while data is not None:
        if data:
            course.first += tap.feed(data)
        if tap.seen:
            return
        if turn.over:
            break
        if course.ending:
            await checkpoint_if_cancelled()
        data = await anext(turn, None)
    course.first += tap.close()


def _address(course: Course, route: Route, name: str) -> bytes:
    """Say the request to an upstream: by its name for the model, in its dialect."""
    asked, dialect, body = course.request.asked, course.request.dialect, course.body
    if route.model != asked.model or asked.stream_implied:
        body = dialect.rewrite(body, route.model, asked.stream)
    passage = course.passage = course.services.ways.to(route.upstream, dialect, body, name)
    if passage is None:
        return course.services.ways.fit(route.upstream, dialect.own(body), course.gateway_parts)
    body = passage.request(body, course.gateway_parts())
    course.lost = passage.lost
    return body


async def _address_aside(course: Course, route: Route, name: str) -> bytes:
    """Say a large request to an upstream; the same as above, done beside the loop."""
    asked, dialect, body = course.request.asked, course.request.dialect, course.body
    work = partial(course.work, len(body))
    if route.model != asked.model or asked.stream_implied:
        body = await work(partial(dialect.rewrite, body, route.model, asked.stream))
    ways, upstream = course.services.ways, route.upstream
    course.passage = None
    saying = ways.saying(upstream, dialect, name, course.gateway_parts)
    if saying is None:
        if may_be_sealed(body):
            body = await work(partial(dialect.own, body))
        fitting = ways.fitting(upstream, course.gateway_parts)
        return body if fitting is None else await work(partial(fitting, body))
    said = await work(partial(say_again, saying, body))
    course.passage = ways.back(upstream, dialect, said)
    course.lost = said.lost
    return said.body


async def _build(course: Course, effect: OpenTurn) -> None:
    """Build the turn's request, once: another route is asked the same."""
    if effect.number == 1:
        assert course.time is not None
        told = course.time.first_at_once()
        if told is None:
            told = await course.time.first()
    else:
        told = _follow_up(course, effect)
    if told:
        body = await course.unpack() if course.packed else course.body
        await course.add(body, told)
    course.body_turn = effect.number


def _follow_up(course: Course, effect: OpenTurn) -> tuple[Addition, ...]:
    """Return what is added to the request since the turn before."""
    if course.tap is not None:
        return (course.tap.answered(), *effect.additions)
    # After a long wait that turn is in the request already; only what ended the wait is not.
    assert course.time is not None
    return course.time.woken()


def _greet(course: Course, upstream: str, turn: Turn) -> None:
    """Prepare the start line: from here on a quiet upstream means heartbeats."""
    name = (b"x-holdgate-upstream", upstream.encode())
    kind = (b"content-type", course.splice.content_type)
    course.headers = (kind, name, *towards_client(turn.headers))
    if course.request.asked.stream:
        course.client.ready(course.headers + STREAM_HEADERS, course.splice.heartbeat)
        course.services.beats.add(course.client)


async def relay_turn(course: Course, effect: RelayTurn) -> Outcome:
    """Pass frames on; this is the data plane."""
    turn, tap = course.turn, course.tap
    assert turn is not None
    assert tap is not None
    try:
        if course.request.asked.stream:
            await _show(course, course.take_first())
        if not tap.ended:
            if course.client.blocked:
                await _wait_for_client(course, turn)
            await _pass_on(course, turn, tap)
        if tap.failure is not None:
            raise tap.failure
    except UpstreamError as error:
        course.note_failure(course.exchange.route.upstream, error)
        await course.let_go()
        return StreamBroke(error)
    course.turn = None
    await turn.release()
    if course.has_place:
        course.leave_place()
    return await _ended(course, tap)


async def _pass_on(course: Course, turn: Turn, tap: Tap) -> None:
    client, time = course.client, course.time
    async for data in turn:
        shown = tap.feed(data)
        if shown:
            await client.frames(shown)
            if time is not None and time.cargo is not None:
                await _deliver(course, time, shown)
        if tap.ended:
            return
        if client.blocked:
            # What was read is not to be kept twice meanwhile.
            data = shown = b""
            await _wait_for_client(course, turn)
        if course.ending:
            # A stream that never pauses leaves no moment to cancel it in.
            await checkpoint_if_cancelled()
    await _show(course, tap.close())


async def _wait_for_client(course: Course, turn: Turn) -> None:
    """Wait until the client reads; whoever does not is not read ahead for."""
    turn.pause()
    await course.client.drain()


async def _show(course: Course, frames: bytes) -> None:
    """Show frames, and deliver what they answer."""
    await course.client.frames(frames)
    time = course.time
    if frames and time is not None and time.cargo is not None:
        await _deliver(course, time, frames)


async def _deliver(course: Course, time: Time, shown: bytes) -> None:
    """Count what the turn carries as delivered with the first frames that say anything.

    Frames that only announce an answer do not count: after a reset the client asks again.
    """
    if course.request.dialect.shows_content(shown):
        await time.delivered()


async def _ended(course: Course, tap: Tap) -> Outcome:
    course.splice.take(tap)
    end, time = tap.end(), course.time
    if course.request.witness is not None:
        course.request.witness.answered(tap.text(), end)
    if course.request.onlooker is not None:
        course.request.onlooker.said(tap.text, end)
    if end.usage is not None:
        course.usage = end.usage if course.usage is None else course.usage + end.usage
    if time is not None and time.cargo is not None:
        # Nothing was shown of it: it only called our tools, or is shown as a whole at the end.
        if course.request.asked.stream:
            await time.delivered()
        else:
            time.answered()
    session = course.request.session
    if end.stop is Stop.STOP and session is not None and not session.is_quiet():
        offered = await _offer(course, session, end, tap)
        if offered is not None:
            return offered
    if time is not None and end.stop in (Stop.STOP, Stop.LENGTH) and not time.is_quiet():
        return TurnEnded(end, wait=await time.wait())
    return TurnEnded(end)


async def _offer(course: Course, session: Session, end: TurnEnd, tap: Tap) -> TurnEnded | None:
    """Ask the session whether it goes on; what it goes on with is counted before it is sent."""
    text = await session.repeat()
    if text is None:
        return None
    said = tap.text()
    offered = TurnEnded(end, text, " ".join(said.casefold().split()))
    if not course.exchange.would_repeat(offered):
        return offered
    due = await course.time.due() if course.time is not None else ()
    told = (tap.answered(), *due, UserText(text))
    adding = partial(course.request.dialect.add, course.body, told)
    body = await course.work(len(course.body), adding)
    if why_not := await session.claim(said):
        course.remark = why_not
        if course.time is not None:
            course.time.lost()
        return None
    course.body, course.body_turn = body, course.exchange.number + 1
    course.told(told)
    return offered


def _retry_after(error: HoldgateError) -> float | None:
    if not isinstance(error, UpstreamAnswered):
        return error.retry_after
    value = next((value for name, value in error.headers if name == b"retry-after"), b"")
    return float(value) if value.isdigit() else None
