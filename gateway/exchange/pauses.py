"""Between two turns: server tools that run, and an answer that is held open."""

from __future__ import annotations

import msgspec

from gateway.exchange.additions import ToolResult
from gateway.exchange.effects import Hold, RunTools
from gateway.exchange.events import Outcome, ToolsKept, ToolsReturned
from gateway.exchange.state import ExchangeState

ONE_TOOL, SEVERAL_TOOLS = "{}_followup", "tool_followup"


async def run_tools(state: ExchangeState, effect: RunTools) -> Outcome:
    """Run server tools, in order; beside client tools, keep what they returned."""
    assert state.time is not None
    results = tuple([await state.time.run(call, effect.keep) for call in effect.calls])
    if effect.keep:
        await _keep(state, results)
        return ToolsKept()
    names = {call.name for call in effect.calls}
    suffix = ONE_TOOL.format(*names) if len(names) == 1 else SEVERAL_TOOLS
    return ToolsReturned(results, suffix)


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
    assert state.time is not None
    if not state.request.asked.stream and not state.client.started:
        # White space before a JSON value is none of its own: it keeps the connection in use.
        state.client.ready(state.headers, lambda: b" ")
        state.services.beats.add(state.client)
    if state.request.session is not None:
        state.request.session.rest()
    await state.pack()
    return await state.time.hold()
