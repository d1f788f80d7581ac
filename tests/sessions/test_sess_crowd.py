"""N is never exceeded: not by many requests at once, and not by a gateway that is killed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import anyio
import pytest

from tests.gateway.client import Client
from tests.gateway.wire import ask_of
from tests.run import GatewayProcess, Running, in_process, until, upstreams_of
from tests.sessions.process import process
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    follow_ups,
    kept,
    messages,
    model,
    newest,
    stop_message,
    talk,
)
from tests.wire.fake import FakeUpstream, Request, fake_upstream

REPEATS = 3
CROWD = 20


async def crowd(gate: Running, size: int) -> list[str]:
    """Ask so many times at once in one session, and read all answers."""
    texts: list[str] = []

    async def ask(number: int) -> None:
        answer = await gate.ask(talk(f"hello {number}", stream=bool(number % 2)), SESSION)
        assert answer.status == 200
        texts.append(answer.text if number % 2 else answer.json["choices"][0]["message"]["content"])

    async with anyio.create_task_group() as tasks:
        for number in range(size):
            tasks.start_soon(ask, number)
    return texts


@pytest.mark.parametrize("store", ["memory", "files"])
async def test_a_crowd_shares_what_is_left(tmp_path: Path, store: str) -> None:
    settings = kept(tmp_path) if store == "files" else {}
    async with in_process(
        model(("cut", "length"), *[f"t {n}" for n in range(99)]), **settings
    ) as gate:
        await gate.ask(talk(GO_ON + "hi"), SESSION)
        texts = await crowd(gate, CROWD)
        assert len(follow_ups(gate.requests)) == REPEATS
        assert len(gate.requests) == 1 + CROWD + REPEATS
        assert (await stop_message(gate))["used"] == REPEATS
    assert sum(text.count("t ") for text in texts) == CROWD + REPEATS


async def test_a_crowd_that_sends_the_same_directive_arms_it_once(tmp_path: Path) -> None:
    """The same message in the same place is the same directive, whoever sends it."""
    async with in_process(model(), **kept(tmp_path)) as gate:
        told: Counter[str] = Counter()

        async def ask() -> None:
            answer = await gate.ask(talk(GO_ON + "hi"), SESSION)
            told[answer.headers["x-holdgate-directive"]] += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(CROWD):
                tasks.start_soon(ask)
        assert told == {"set": 1, "unchanged": CROWD - 1}
        assert len(follow_ups(gate.requests)) == REPEATS


class Ordeal:
    """Sessions whose gateway is killed again and again while their requests run."""

    def __init__(self, upstream: FakeUpstream, seed: int) -> None:
        self.upstream = upstream
        self.random = Random(seed)
        self.sessions: list[str] = []

    @property
    def sent(self) -> Counter[str]:
        """How many follow-ups each session has seen."""
        return Counter(map(_session_of, filter(_follows_up, self.upstream.requests)))

    async def run(self, gate: GatewayProcess, new: int) -> None:
        """Set some sessions up, have all of them ask at once, and kill the gateway meanwhile."""
        self.sessions += [f"s{len(self.sessions) + n}" for n in range(new)]
        asked = len(self.upstream.requests)
        moment = self.random.randrange(1, 4 * new)
        async with anyio.create_task_group() as tasks:
            for session in self.sessions[-3 * new :]:
                for text in (f"{GO_ON}{session}", session):
                    tasks.start_soon(_ask, gate.port, session, text)
            with anyio.move_on_after(5):
                await until(lambda: len(self.upstream.requests) >= asked + moment)
            # Somewhere between the upstream's request and what comes of its answer.
            await anyio.sleep(self.random.random() * 0.01)
            await gate.kill()
            tasks.cancel_scope.cancel()

    async def finish(self, gate: GatewayProcess) -> None:
        """Let every session use up what it has left."""
        for session in self.sessions:
            for _ in range(REPEATS + 1):
                await _ask(gate.port, session, session)


async def _ask(port: int, session: str, text: str) -> None:
    client = None
    try:
        client = await Client.connected(port)
        await client.send(ask_of(talk(text), f"x-session-id: {session}"))
        with anyio.fail_after(10):
            await client.answer()
    except (OSError, AssertionError):
        # The gateway was killed; that is what this is about.
        return
    finally:
        if client is not None:
            client.leave()


def _follows_up(request: Request) -> bool:
    return bool(newest(request) == "go on")


def _session_of(request: Request) -> str:
    return str(messages(request)[0]["content"])


async def killed_again_and_again(home: Path, kills: int, new: int, seed: int) -> None:
    async with fake_upstream(model()) as upstream:
        tables = upstreams_of(upstream.port)
        settings = {f"HOLDGATE_{name.upper()}": json.dumps(rows) for name, rows in tables.items()}
        ordeal = Ordeal(upstream, seed)
        killed = 0
        # On a slow machine the first kills may come before anything is followed up.
        while killed < kills or (not ordeal.sent and killed < 20):
            async with process(home, settings) as gate:
                await ordeal.run(gate, new)
            killed += 1
        during = sum(ordeal.sent.values())
        async with process(home, settings) as gate:
            await ordeal.finish(gate)
    assert during
    assert max(ordeal.sent.values()) <= REPEATS
    assert set(ordeal.sent) <= set(ordeal.sessions)
    for session in ordeal.sessions:
        path = home.joinpath("sessions", "session", f"{session}.json")
        # A gateway may be killed before a directive is stored; then nothing was promised.
        state = json.loads(path.read_bytes()) if path.exists() else {"stopMessageUsed": REPEATS}
        assert state["stopMessageUsed"] == REPEATS


async def test_a_gateway_that_is_killed_never_sends_one_too_many(tmp_path: Path) -> None:
    await killed_again_and_again(tmp_path, kills=5, new=10, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
async def test_a_gateway_that_is_killed_many_times(tmp_path: Path, seed: int) -> None:
    await killed_again_and_again(tmp_path, kills=40, new=20, seed=seed)
