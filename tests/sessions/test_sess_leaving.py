"""A client that leaves during a follow-up ends it all: P10, never after a disconnect."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import anyio
import pytest

from tests.gateway.client import Client
from tests.gateway.wire import text
from tests.run import SOON, Running, in_process, until
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    document,
    follow_ups,
    kept,
    messages,
    newest,
    reply,
    stop_message,
    talk,
    text_of,
)
from tests.wire.fake import CHUNKED, Peer, chunk, head

TIMES = 200
JSON = head("content-type: application/json", "transfer-encoding: chunked")


class Watched:
    """An upstream that answers every first turn and never ends a follow-up, and when it was left."""

    def __init__(self, said: tuple[bytes, ...] = ()) -> None:
        self.said = said
        self.hangs = True
        self.reached: defaultdict[str, anyio.Event] = defaultdict(anyio.Event)
        self.left: dict[str, float] = {}

    async def play(self, peer: Peer) -> None:
        while True:
            asked = await peer.request()
            if newest(asked) == "go on" and self.hangs:
                break
            stream = json.loads(asked.body)["stream"]
            await peer.send(*reply(f"text {len(messages(asked))}", stream=stream))
        await peer.send(*self.said)
        name = messages(asked)[0]["content"]
        self.reached[name].set()
        await peer.gone()
        self.left[name] = time.monotonic()


async def leaves(gate: Running, upstream: Watched, name: str, pause: float, stream: bool) -> float:
    """Ask, wait for the follow-up, wait a little more, and leave; return when that was."""
    client = await gate.start(talk(GO_ON + name, stream=stream), f"x-session-id: {name}")
    await upstream.reached[name].wait()
    await anyio.sleep(pause)
    leave = Client.reset if name.endswith("0") else Client.leave
    leave(client)
    return time.monotonic()


MOMENTS: dict[str, tuple[bool, tuple[bytes, ...]]] = {
    "before its headers": (True, ()),
    "before its first event": (True, (CHUNKED,)),
    "while it speaks": (True, (CHUNKED, chunk(text("two")))),
    "whole, before its headers": (False, ()),
    "whole, inside its body": (False, (JSON, chunk(b'{"id":'))),
}


@pytest.mark.parametrize("name", MOMENTS)
async def test_who_leaves_during_a_follow_up_ends_it(name: str) -> None:
    stream, said = MOMENTS[name]
    random, upstream = Random(name), Watched(said)
    went: dict[str, float] = {}
    async with in_process(upstream.play) as gate:

        async def one(session: str) -> None:
            went[session] = await leaves(gate, upstream, session, random.random() / 4, stream)

        async with anyio.create_task_group() as tasks:
            for number in range(TIMES // len(MOMENTS)):
                tasks.start_soon(one, f"c{number}")
        await gate.quiet()
        assert len(gate.requests) == 2 * len(went)
        assert (await stop_message(gate, "c7"))["used"] == 1
        await until(lambda: len(upstream.left) == len(went))
    late = {s: upstream.left[s] - at for s, at in went.items() if upstream.left[s] - at > SOON}
    assert len(went) == TIMES // len(MOMENTS)
    assert not late


async def test_who_leaves_at_any_moment_ends_it(tmp_path: Path) -> None:
    """Also between the end of a turn, the count on the disk, and the follow-up."""

    random, upstream = Random(5), Watched()
    upstream.hangs = False
    async with in_process(upstream.play, **kept(tmp_path)) as gate:

        async def one(session: str, turn: int, pause: float) -> None:
            body = talk(f'<**stopMessage:"go on",500**>{session}')
            client = await gate.start(body, f"x-session-id: {session}")
            await client.saw(text(f"text {2 * turn + 1}"))
            await anyio.sleep(pause)
            client.leave()

        async with anyio.create_task_group() as tasks:
            for number in range(TIMES // 4):
                tasks.start_soon(one, f"c{number}", number % 4, random.random() * 0.02)
        with anyio.fail_after(4 * SOON):
            await gate.quiet()
        sent = Counter(messages(r)[0]["content"] for r in follow_ups(gate.requests))
        assert len(sent) > TIMES // 8
    for path in tmp_path.joinpath("session").iterdir():
        used = document(tmp_path, path.stem)["stopMessageUsed"]
        # One may be counted and never sent; none is ever sent uncounted.
        assert used - 1 <= sent[path.stem] <= used


async def test_the_count_stays_and_the_next_request_goes_on_from_there() -> None:
    upstream = Watched()
    async with in_process(upstream.play) as gate:
        await leaves(gate, upstream, "s", 0, stream=True)
        await gate.quiet()
        assert (await stop_message(gate))["used"] == 1
        upstream.hangs = False
        assert text_of(await gate.ask(talk("hi"), SESSION)) == "text 1\n\ntext 3\n\ntext 5"
