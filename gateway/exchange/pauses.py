"""Between two turns: server tools that run, and an answer that is held open."""

from __future__ import annotations

import msgspec

from gateway.exchange.additions import ToolResult
from gateway.exchange.effects import Hold, RunTools
from gateway.exchange.events import Outcome, ToolsKept, ToolsReturned
from gateway.exchange.state import Course

ONE_TOOL, SEVERAL_TOOLS = "{}_followup", "tool_followup"


async def run_tools(course: Course, effect: RunTools) -> Outcome:
    """Run server tools, in order; beside client tools, keep what they returned."""
    assert course.time is not None
    results = tuple([await course.time.run(call, effect.keep) for call in effect.calls])
    if effect.keep:
        await _keep(course, results)
        return ToolsKept()
    names = {call.name for call in effect.calls}
    suffix = ONE_TOOL.format(*names) if len(names) == 1 else SEVERAL_TOOLS
    return ToolsReturned(results, suffix)


async def _keep(course: Course, results: tuple[ToolResult, ...]) -> None:
    tap, session = course.tap, course.request.session
    assert tap is not None
    assert session is not None
    message = msgspec.json.encode(tap.answered().message)
    await session.keep(message, tap.client_call_ids(), results)


async def hold(course: Course, effect: Hold) -> Outcome:
    """Wait with the client connected."""
    assert course.time is not None
    if not course.request.asked.stream and not course.client.started:
        # White space before a JSON value is none of its own: it keeps the connection in use.
        course.client.ready(course.headers, lambda: b" ")
        course.services.beats.add(course.client)
    if course.request.session is not None:
        course.request.session.rest()
    await course.pack()
    return await course.time.hold()
