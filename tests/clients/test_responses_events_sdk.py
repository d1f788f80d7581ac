"""Spliced Responses answers as openai-python reads them, over a real socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import openai
import pytest
from anyio.abc import SocketStream
from openai import AsyncOpenAI

from gateway.dialects.openai_responses import DIALECT
from gateway.errors import NoRoute, UpstreamBroke
from gateway.exchange.model import ModelRequest
from gateway.wire.sse import split
from tests.dialects.responses_wire import (
    CLOCK,
    RECORDED,
    Json,
    call,
    message,
    reasoning,
    refusal,
    run,
    search,
    splice,
    turn,
    usage,
)

EVENTS, JSON = "text/event-stream", "application/json"


@asynccontextmanager
async def answering(
    body: bytes, kind: str = EVENTS, status: int = 200
) -> AsyncIterator[AsyncOpenAI]:
    """Serve one answer to whoever asks."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            seen = b""
            while b"\r\n\r\n" not in seen:
                seen += await stream.receive()
            head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
            await stream.send(head.encode() + b"connection: close\r\n\r\n" + body)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        url = f"http://127.0.0.1:{port}/v1"
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            yield client
        group.cancel_scope.cancel()


ASKED: Json = {"model": "m", "input": "x"}
TURNS = {
    "a hidden call": [
        turn(reasoning("rs_1"), call("1", "clock"), ident="a", usage=usage(5, 2, 1)),
        turn(reasoning("rs_2"), message("msg_2", "noon"), ident="b", usage=usage(9, 3, 1)),
    ],
    "texts after texts": [
        turn(message("msg", "one"), ident="a"),
        turn(message("msg", "two"), search("ws"), ident="b"),
        turn(refusal("msg", "no more"), ident="c"),
    ],
    "a mixed turn": [turn(call("1", "clock"), message("m", "x"), call("2", "weather"), ident="a")],
    "recorded ones": [RECORDED["responses_text"], RECORDED["responses_reasoning"]],
}


def beaten(turns: list[bytes]) -> tuple[bytes, Json]:
    """Make one answer, with a heartbeat after every frame of it."""
    answer, stream = splice(CLOCK), b""
    for each in turns:
        tap = answer.tap()
        for frame in split(each):
            stream += tap.feed(frame) + answer.heartbeat()
        answer.take(tap)
    return stream + answer.tail(neutral_finish=False), {"id": answer.answer_id}


@pytest.mark.parametrize("name", TURNS)
async def test_the_streaming_helper_accepts_every_event(name: str) -> None:
    body, named = beaten(TURNS[name])
    async with answering(body) as client:
        async with client.responses.stream(**ASKED) as stream:
            seen = [event async for event in stream]
            final = await stream.get_final_response()
    assert final.id == named["id"]
    text = "".join(e.delta for e in seen if e.type == "response.output_text.delta")
    assert final.output_text == text
    done: list[Any] = [e.item for e in seen if e.type == "response.output_item.done"]
    output: list[Any] = final.output
    assert [item.id for item in output] == [item.id for item in done]
    assert not any(getattr(item, "name", "") == "clock" for item in final.output)


async def test_events_one_by_one() -> None:
    body, _ = beaten(TURNS["a hidden call"])
    async with answering(body) as client:
        stream = await client.responses.create(**ASKED, stream=True)
        kinds = [event.type async for event in stream]
    assert kinds.count("response.created") == 1
    assert kinds.count("response.completed") == 1
    assert kinds[-1] == "response.completed"


@pytest.mark.parametrize("begun", [True, False])
async def test_a_broken_answer_has_failed(begun: bool) -> None:
    answer = splice()
    shown = run(answer, turn(message("m", "half"), ident="a"))[0] if begun else b": wait\n"
    body = shown + answer.error_frame(UpstreamBroke("It broke off."))
    async with answering(body) as client:
        async with client.responses.stream(**ASKED) as stream:
            *_, failed = [event async for event in stream]
    assert failed.type == "response.failed"
    assert failed.response.error is not None
    assert failed.response.error.message == "It broke off."
    assert failed.response.output_text == ("half" if begun else "")


async def test_a_whole_answer_of_two_turns() -> None:
    answer = DIALECT.splice(ModelRequest(model="m", body=b"{}"), CLOCK, 10**6)
    for items in ([call("1", "clock")], [message("m", "noon")]):
        tap = answer.tap()
        tap.feed(whole(items))
        tap.close()
        answer.take(tap)
    async with answering(answer.tail(neutral_finish=False), JSON) as client:
        response = await client.responses.create(**ASKED)
    assert response.output_text == "noon"
    assert response.usage is not None
    assert (response.usage.output_tokens, response.usage.total_tokens) == (6, 5)


def whole(items: list[Json]) -> bytes:
    stream = turn(*items, usage=usage(2, 3))
    response: Any = split(stream)[-1].partition(b'"response":')[2]
    return bytes(response.strip()[:-1])


async def test_an_error_before_the_first_byte() -> None:
    body = DIALECT.error_body(NoRoute("No upstream is left.", param="model"))
    async with answering(body, JSON, 400) as client:
        with pytest.raises(openai.BadRequestError, match="No upstream is left") as caught:
            await client.responses.create(**ASKED)
    assert caught.value.param == "model"
