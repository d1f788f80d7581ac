"""Clients that leave: what was used until then is counted."""

from __future__ import annotations

import anyio
import pytest

from tests.gateway.wire import Cue, get, turn, usage
from tests.run import in_process
from tests.wire.fake import CHUNKED, Peer, chunk


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
