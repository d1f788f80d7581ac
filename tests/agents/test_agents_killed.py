"""A process that is killed in the middle of an answer, and the one that comes after it."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from tests.agents.talking import AGENTS, heard, says
from tests.gateway.client import Answer, Client
from tests.gateway.wire import event, get, text
from tests.run import GatewayProcess, until, upstreams_of
from tests.sessions.process import process
from tests.sessions.talk import assistant, messages, reply, user
from tests.wire.fake import CHUNKED, FakeUpstream, Peer, chunk, fake_upstream

ROLE = event({"role": "assistant", "content": ""})


async def story(peer: Peer) -> None:
    """Answer everything but what is to be killed."""
    while messages(asked := await peer.request())[-1] != user("and now"):
        number = len(messages(asked))
        await peer.send(*reply(f"answer to {number}", stream=True))
    await peer.send(CHUNKED, chunk(ROLE + text("so far")))
    await peer.gone()


def settings(fake: FakeUpstream, store: str) -> dict[str, str]:
    tables = {**upstreams_of(fake.port), "agents": AGENTS}
    named = {f"HOLDGATE_{name.upper()}": json.dumps(rows) for name, rows in tables.items()}
    return {**named, "HOLDGATE_STORE__URL": store}


async def send(gate: GatewayProcess, request: bytes) -> Client:
    client = await gate.connect()
    await client.send(request)
    return client


async def fetch(gate: GatewayProcess, request: bytes) -> Answer:
    client = await send(gate, request)
    answer = await client.answer()
    client.leave()
    return answer


@pytest.mark.parametrize("store", ["", "sqlite:///{home}/store.sqlite3"], ids=["files", "sqlite"])
async def test_what_a_killed_process_held_is_free_and_what_it_kept_is_there(
    tmp_path: Path, store: str
) -> None:
    async with fake_upstream(story) as fake:
        with anyio.fail_after(30):
            where = settings(fake, store.format(home=tmp_path))
            async with process(tmp_path, where) as gate:
                assert heard(await fetch(gate, says("hello")))[-1][0] == "complete"
                client = await send(gate, says("and now"))
                await client.saw(b"so far")
                await gate.kill()
                assert (await client.answer()).ending != "whole"
            await until(lambda: not fake.open)
            async with process(tmp_path, where) as gate:
                assert heard(await fetch(gate, says("again")))[-1][0] == "complete"
                shown = (await fetch(gate, get("/api/sessions/helper"))).json
            said = [user("hello"), assistant("answer to 2")]
            assert shown["messages"] == [*said, user("again"), assistant("answer to 4")]
