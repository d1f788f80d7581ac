"""The other effects: `RunTools`, `Hold`, `Close`, `ShowError` and `LetGo`, after a turn ended."""

from __future__ import annotations

from functools import partial

import anyio
import msgspec

from gateway.dialects.protocol import Renamed
from gateway.errors import HoldgateError, UpstreamAnswered
from gateway.exchange.additions import ToolResult
from gateway.exchange.answer_ids import AnswerIds
from gateway.exchange.effects import Close, Hold, LetGo, RunTools, ShowError
from gateway.exchange.events import Outcome, Saved, ToolsKept, ToolsReturned
from gateway.exchange.machine import State
from gateway.exchange.model import ToolCall
from gateway.exchange.observer import (
    Committed,
    ExchangeFailed,
    Heartbeat,
    HeldUntil,
    HoldMoved,
    Released,
    RequestExtended,
    ToolReturned,
    ToolStarted,
)
from gateway.exchange.ports import error_headers
from gateway.exchange.state import CLEAN_UP, ExchangeState

SAVED = Saved()


async def close(state: ExchangeState, effect: Close) -> Outcome:
    """Save, then show the withheld tail."""
    tools = state.tools
    if tools is not None and tools.claims.current is not None:
        # A follow-up came to nothing: only then something is still carried here.
        await state.release_claim()
    session = state.request.session
    if effect.disarm and session is not None:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await session.disarm(effect.disarm)
    if session is not None and session.awaits_end and not state.gone:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await session.end()
    tail = state.splice.tail(effect.neutral_finish)
    if RequestExtended in state.wants and state.tap is not None:
        await state.extend((state.tap.rebuild_turn(),))
    if state.request.answers is not None and state.exchange.number > 1:
        await _remember(state, state.request.answers)
    if tools is not None and tools.claims.is_unsettled:
        # Whoever asks another instance after the end finds what this answer delivered.
        await tools.claims.settle()
    if state.request.asked.stream or state.client.started:
        await state.client.end(tail)
    else:
        await state.client.whole(200, state.headers, tail)
    if tools is not None and tools.claims.owed and not state.gone:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await tools.claims.commit_all()
            if Committed in state.wants:
                await state.tell(Committed())
    return SAVED


async def _remember(state: ExchangeState, answers: AnswerIds) -> None:
    """Keep which upstream answer stands behind the one the client may go on from."""
    splice = state.splice
    if state.translator is not None or not isinstance(splice, Renamed):
        return
    if splice.answer_id and splice.upstream_id not in ("", splice.answer_id):
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await answers.remember(state.request.owner, splice.answer_id, splice.upstream_id)


async def show_error(state: ExchangeState, effect: ShowError) -> None:
    """Say what went wrong: a status before the first byte, an error frame after it."""
    error, dialect = effect.error, state.request.dialect
    await note_error(state, error)
    await _release_all(state)
    if state.client.started:
        streams = state.request.asked.stream
        told = dialect.error_frame(error, state.splice) if streams else dialect.error_body(error)
        await state.client.end(told)
        return
    state.status = error.status
    route = (b"x-holdgate-upstream", state.exchange.route.upstream.encode())
    headers = (*error_headers(error), route)
    if isinstance(error, UpstreamAnswered):
        kind = (b"content-type", b"application/json")
        headers = (kind, route, *state.choose_client_headers(error.headers))
    await state.client.whole(error.status, headers, dialect.error_body(error))


async def note_error(state: ExchangeState, error: HoldgateError) -> None:
    """Take note of what ended the answer, and tell of it."""
    state.error = error
    if ExchangeFailed in state.wants:
        await state.tell(ExchangeFailed(error))


async def let_go(state: ExchangeState, effect: LetGo) -> None:
    """Nobody is listening: release what was claimed."""
    await _release_all(state)
    await state.let_go()


async def _release_all(state: ExchangeState) -> None:
    tools = state.tools
    if tools is not None and not tools.claims.is_empty:
        tools.claims.release_all()
        await tools.claims.settle()
        if Released in state.wants:
            await state.tell(Released())


ONE_TOOL, SEVERAL_TOOLS = "{}_followup", "tool_followup"


async def run_tools(state: ExchangeState, effect: RunTools) -> Outcome:
    """Run server tools, in order; beside client tools, keep what they returned."""
    results = tuple([await _run_tool(state, call, effect.keep) for call in effect.calls])
    if effect.keep:
        await _keep(state, results)
        return ToolsKept()
    names = {call.name for call in effect.calls}
    suffix = ONE_TOOL.format(*names) if len(names) == 1 else SEVERAL_TOOLS
    return ToolsReturned(results, suffix)


async def _run_tool(state: ExchangeState, call: ToolCall, is_last: bool) -> ToolResult:
    tools, now = state.tools, state.services.now
    assert tools is not None
    begun = now()
    if ToolStarted in state.wants:
        await state.tell(ToolStarted(call))
    result = await tools.run(call, is_last)
    if ToolReturned in state.wants:
        ms = round((now() - begun) * 1000)
        await state.tell(ToolReturned(call, result.text, ms, result.error))
    return result


async def _keep(state: ExchangeState, results: tuple[ToolResult, ...]) -> None:
    tap, session = state.tap, state.request.session
    assert tap is not None
    if session is None:
        # An agent's history has it all.
        return
    message = msgspec.json.encode(tap.rebuild_turn().message)
    await session.keep(message, tap.client_call_ids(), results)


async def hold(state: ExchangeState, effect: Hold) -> Outcome:
    """Wait with the client connected."""
    assert state.tools is not None
    if HeldUntil in state.wants:
        await state.tell(HeldUntil(effect.until_ms, state.tools.now_ms()))
    if not state.request.asked.stream and not state.client.started:
        # White space before a JSON value is none of its own: it keeps the connection in use.
        state.client.ready(state.headers, lambda: b" ")
        on_sent = state.tell_heartbeat if Heartbeat in state.wants else None
        state.services.heartbeats.add(state.client, on_sent)
    if state.request.session is not None:
        state.request.session.rest()
    await state.pack()
    if state.request.allowance is not None:
        state.request.allowance.pause()
    outcome = await state.tools.policy.hold(effect, partial(_tell_move, state))
    # A heartbeat that was sent since the sampler looked belongs to the hold, too.
    if state.trail is not None and state.trail.is_later(state.client.last, State.HOLDING):
        state.trail.note_beat(state.client.last)
    if type(outcome) in state.wants:
        await state.tell(outcome)
    return outcome


async def _tell_move(state: ExchangeState, until_ms: int) -> None:
    """Tell that the hold lasts until another instant than was told before."""
    assert state.tools is not None
    await state.tell(HoldMoved(until_ms, state.tools.now_ms()))
