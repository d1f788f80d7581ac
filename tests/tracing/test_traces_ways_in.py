"""Messages to agents and runs of jobs are exchanges, and traced like those of clients."""

from __future__ import annotations

import pytest

from gateway.clock import ManualClock
from tests.agents.talking import room as agents_room
from tests.agents.talking import says
from tests.gateway.wire import hanging, request
from tests.jobs.words import NOW, add, house, ran, run_now
from tests.run import Running, in_process
from tests.sessions.talk import JSON, SESSION, model, talk
from tests.wire.fake import answering, sized

from .spans import CLIENTS_SPAN, PARENT, TRACE, Span, SpanLog, outline, trace_parents

RUN = [("chat m", "CLIENT", "run_job"), ("run_job", "INTERNAL", "")]


async def test_a_message_to_an_agent() -> None:
    async with agents_room(model()) as running:
        log = SpanLog(running)
        await running.fetch(says("hi", PARENT, "x-request-id: r1"))
        turn_span, exchange = await log.read()
        assert trace_parents(running.requests) == [turn_span.header]
    assert exchange.name == "POST /api/chat"
    assert (exchange.kind, exchange.trace, exchange.parent) == ("SERVER", TRACE, CLIENTS_SPAN)
    assert exchange.attributes["gen_ai.conversation.id"] == "helper"
    assert exchange.attributes["holdgate.request.id"] == "r1"


async def test_the_status_of_a_stream_that_had_begun_is_not_made_up() -> None:
    """An agent's client has its 200 before the model is asked."""
    async with agents_room(None) as running:
        log = SpanLog(running)
        assert (await running.fetch(says("hi"))).status == 200
        _, exchange = await log.read()
    assert exchange.attributes["error.type"] == "upstream_unreachable"
    assert exchange.status == "ERROR"
    assert "http.response.status_code" not in exchange.attributes


async def run_job(running: Running, log: SpanLog, agent: str = "helper") -> list[Span]:
    """Make a job, run it, and return the spans of the run."""
    before = len(log.ended)
    job_id = await add(running, agent=agent)
    await run_now(running, job_id)
    (run,) = await ran(running, job_id, "ok")
    spans = (await log.read())[before:]
    assert spans[-1].attributes["holdgate.request.id"] == run["run_id"]
    return spans


async def test_a_run_of_an_agent_begins_a_trace() -> None:
    async with house(model(), clock=ManualClock(NOW)) as running:
        spans = await run_job(running, SpanLog(running))
        assert trace_parents(running.requests) == [spans[0].header]
    assert outline(spans) == RUN
    assert spans[-1].attributes["gen_ai.conversation.id"] == "helper"
    assert "http.route" not in spans[-1].attributes


async def test_a_run_in_a_relay_session_is_no_part_of_its_clients_trace() -> None:
    async with house(model(), clock=ManualClock(NOW)) as running:
        log = SpanLog(running)
        await running.ask(talk("hi"), SESSION, PARENT)
        await log.read()
        spans = await run_job(running, log, agent="")
        assert trace_parents(running.requests)[-1] == spans[0].header
    assert outline(spans) == RUN
    assert spans[-1].attributes["gen_ai.conversation.id"] == "s"
    assert spans[-1].trace != TRACE


async def test_an_agents_client_that_leaves_ends_its_spans() -> None:
    async with agents_room(hanging()) as running:
        log = SpanLog(running)
        client = await running.send(says("hi"))
        await client.saw(b"start")
        client.leave()
        *_, exchange = await log.read()
    assert exchange.attributes["holdgate.state"] == "gone"


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/v1/embeddings", "embeddings"),
        ("/v1/completions", "text_completion"),
    ],
)
async def test_what_is_passed_through_has_the_name_of_its_operation(
    path: str, operation: str
) -> None:
    story = answering(sized(b'{"usage": {"prompt_tokens": 3}}', "content-type: application/json"))
    async with in_process(story) as running:
        log = SpanLog(running)
        body = b'{"model": "m", "input": "hi"}'
        answer = await running.fetch(request("POST", path, JSON, PARENT, body=body))
        assert answer.status == 200
        turn_span, exchange = await log.read()
        assert trace_parents(running.requests) == [turn_span.header]
    assert outline([turn_span, exchange]) == [
        (f"{operation} m", "CLIENT", f"POST {path}"),
        (f"POST {path}", "SERVER", ""),
    ]
    assert turn_span.attributes["gen_ai.operation.name"] == operation
    assert turn_span.attributes["gen_ai.usage.input_tokens"] == 3
