"""Fast forms say the same as the general forms that they stand in for, whatever is kept.

Each pair is asked on two stages of the same kind, so that neither sees what the other leaves behind.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import anyio
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.openai_chat import DIALECT
from gateway.exchange.model import Asked
from gateway.reminders.model import ReminderRequest
from gateway.reminders.server_tools import ServerTools
from gateway.reminders.tool_scope import ToolScope
from gateway.sessions.directives.memory import NO_ATTEMPT
from gateway.sessions.service import SessionView
from gateway.sessions.session_request import KIND, SessionRequest
from gateway.stores.documents import DocumentKey
from gateway.stores.rows import OutboxItem

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


def read(asking: Asking, text: str = "Hi") -> Asked:
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
    view = fast.sessions._glance(session_request(asking))
    if view is not None:
        other = await general.sessions._pass_by(session_request(asking))
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
    """`Sessions._glance` stands in for `_pass_by`."""
    anyio.run(compare_views, kept, asking)


async def test_the_fast_forms_are_taken_where_nothing_is_kept() -> None:
    """Else the tests above would compare nothing."""
    stage = await prepare_stage(Kept())
    scope = ToolScope(OWNER, SESSION, EXCHANGE)
    assert make_tools(stage, scope).claims.is_idle_now()
    assert make_tools(stage, scope).begin_now()
    assert stage.sessions._glance(session_request(Asking())) is not None
