"""Requests that are not given all that others are, on every way into an exchange."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.wire import request
from tests.golden.conftest import Record
from tests.golden.models import CLOCK, JOBS, MINUTE, SECOND, calls, clock, reminder
from tests.golden.test_golden_agents import says, speaks
from tests.golden.test_golden_jobs import add, remind, run
from tests.pairs.gate import (
    CHAT,
    MESSAGES,
    RESPONSES,
    TONGUES,
    each_tongue,
    telling,
    telling_all,
)
from tests.pairs.neutral import Answer, Ask, Call, Result, Tongue, Turn
from tests.sessions.talk import JSON, SESSION
from tests.wire.fake import answering, sized

ASK = Ask(system="Be brief.", tools=("look",))
FINE = Answer("Fine.")
COMPACTION = "Context checkpoint compaction: sum up."
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
LOOKED = (
    Turn("user", "Look!"),
    Turn("assistant", calls=(Call("call_9", "look", "{}"),)),
    Turn("user", results=(Result("call_9", "a cat"),)),
)
GO_ON = '<**stopMessage:"Go on.",2**> hi'

KINDS: dict[str, tuple[Ask, tuple[str, ...], dict[str, Any]]] = {
    "clock-off": (ASK, ("x-holdgate-clock: off",), {}),
    "hold-off": (ASK, ("x-holdgate-hold: off",), {}),
    "title": (Ask(system="You are a title generator."), (), {}),
    "compaction": (Ask((Turn("user", COMPACTION),)), (), {}),
    "structured": (Ask(), (), {"response_format": SCHEMA}),
    "forced-tool": (Ask(tools=("look",), choice="look"), (), {}),
    "no-tool": (Ask(tools=("look",), choice="none"), (), {}),
    "sub-agent": (ASK, ("x-claude-code-agent-id: a1",), {}),
    "accepts-stream": (ASK, ("accept: text/event-stream",), {}),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_kind(record: Record, kind: str) -> None:
    """A reminder is due and another will be soon, a stop message is set, and jobs are offered.

    The clock stands still: what is held is given up.
    """
    ask, headers, more = KINDS[kind]
    settings = {**CLOCK, **JOBS, "clock__hold_max_ms": 600}
    async with record(telling(CHAT, FINE, True), settings=settings) as stage:
        await remind(stage, "s", 0)
        await stage.ask(CHAT, Ask((Turn("user", GO_ON),), tools=("look",)), session=True)
        await remind(stage, "s", 0, "drink more")
        await remind(stage, "s", 500, "sleep")
        await stage.ask(CHAT, ask, *headers, session=True, **more)


@each_tongue
async def test_results_of_the_clients_tools(record: Record, tongue: Tongue) -> None:
    story = telling(tongue, FINE, True)
    async with record(story, upstream=speaks(tongue), settings=CLOCK) as stage:
        await stage.ask(tongue, Ask(LOOKED, tools=("look",)), session=True)


async def test_a_shy_upstream(record: Record) -> None:
    """Who speaks Messages is not told the time after the results of tools, on any way."""
    answers = [calls(clock("get")), FINE] * 3
    story = telling_all(MESSAGES, answers, True)
    async with record(story, upstream=speaks(MESSAGES), settings=CLOCK) as stage:
        await stage.ask(CHAT, Ask(), session=True)
        await stage.fetch(says("hello"))
        job_id = await add(stage, session_id="s")
        await run(stage, job_id, "ok", "s")


async def test_a_model_without_a_clock(record: Record) -> None:
    models = [{"name": "m", "routes": ["a/m"], "clock": False}]
    agents = [{"id": "helper", "model": "m"}, {"id": "timed", "model": "m", "tools": ["clock"]}]
    tables = {"models": models, "agents": agents}
    async with record(telling(CHAT, FINE, True), tables=tables, settings=CLOCK) as stage:
        await remind(stage, "s", 0)
        await stage.ask(CHAT, Ask(), session=True)
        await stage.fetch(says("hello"))
        await stage.fetch(says("hello", agent="timed"))
        job_id = await add(stage, session_id="s")
        await run(stage, job_id, "ok", "s")


async def test_all_in_helper_processes(record: Record) -> None:
    """What is large is read beside the loop, on every way; here everything counts as large."""
    settings = {**CLOCK, **JOBS, "limits__offload_bytes": 1, "clock__hold_max_ms": 0}
    answers = [calls(clock("schedule", reminder(30 * SECOND))), *[FINE] * 5]
    story = telling_all(CHAT, answers, True)
    async with record(story, settings=settings) as stage:
        await stage.ask(CHAT, Ask((Turn("user", "<**!a**> hi"),)), session=True)
        await stage.ask(RESPONSES, ASK, session=True)
        await stage.fetch(says("<**!a**> hello"))
        await stage.fetch(says("and?"))
        job_id = await add(stage, session_id="s")
        await run(stage, job_id, "ok", "s")


async def test_an_answer_gone_on_from(record: Record) -> None:
    async with record(telling(RESPONSES, FINE, True), upstream=speaks(RESPONSES)) as stage:
        await stage.ask(RESPONSES, Ask(), session=True)
        await stage.ask(RESPONSES, ASK, session=True, previous_response_id="resp_1")


async def test_a_query_and_headers_of_the_client(record: Record) -> None:
    headers = ("anthropic-beta: context-management-2025-06-27", "x-api-key: secret", "x-mine: 1")
    body = MESSAGES.ask(ASK, True)
    asked = request("POST", "/v1/messages?beta=true", JSON, SESSION, *headers, body=body)
    async with record(telling(MESSAGES, FINE, True), upstream=speaks(MESSAGES)) as stage:
        await stage.fetch(asked)


async def test_tokens_counted(record: Record) -> None:
    counted = answering(sized(b'{"input_tokens":7}', JSON))
    body = MESSAGES.ask(Ask((Turn("user", "<**!a**> hi"),)), False)
    asked = request("POST", "/v1/messages/count_tokens", JSON, SESSION, body=body)
    async with record(counted, upstream=speaks(MESSAGES), settings=CLOCK) as stage:
        await stage.fetch(asked)


async def test_a_directive_sent_again(record: Record) -> None:
    ask = Ask((Turn("user", "<**!b**> hi"),))
    stories = telling(CHAT, FINE, True), telling(CHAT, Answer("B."), True)
    async with record(*stories) as stage:
        await stage.ask(CHAT, ask, "idempotency-key: k", session=True)
        await stage.ask(CHAT, ask, "idempotency-key: k", session=True)
        await stage.ask(CHAT, ask, "x-stainless-retry-count: 1", session=True)
        stage.clock.advance(MINUTE)
        await stage.ask(CHAT, ask, session=True)


async def test_other_methods(record: Record) -> None:
    async with record(telling(CHAT, FINE, True)) as stage:
        for path in (*[tongue.PATH for tongue in TONGUES], "/api/chat"):
            await stage.fetch(request("GET", path))
