"""A message to an agent, made a request to its model: history, system text, message."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from gateway.agents.model import AgentMessage
from gateway.dialects import DIALECTS
from gateway.dialects.raw_json import append_items
from gateway.exchange.model import Asked
from gateway.exchange.prepare import ExchangeInput
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.jobs.tool_calls import SENTENCE
from gateway.offload import Offload
from gateway.reminders.clock_calls import NAME as CLOCK
from gateway.reminders.tool_scope import ServerTool
from gateway.sessions.directives.memory import Attempt
from gateway.sessions.facts import Sentinels, read_facts

CHAT = DIALECTS["openai-chat"]
JSON_DEPTH = 128


async def compose_request(
    message: AgentMessage,
    history: bytes,
    tools: tuple[ServerTool, ...],
    offload: Offload,
    sentinels: Sentinels,
) -> ExchangeInput:
    """Put a message behind its history; what is large is written beside the loop."""
    agent = message.agent
    system = [agent.system] if agent.system else []
    if any(tool.declaration.name == SCHEDULE_TASK for tool in tools):
        system.append(SENTENCE)
    work = partial(_write, agent.model, "\n\n".join(system), history, message.text)
    size = len(history) + len(message.text)
    if size <= offload.above:
        asked = work()
    else:
        named = not message.fresh
        asked = await offload.send(
            message.owner, size, partial(_write_large, work, named, sentinels)
        )
    return ExchangeInput(
        id=message.request_id,
        exchange_id=message.exchange_id,
        owner=message.owner,
        session=None if message.fresh else message.session,
        asked=asked,
        dialect=CHAT,
        belongs_to=message.session,
        attempt=Attempt(message.request_id),
        tools=tools,
        acts=message.directives,
        takes_over=False,
        may_hold=message.may_hold,
        collects=message.collects,
        wants_clock=CLOCK in agent.tools,
        is_composed=True,
    )


def _write(model: str, system: str, history: bytes, text: str) -> Asked:
    before = history.strip()[1:-1].strip()
    items = [msgspec.json.encode({"role": "system", "content": system})] if system else []
    items += [before] if before else []
    items.append(msgspec.json.encode({"role": "user", "content": text}))
    messages = msgspec.Raw(append_items(b"[]", items))
    body = msgspec.json.encode({"model": model, "messages": messages, "stream": True})
    return CHAT.read(body, JSON_DEPTH)


def _write_large(work: Callable[[], Asked], named: bool, sentinels: Sentinels) -> Asked:
    asked = work()
    return msgspec.structs.replace(asked, facts=read_facts(CHAT, asked.body, named, sentinels))


async def read_message(asked: Asked, owner: str, offload: Offload) -> str:
    """Return what the user said last, as the model reads it: without directives."""
    return await offload.run(owner, len(asked.body), partial(_read_newest_text, asked.body))


def _read_newest_text(body: bytes) -> str:
    return CHAT.newest_user(body)[1][0]
