"""The effects `OpenTurn` and `ShowError` of a request that is passed on unread.

All else of it goes the way of every exchange: routes, fail-over, the client who leaves, the drain,
what is told of it at the end.
"""

from __future__ import annotations

from functools import partial

import msgspec

from gateway.dialects.raw_json import write_model
from gateway.dialects.unread import JSON, UnreadAnswer
from gateway.exchange.after_turns import note_error, show_error
from gateway.exchange.answer_form import find_header
from gateway.exchange.effects import OpenTurn, ShowError
from gateway.exchange.events import Outcome
from gateway.exchange.state import ExchangeState
from gateway.exchange.turns import greet, make_headers, open_turn, read_first


async def open_unread_turn(state: ExchangeState, effect: OpenTurn) -> Outcome:
    """Ask a route, until the first bytes of its answer are in."""
    return await open_turn(state, effect, _ask)


async def _ask(state: ExchangeState, effect: OpenTurn) -> None:
    request, route, answer = state.request, effect.route, state.splice
    assert isinstance(answer, UnreadAnswer)
    body = state.body
    state.begin_try()
    if route.model != request.asked.model:
        body = await state.work(len(body), partial(write_model, body, route.model))
    upstream = state.upstreams[route.upstream]
    headers = make_headers(state, request.id, request.headers, upstream)
    turn = state.turn = await upstream.open(body, headers, b"", route.model)
    answer.content_type = find_header(turn.headers, b"content-type") or JSON
    # Whether it streams was not read in the request: the answer tells.
    asked = msgspec.structs.replace(request.asked, stream=answer.streams)
    state.request = msgspec.structs.replace(request, asked=asked)
    state.info = msgspec.structs.replace(state.info, stream=answer.streams)
    await read_first(state, turn, await anext(turn, None))
    greet(state, route.upstream, turn)
    if turn.over and not asked.stream:
        assert state.tap is not None
        answer.keep(state.first + state.tap.close())
        state.first = b""
    elif not asked.stream:
        state.client.ready(state.headers, answer.heartbeat)
        # It adds nothing to the body, but ends clients that do not read.
        state.services.heartbeats.add(state.client)


async def show_unread_error(state: ExchangeState, effect: ShowError) -> None:
    """Say what went wrong, if there is a place for it."""
    if state.client.started and not state.request.asked.stream:
        # Half a body has none. The connection ends before the body does, and that is the sign.
        await note_error(state, effect.error)
    else:
        await show_error(state, effect)
