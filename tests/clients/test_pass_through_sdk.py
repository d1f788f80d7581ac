"""openai-python uses what is passed through: embeddings, and the older completions."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from openai import APIError, AsyncOpenAI, NotFoundError, RateLimitError

from tests.gateway.wire import DONE, data
from tests.run import Running, in_process
from tests.wire.fake import CHUNKED, LAST, Peer, Story, answering, chunk, once, sized

JSON = "content-type: application/json"
MODELS = {"models": [{"name": "small", "routes": ["a/text-embedding-3-small"]}]}
ABOUT = {"id": "cmpl-1", "object": "text_completion", "created": 7, "model": "real"}


def completion(text: str, finish: str | None = None) -> dict[str, object]:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
    return {**ABOUT, "choices": [choice]}


def embedding(peer_body: bytes) -> bytes:
    """Answer as OpenAI does, in the form that is asked for."""
    asked = json.loads(peer_body)
    vector: object = [0.5, -0.25]
    if asked.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack("<2f", 0.5, -0.25)).decode()
    found = [{"object": "embedding", "index": 0, "embedding": vector}]
    usage = {"prompt_tokens": 4, "total_tokens": 4}
    answer = {"object": "list", "data": found, "model": asked["model"], "usage": usage}
    return json.dumps(answer).encode()


async def embeds(peer: Peer) -> None:
    while True:
        asked = await peer.request()
        await peer.send(sized(embedding(asked.body), JSON))


@asynccontextmanager
async def client_of(story: Story) -> AsyncIterator[tuple[AsyncOpenAI, Running]]:
    async with in_process(story, tables=MODELS) as gate:
        base_url = f"http://127.0.0.1:{gate.port}/v1"
        async with AsyncOpenAI(base_url=base_url, api_key="canary", max_retries=0) as client:
            yield client, gate


@pytest.mark.parametrize("encoding", ["base64", "float"])
async def test_embeddings(encoding: str) -> None:
    async with client_of(embeds) as (client, gate):
        if encoding == "float":
            found = await client.embeddings.create(
                model="small", input=["hello"], encoding_format="float"
            )
        else:
            found = await client.embeddings.create(model="small", input=["hello"])
        assert found.data[0].embedding == [0.5, -0.25]
        assert found.usage.total_tokens == 4
        assert found.model == "text-embedding-3-small"
        (line,) = gate.exchanges
        assert (line["model"], line["tokens_in"]) == ("small", 4)
        assert b"canary" not in gate.requests[0].head


async def test_completions() -> None:
    told = {**completion("Hello.", "stop"), "usage": {"prompt_tokens": 2, "total_tokens": 4}}
    async with client_of(answering(sized(json.dumps(told).encode(), JSON))) as (client, gate):
        found = await client.completions.create(model="small", prompt="Say hello.")
        assert found.choices[0].text == "Hello."
        assert gate.requests[0].line == b"POST /v1/completions HTTP/1.1"
        assert gate.exchanges[0]["tokens_out"] == 2


async def test_completions_as_a_stream() -> None:
    pieces = [data(completion("Hel")), data(completion("lo.", "stop")), DONE]
    story = answering(CHUNKED, *[chunk(piece) for piece in pieces], LAST)
    async with client_of(story) as (client, _):
        stream = await client.completions.create(model="small", prompt="x", stream=True)
        texts = [chunk.choices[0].text async for chunk in stream]
    assert texts == ["Hel", "lo."]


async def test_a_stream_that_breaks_off_is_an_error() -> None:
    story = once(CHUNKED, chunk(data(completion("Hel"))), reset=True)
    async with client_of(story) as (client, _):
        stream = await client.completions.create(model="small", prompt="x", stream=True)
        assert (await anext(stream)).choices[0].text == "Hel"
        with pytest.raises(APIError) as caught:
            await anext(stream)
    assert caught.value.code == "upstream_broke"


async def test_errors() -> None:
    body = b'{"error": {"message": "Slow down.", "type": "tokens", "code": "rate_limit"}}'
    story = answering(sized(body, JSON, "retry-after: 3", status="429 Full"))
    async with client_of(story) as (client, _):
        with pytest.raises(RateLimitError, match=r"Slow down\.") as caught:
            await client.embeddings.create(model="small", input="x")
        assert caught.value.response.headers["retry-after"] == "3"
        with pytest.raises(NotFoundError, match="No model is called 'other'"):
            await client.embeddings.create(model="other", input="x")
