"""Fast forms say the same as the general forms that they stand in for, whatever is kept.

Each pair is asked on two stages of the same kind, so that neither sees what the other leaves behind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.openai_chat import DIALECT
from gateway.dialects.profiles import PROFILES
from gateway.dialects.translators import Translators, UpstreamDialect
from gateway.errors import Headers
from gateway.exchange.additions import Addition, ToolDeclaration, UserText
from gateway.exchange.model import ModelRequest, Route
from gateway.exchange.prepare import ModelRequestReader, ReadingRules
from gateway.exchange.state import ExchangeState
from gateway.exchange.turns import _address, _address_aside
from gateway.offload import Offload
from gateway.reminders.model import ReminderRequest
from gateway.reminders.server_tools import ServerTools
from gateway.reminders.tool_scope import ToolScope
from gateway.sessions.directives.memory import NO_ATTEMPT
from gateway.sessions.request_kind import Sentinels
from gateway.sessions.service import SessionView
from gateway.sessions.session_request import KIND, SessionRequest
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.documents import DocumentKey

from .playbook import DOOR, EXCHANGE, NOW, OWNER, SESSION, Scene, Stage


class Kept(NamedTuple):
    """What a session has when a request comes."""

    due_in: tuple[int, ...] = ()
    """Reminders, by in how many seconds they are due."""
    delivered: bool = False
    """Whether a turn before has taken what was due."""
    results: int = 0
    is_down: bool = False
    stop_message: bool = False
    asked_with_tools: bool = False
    """Whether a request with tools was the last one."""


class Asking(NamedTuple):
    """What a request is like."""

    session: str | None = SESSION
    tools: bool = False
    structured: bool = False
    system: str = ""
    main: str = ""


KEPT = st.builds(
    Kept,
    st.lists(st.sampled_from([-5, 0, 30]), max_size=2).map(tuple),
    st.booleans(),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
SCOPES = st.builds(
    ToolScope,
    owner=st.just(OWNER),
    session=st.sampled_from([SESSION, "another", None]),
    exchange_id=st.just(EXCHANGE),
    last_role=st.sampled_from(["user", "tool", "assistant"]),
    may_hold=st.booleans(),
    tags_results=st.booleans(),
    clock=st.booleans(),
    collects=st.booleans(),
)
ASKINGS = st.builds(
    Asking,
    st.sampled_from([SESSION, "another", None]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "You write titles."]),
    st.sampled_from(["", "main"]),
)


def read(asking: Asking, text: str = "Hi") -> ModelRequest:
    system = [{"role": "system", "content": asking.system}] if asking.system else []
    body: dict[str, Any] = {
        "model": "m",
        "messages": [*system, {"role": "user", "content": text}],
    }
    body |= {"tools": [DOOR]} if asking.tools else {}
    body |= {"response_format": {"type": "json_object"}} if asking.structured else {}
    return DIALECT.read(json.dumps(body).encode(), 100)


def session_request(asking: Asking, text: str = "Hi") -> SessionRequest:
    name = asking.session
    key = None if name is None else DocumentKey(KIND, OWNER, name)
    asked = read(asking, text)
    return SessionRequest(OWNER, name, asked, DIALECT, EXCHANGE, key, NO_ATTEMPT, asking.main)


async def prepare_stage(kept: Kept) -> Stage:
    stage = Stage(Scene(clock=True), hears_all=False)
    wanted = tuple(ReminderRequest(NOW + one * 1000, f"in {one} s") for one in kept.due_in)
    if wanted:
        await stage.reminders.schedule(OWNER, SESSION, wanted)
    if kept.delivered and (claim := await stage.reminders.reserve(OWNER, SESSION, "earlier")):
        await stage.reminders.commit(claim)
    for number in range(kept.results):
        item = OutboxItem(str(number), OWNER, SESSION, NOW, "42")
        stage.deliveries.items.append(item)
        stage.queue.announce(item)
    if kept.stop_message or kept.asked_with_tools:
        text = '<**stopMessage:"Go on."**> Hi' if kept.stop_message else "Hi"
        asking = Asking(tools=kept.asked_with_tools)
        await stage.sessions.enter(session_request(asking, text), "a")
    if kept.is_down:
        stage.store.go_down()
    return stage


def make_tools(stage: Stage, scope: ToolScope) -> ServerTools:
    return ServerTools(stage.tool_services, scope, read(Asking()), DIALECT, (stage.dice,))


async def compare_claims(kept: Kept, scope: ToolScope) -> None:
    fast = make_tools(await prepare_stage(kept), scope)
    general = make_tools(await prepare_stage(kept), scope)
    if fast.claims.is_idle_now():
        assert await general.claims.claim_due() is None
        assert fast.claims.is_unchanged() == general.claims.is_unchanged()
        assert fast.claims.is_empty


async def compare_beginnings(kept: Kept, scope: ToolScope) -> None:
    fast = make_tools(await prepare_stage(kept), scope)
    general = make_tools(await prepare_stage(kept), scope)
    additions = fast.begin_now()
    if additions is not None:
        assert additions == await general.begin()
        assert fast.claims.is_empty
        assert general.claims.is_empty


async def describe_view(stage: Stage, view: SessionView) -> tuple[object, ...]:
    """Return all that can be told from a view, and what is remembered after it."""
    session, side_calls = view.session, stage.sessions.services.side_calls
    remembered = side_calls.last_system(DocumentKey(KIND, OWNER, SESSION))
    others = side_calls.last_system(DocumentKey(KIND, OWNER, "another"))
    about = (msgspec.structs.replace(view, session=None), remembered, others)
    if session is None:
        return about
    asks = (session.is_quiet(), session.is_auxiliary(), session.requester(), session.awaits_end)
    return (*about, *asks, await session.repeat())


async def compare_views(kept: Kept, asking: Asking) -> None:
    fast, general = await prepare_stage(kept), await prepare_stage(kept)
    view = fast.sessions.glance(session_request(asking))
    if view is not None:
        other = await general.sessions.enter(session_request(asking), "a")
        assert await describe_view(fast, view) == await describe_view(general, other)


@given(KEPT, SCOPES)
def test_claims(kept: Kept, scope: ToolScope) -> None:
    """`TurnClaims.is_idle_now` stands in for a `claim_due` that finds nothing."""
    anyio.run(compare_claims, kept, scope)


@given(KEPT, SCOPES)
def test_beginnings(kept: Kept, scope: ToolScope) -> None:
    """`ServerTools.begin_now` stands in for `begin`."""
    anyio.run(compare_beginnings, kept, scope)


@given(KEPT, ASKINGS)
def test_views(kept: Kept, asking: Asking) -> None:
    """`Sessions.glance` stands in for `enter`."""
    anyio.run(compare_views, kept, asking)


async def compare_ends(kept: Kept, asking: Asking) -> None:
    stage = await prepare_stage(kept)
    view = await stage.sessions.enter(session_request(asking), "a")
    if view.session is not None and view.session.is_quiet():
        assert await view.session.repeat() is None


@given(KEPT, ASKINGS)
def test_ends_of_turns(kept: Kept, asking: Asking) -> None:
    """`RequestSession.is_quiet` stands in for a `repeat` that has nothing to say."""
    anyio.run(compare_ends, kept, asking)


UPSTREAMS = {
    "same": UpstreamDialect("openai-chat", PROFILES["deepseek"]),
    "other": UpstreamDialect("anthropic-messages"),
}
BODIES = st.builds(
    lambda model, stream, members: {"model": model, "stream": stream, **members},
    st.sampled_from(["m", "n"]),
    st.booleans(),
    st.sampled_from([{}, {"seed": 1}, {"tools": [DOOR]}, {"max_tokens": 5, "user": "u"}]),
)


async def compare_addresses(body: dict[str, Any], to: str, additions: tuple[Addition, ...]) -> None:
    translators = Translators(UPSTREAMS, 2**20, 2**20, lambda: 0.0)
    told = []
    for address in (_address_now, _address_aside):
        stage = Stage(Scene(), hears_all=False)
        services = replace(stage.live.services, translators=translators)
        request = await stage.prepare()
        messages = [{"role": "user", "content": "Hi"}]
        asked = DIALECT.read(json.dumps({**body, "messages": messages}).encode(), 100)
        request = msgspec.structs.replace(request, asked=asked, services=services)
        state = ExchangeState(request, stage.client)
        await state.add(state.body, additions)
        sent = await address(state, Route(to, "m"), "name")
        told.append((sent, state.lost, state.translator is None))
    assert told[0] == told[1]


async def _address_now(state: ExchangeState, route: Route, name: str) -> bytes:
    return _address(state, route, name)


@given(
    BODIES,
    st.sampled_from(["a", "same", "other"]),
    st.sampled_from([(), (UserText("It is noon."),), (ToolDeclaration("dice", "Rolls.", "{}"),)]),
)
def test_addresses(body: dict[str, Any], to: str, additions: tuple[Addition, ...]) -> None:
    """`_address` stands in for `_address_aside`."""
    anyio.run(compare_addresses, body, to, additions)


class HelperLoop(NamedTuple):
    """A loop that stays over all examples, and with it the helper process that it started."""

    runner: asyncio.Runner
    offload: Offload


@pytest.fixture(scope="module")
def helper_loop() -> Iterator[HelperLoop]:
    with asyncio.Runner() as runner:
        offload = Offload()
        yield HelperLoop(runner, offload)
        runner.run(offload.aclose())


async def compare_readings(
    offload: Offload, asking: Asking, headers: Headers, prefers_stream: bool
) -> None:
    rules = ReadingRules(100, "m", frozenset({"dice"}), Sentinels((), ()))
    found = []
    for above in (2**63, -1):
        offload.above = above
        reader = ModelRequestReader(DIALECT, offload, rules)
        found.append(await reader.read(read(asking).body, prefers_stream, headers, OWNER))
    fast, general = found
    assert (fast.who, fast.previous) == (general.who, general.previous)
    # What is read at once of a large request is asked of others when somebody wants to know it.
    bare: dict[str, Any] = {"facts": None, "identity": {}, "tools": b""}
    one, other = (msgspec.structs.replace(each.asked, **bare) for each in found)
    assert one == other
    assert bool(fast.asked.tools) == bool(general.asked.tools)


@given(
    ASKINGS,
    st.sampled_from([(), ((b"x-session-id", b"s"),), ((b"accept", b"text/event-stream"),)]),
    st.booleans(),
)
def test_readings(
    helper_loop: HelperLoop, asking: Asking, headers: Headers, prefers_stream: bool
) -> None:
    """`ModelRequestReader.read` reads small requests as `_read_large` reads large ones."""
    runner, offload = helper_loop
    runner.run(compare_readings(offload, asking, headers, prefers_stream))


async def test_the_fast_forms_are_taken_where_nothing_is_kept() -> None:
    """Else the tests above would compare nothing."""
    stage = await prepare_stage(Kept())
    scope = ToolScope(OWNER, SESSION, EXCHANGE)
    assert make_tools(stage, scope).claims.is_idle_now()
    assert make_tools(stage, scope).begin_now()
    for session in (SESSION, None):
        assert stage.sessions.glance(session_request(Asking(session=session))) is not None
