"""One trace from the client through the gateway to the upstream, whatever happens on the way."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from gateway.clock import ManualClock
from gateway.errors import Draining
from tests.clock.holding import HOUR, NOW, acting, fails, held, remind, room, says, schedules
from tests.clock.words import Call, play
from tests.clock.words import says as act
from tests.gateway.wire import ask_of, chat, hanging, request, streaming, text, turn, usage
from tests.pairs.gate import JSON, both_ways, each_pair, gate, telling
from tests.pairs.neutral import MODEL, Answer, Ask, Tongue
from tests.run import in_process, until
from tests.sessions.talk import GO_ON, SESSION, model, talk
from tests.wire.fake import CHUNKED, Story, answering, chunk, once, sized

from .spans import CLIENTS_SPAN, PARENT, TRACE, SpanLog, outline, trace_parents

SERVER = "POST /v1/chat/completions"
ANSWER = (SERVER, "SERVER", "")
CHAT = ("chat m", "CLIENT", SERVER)
GOOD = streaming(turn("hi", counted=usage(11, 7)))


def refusing(status: int) -> Story:
    """Write an answer that is an error and quotes who asked."""
    return answering(sized(b'{"error": {"message": "canary"}}', JSON, status=f"{status} Hm"))


@both_ways
@each_pair
async def test_the_client_is_the_parent_and_the_upstream_hears_of_the_turn(
    client: Tongue, upstream: Tongue, stream: bool
) -> None:
    story = telling(upstream, Answer("Fine."), stream)
    async with gate((upstream, story)) as between:
        log = SpanLog(between.running)
        await between.send(client, client.ask(Ask(), stream), PARENT, "x-request-id: r1", SESSION)
        turn_span, exchange = await log.read()
        assert trace_parents(between.running.requests) == [turn_span.header]
        port = between.running.fakes[0].port
        exchange_id = between.running.exchanges[0]["exchange"]
    assert outline([turn_span, exchange]) == [
        (f"chat {MODEL}", "CLIENT", f"POST {client.PATH}"),
        (f"POST {client.PATH}", "SERVER", ""),
    ]
    assert {turn_span.trace, exchange.trace} == {TRACE}
    assert exchange.parent == CLIENTS_SPAN
    assert exchange.attributes == {
        "http.request.method": "POST",
        "http.route": client.PATH,
        "url.path": client.PATH,
        "http.response.status_code": 200,
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": stream,
        "gen_ai.conversation.id": "s",
        "holdgate.exchange.id": exchange_id,
        "holdgate.request.id": "r1",
        "holdgate.owner": "local",
        "holdgate.upstream": "a",
        "holdgate.state": "done",
        "holdgate.turns": 1,
    }
    assert turn_span.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "a",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.stream": stream,
        "gen_ai.conversation.id": "s",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "holdgate.upstream": "a",
        "server.address": "127.0.0.1",
        "server.port": port,
    }
    assert turn_span.events == [("holdgate.first_frame", {})]
    assert {turn_span.status, exchange.status} == {"UNSET"}


@pytest.mark.parametrize(
    "headers", [(), (PARENT, PARENT), ("traceparent: 00-0-0-01",)], ids=["none", "two", "not one"]
)
async def test_without_a_parent_a_trace_begins(headers: tuple[str, ...]) -> None:
    async with in_process(GOOD) as running:
        log = SpanLog(running)
        await running.ask(None, *headers)
        turn_span, exchange = await log.read()
        assert trace_parents(running.requests) == [turn_span.header]
    assert exchange.parent == ""
    assert exchange.trace == turn_span.trace != TRACE
    assert "gen_ai.conversation.id" not in exchange.attributes


async def test_the_state_of_the_trace_goes_with_it() -> None:
    async with in_process(GOOD) as running:
        SpanLog(running)
        await running.ask(None, PARENT, "tracestate: one=1", "tracestate: two=2")
        assert running.requests[0].headers[b"tracestate"] == b"one=1,two=2"


async def test_a_trace_that_is_not_sampled_is_passed_on_as_such() -> None:
    async with in_process(GOOD) as running:
        log = SpanLog(running, ALWAYS_OFF)
        await running.ask(None, PARENT)
        told = running.requests[0].headers[b"traceparent"]
        assert await log.read() == []
    assert told.startswith(f"00-{TRACE}-".encode())
    assert told.endswith(b"-00")


async def test_a_tool_and_a_hold() -> None:
    clock = ManualClock(NOW)
    story = acting(schedules(HOUR // 60), says("I will."), says("Drink your tea."))
    async with room(clock, story) as running:
        log = SpanLog(running)
        client = await running.start(talk("remind me"), SESSION, PARENT)
        await held(running)
        assert [span.name for span in log.ended] == ["chat m", "execute_tool clock", "chat m"]
        clock.advance(HOUR // 60)
        await client.answer()
        spans = await log.read()
        turns = [span for span in spans if span.name == "chat m"]
        assert trace_parents(running.requests) == [span.header for span in turns]
    tool = ("execute_tool clock", "INTERNAL", SERVER)
    assert outline(spans) == [CHAT, tool, CHAT, CHAT, ANSWER]
    assert {span.trace for span in spans} == {TRACE}
    assert spans[-1].parent == CLIENTS_SPAN
    assert spans[1].attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "clock",
        "gen_ai.tool.call.id": "call_a",
        "gen_ai.tool.type": "function",
    }
    reasons = [span.attributes["gen_ai.response.finish_reasons"] for span in turns]
    assert reasons == [("tool_calls",), ("stop",), ("stop",)]
    assert spans[-1].attributes["holdgate.turns"] == 3
    assert spans[-1].events == [
        ("holdgate.hold", {"holdgate.hold.until": "2026-02-02T21:23:38.229Z"}),
        ("holdgate.hold.ended", {"holdgate.hold.outcome": "due"}),
    ]


async def test_a_tool_that_fails() -> None:
    story = play(act("", Call("clock", "{")), act("Sorry."))
    async with in_process(story, clock=ManualClock(NOW)) as running:
        log = SpanLog(running)
        await running.ask(None, SESSION)
        _, tool, _, exchange = await log.read()
    assert (tool.status, tool.attributes["error.type"]) == ("ERROR", "tool_error")
    assert exchange.status == "UNSET"


async def test_rounds_of_a_stop_message() -> None:
    async with in_process(model()) as running:
        log = SpanLog(running)
        await running.ask(talk(f"count {GO_ON}"), SESSION)
        spans = await log.read()
    assert outline(spans) == [*[CHAT] * 4, ANSWER]
    tokens = [span.attributes["gen_ai.usage.input_tokens"] for span in spans[:-1]]
    assert tokens == [10, 20, 30, 40]
    assert spans[-1].events == [
        ("holdgate.stop_message", {"holdgate.stop_message.n": n, "holdgate.stop_message.of": 3})
        for n in (1, 2, 3)
    ]


async def test_every_route_that_is_tried_is_a_span() -> None:
    async with in_process(None, refusing(503), GOOD) as running:
        log = SpanLog(running)
        await running.ask(None, PARENT)
        nobody, busy, fine, exchange = await log.read()
        assert trace_parents(running.requests) == [busy.header, fine.header]
    assert nobody.attributes["error.type"] == "upstream_unreachable"
    assert "http.response.status_code" not in nobody.attributes
    assert busy.attributes["error.type"] == "503"
    assert busy.attributes["http.response.status_code"] == 503
    assert [span.attributes["holdgate.upstream"] for span in (nobody, busy, fine)] == [*"abc"]
    statuses = [span.status for span in (nobody, busy, fine, exchange)]
    assert statuses == ["ERROR", "ERROR", "UNSET", "UNSET"]
    assert exchange.attributes["holdgate.upstream"] == "c"


@pytest.mark.parametrize(
    "status, shown, kind, is_error",
    [
        (500, 500, "upstream_error", True),
        (401, 502, "upstream_auth", True),
        (400, 400, "upstream_error", False),
    ],
)
async def test_an_answer_that_is_an_error(
    status: int, shown: int, kind: str, is_error: bool
) -> None:
    async with in_process(refusing(status)) as running:
        log = SpanLog(running)
        await running.ask()
        turn_span, exchange = await log.read()
    assert turn_span.status == "ERROR"
    assert exchange.attributes["http.response.status_code"] == shown
    assert exchange.attributes["error.type"] == kind
    assert exchange.attributes["holdgate.state"] == "failed"
    assert exchange.status == ("ERROR" if is_error else "UNSET")
    assert "canary" not in log.exported


async def test_a_stream_that_breaks() -> None:
    async with in_process(once(CHUNKED, chunk(text("half")), reset=True)) as running:
        log = SpanLog(running)
        await running.ask()
        turn_span, exchange = await log.read()
    for span in (turn_span, exchange):
        assert (span.status, span.attributes["error.type"]) == ("ERROR", "upstream_broke")
    assert exchange.attributes["http.response.status_code"] == 200


async def test_a_follow_up_that_fails_does_not_fail_the_answer() -> None:
    clock = ManualClock(NOW)
    async with room(clock, acting(schedules(HOUR), fails("500 No"))) as running:
        log = SpanLog(running)
        await running.ask(talk("remind me"), SESSION)
        spans = await log.read()
    assert [span.status for span in spans] == ["UNSET", "UNSET", "ERROR", "UNSET"]
    assert "error.type" not in spans[-1].attributes


class TestTheClientLeaves:
    """Whenever it does, all spans end."""

    async def test_in_a_stream(self) -> None:
        async with in_process(hanging(CHUNKED, chunk(text("half")))) as running:
            log = SpanLog(running)
            client = await running.start()
            await client.saw(b"half")
            client.leave()
            turn_span, exchange = await log.read()
        assert turn_span.attributes["error.type"] == "cancelled"
        assert exchange.attributes["holdgate.state"] == "gone"
        assert exchange.attributes["http.response.status_code"] == 200
        assert [turn_span.status, exchange.status] == ["UNSET", "UNSET"]

    async def test_before_the_first_byte(self) -> None:
        async with in_process(hanging()) as running:
            log = SpanLog(running)
            client = await running.start()
            await until(lambda: bool(running.requests))
            client.leave()
            turn_span, exchange = await log.read()
        assert turn_span.attributes["error.type"] == "cancelled"
        assert "http.response.status_code" not in exchange.attributes

    async def test_in_a_hold(self) -> None:
        async with room(ManualClock(NOW), acting(says("Wait."))) as running:
            log = SpanLog(running)
            await remind(running, HOUR // 60)
            client = await running.start(talk("hi"), SESSION)
            await held(running)
            client.leave()
            turn_span, exchange = await log.read()
        assert "error.type" not in turn_span.attributes
        assert exchange.events[-1] == (
            "holdgate.hold.ended",
            {"holdgate.hold.outcome": "client_gone"},
        )


async def test_an_exchange_that_is_cut_ends_its_spans() -> None:
    async with in_process(hanging(CHUNKED, chunk(text("half")))) as running:
        log = SpanLog(running)
        client = await running.start()
        await client.saw(b"half")
        running.gateway.exchanges.cut(Draining("Bye."))
        spans = await log.read()
    assert [span.attributes["error.type"] for span in spans] == ["draining", "draining"]


async def test_a_refused_request_is_no_exchange() -> None:
    async with in_process(GOOD) as running:
        log = SpanLog(running)
        refused = await running.ask(chat(model="unknown"), PARENT)
        assert refused.status == 404
        await running.ask()
        assert outline(await log.read()) == [CHAT, ANSWER]


async def test_neither_words_nor_keys_are_in_a_span() -> None:
    """Nor the words of a tool, of its result, of a reminder or of a stop message."""
    clock, key = ManualClock(NOW), "canary-client-key"
    story = acting(schedules(HOUR // 60, "canary-task"), says("canary-said"), fails("500 canary"))
    upstream = {"api_key": "canary-upstream-key", "query": {"key": "canary-parameter"}}
    tables = {"keys": [{"owner": "alice", "key": key}]}
    asked = ask_of(
        talk('canary-asked <**stopMessage:"canary-go-on",1**>'),
        SESSION,
        f"authorization: Bearer {key}",
        "baggage: user=canary-baggage",
    )
    async with room(clock, story, upstream=upstream, tables=tables) as running:
        log = SpanLog(running)
        await running.fetch(asked)
        spans = await log.read()
        assert [b"canary-go-on" in request.body for request in running.requests][-1]
        assert not any(b"baggage" in request.headers for request in running.requests)
    # The round of the stop message is tried twice.
    assert [span.name for span in spans].count("chat m") == 4
    assert "canary" not in log.exported


async def test_the_name_of_a_model_that_anybody_may_choose_is_cut() -> None:
    async with in_process(GOOD, tables={"models": []}) as running:
        log = SpanLog(running)
        name = "a/" + "x" * 1000
        await running.fetch(request("POST", "/v1/chat/completions", JSON, body=chat(model=name)))
        spans = await log.read()
    assert max(len(span.name) for span in spans) <= len("chat ") + 100
