"""Clients that leave: what was used until then is counted."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.dialects.messages_wire import begin, delta, start
from tests.gateway.wire import Cue, get, request, turn, usage
from tests.run import in_process
from tests.wire.fake import CHUNKED, Peer, chunk

MESSAGES = [{"role": "user", "content": "Hi"}]
JSON = "content-type: application/json"
TEXT = {"type": "text", "text": ""}


@pytest.mark.parametrize("transport", ["fast", "httpx"])
async def test_a_client_that_leaves_while_the_connection_is_given_back(transport: str) -> None:
    """The turn has ended, but the upstream is slow to end its answer."""
    never = Cue()

    async def slow_to_end(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(turn("Hi", counted=usage(60, 40))))
        with anyio.move_on_after(5):
            await never.wait()

    async with in_process(slow_to_end, upstream={"transport": transport}) as gate:
        client = await gate.start()
        await client.saw(b"Hi")
        client.leave()
        await gate.quiet()
        (used,) = (await gate.fetch(get("/api/usage"))).json["data"]
        assert (used["turns"], used["reported_turns"]) == (1, 1)
        assert (used["input_tokens"], used["output_tokens"]) == (60, 40)


@pytest.mark.parametrize("leaves", [True, False])
async def test_what_was_reported_of_an_answer_that_breaks_off_counts(leaves: bool) -> None:
    """Messages reports the input at the start; else who always leaves early would use nothing."""
    never = Cue()

    async def break_off(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(start(input_tokens=60) + begin(0, TEXT)))
        await peer.send(chunk(delta(0, "text_delta", text="Hi")))
        if leaves:
            with anyio.move_on_after(5):
                await never.wait()

    async with in_process(break_off, upstream={"dialect": "anthropic-messages"}) as gate:
        body = {"model": "m", "max_tokens": 9, "stream": True, "messages": MESSAGES}
        encoded = json.dumps(body).encode()
        client = await gate.send(request("POST", "/v1/messages", JSON, body=encoded))
        await client.saw(b"Hi")
        if leaves:
            client.leave()
        await gate.quiet()
        (used,) = (await gate.fetch(get("/api/usage"))).json["data"]
        assert (used["turns"], used["reported_turns"]) == (1, 1)
        assert (used["input_tokens"], used["output_tokens"]) == (60, 1)
