"""Between two turns: server tools that run, and an answer that is held open."""

from __future__ import annotations

import msgspec

from gateway.exchange.additions import ToolResult
from gateway.exchange.effects import Hold, RunTools
from gateway.exchange.events import Outcome, ToolsKept, ToolsReturned
from gateway.exchange.model import ToolCall
from gateway.exchange.observer import HeldUntil, ToolReturned, ToolStarted
from gateway.exchange.state import ExchangeState

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
        await state.tell(ToolReturned(call, result.text, round((now() - begun) * 1000)))
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
        state.services.beats.add(state.client)
    if state.request.session is not None:
        state.request.session.rest()
    await state.pack()
    outcome = await state.tools.policy.hold(effect)
    if type(outcome) in state.wants:
        await state.tell(outcome)
    return outcome
