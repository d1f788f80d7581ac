"""A gateway that is killed at any moment loses no reminder that it acknowledged.

Counted from outside. A reminder is acknowledged when the upstream is told the result of the call;
it is carried when the upstream is sent its text. A gateway may carry one again only if it was
killed before the delivery was written down, which is before the answer's end is shown.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import anyio
import pytest
from anyio.streams.text import TextReceiveStream

from tests.clock.reminding import (
    carried,
    clock_file,
    due,
    fetch,
    is_first,
    kept_tasks,
    results,
    setting,
    variables,
)
from tests.clock.words import clock, complete, says, streamed
from tests.gateway.client import Client
from tests.gateway.wire import DONE, ask_of, event, text
from tests.run import GatewayProcess, until
from tests.sessions.process import process
from tests.sessions.talk import messages, talk, text_of
from tests.wire.fake import CHUNKED, LAST, Peer, Request, chunk, fake_upstream

SCHEDULE = "schedule "
FIRST, SECOND = text("one"), text("two")


def now_ms() -> int:
    return int(time.time() * 1000)


def said(asked: Request) -> str:
    """Return what the user said in a request."""
    words: str = messages(asked)[0]["content"]
    return words


def ident(asked: Request) -> str:
    """Return which exchange a request belongs to."""
    return asked.headers[b"x-request-id"].partition(b":")[0].decode()


class Witness:
    """A model that schedules what it is told to, and remembers all it was told.

    Where it is told to stop, it does so at that point of its answer, for ever.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[str, Any] = {}
        self.carried: dict[str, list[str]] = defaultdict(list)
        self._reached: dict[str, anyio.Event] = defaultdict(anyio.Event)

    async def reached(self, point: str) -> None:
        """Wait until it stopped at a point."""
        with anyio.fail_after(10):
            await self._reached[point].wait()

    async def play(self, peer: Peer) -> None:
        """Answer whoever asks."""
        while True:
            asked = await peer.request()
            self._note(asked)
            await self._answer(peer, asked)

    def _note(self, asked: Request) -> None:
        task = said(asked).removeprefix(SCHEDULE)
        for result in results(asked):
            if result["ok"]:
                self.acknowledged[task] = result
        if is_first(asked):
            for task in carried(asked):
                self.carried[task].append(ident(asked))

    async def _answer(self, peer: Peer, asked: Request) -> None:
        words, stream = said(asked), json.loads(asked.body)["stream"]
        if words.startswith(SCHEDULE) and not results(asked):
            wish = says("", clock("schedule", due(words.removeprefix(SCHEDULE), now_ms())))
            await peer.send(*(streamed(wish) if stream else (complete(wish),)))
        elif stream:
            await self._stream(peer, words)
        else:
            await peer.send(complete(says("one two")))

    async def _stream(self, peer: Peer, words: str) -> None:
        for point, piece in (
            ("before the headers", CHUNKED),
            ("before the first byte", chunk(FIRST)),
            ("after the first byte", chunk(SECOND)),
            ("after the second frame", chunk(event({}, "stop") + DONE) + LAST),
        ):
            if words == point:
                self._reached[point].set()
                await peer.gone()
            await peer.send(piece)


async def remind(gate: GatewayProcess, task: str, session: str, in_ms: int = 0) -> None:
    """Set a reminder by hand."""
    wanted = setting(due(task, now_ms() + in_ms), session)
    assert (await fetch(gate.port, wanted)).status == 201


async def ask(gate: GatewayProcess, session: str, words: str = "hi") -> None:
    """Ask in a session, and read an answer that ends well."""
    answer = await fetch(gate.port, ask_of(talk(words), f"x-session-id: {session}"))
    assert text_of(answer) == "onetwo"


@asynccontextmanager
async def witnessed() -> AsyncIterator[tuple[Witness, dict[str, str]]]:
    """Run a model that remembers, and say how a gateway finds it."""
    witness = Witness()
    async with fake_upstream(witness.play) as upstream:
        yield witness, variables(upstream.port)


class Crowd:
    """Clients of a gateway that stay connected until it is gone."""

    def __init__(self, gate: GatewayProcess) -> None:
        self._gate = gate

    async def start(self, session: str, words: str) -> Client:
        """Ask in a session, and leave the answer to be read or not."""
        client = await self._gate.connect()
        await client.send(ask_of(talk(words), f"x-session-id: {session}"))
        return client


# At named points, all of them in one life.

# How often a reminder is carried in both lives together, and what the client saw in the first.
POINTS = {
    "before the headers": (2, b""),
    "before the first byte": (2, b""),
    "after the second frame": (1, SECOND),
    "after the end": (1, DONE),
}
UNREAD, SHOWN, ACKNOWLEDGED = "unread", "after the first byte", "acknowledged"


async def test_killed_at_each_point_of_a_delivery(tmp_path: Path) -> None:
    home = tmp_path / "sessions"
    async with witnessed() as (witness, settings):
        async with process(tmp_path, settings) as gate:
            crowd = Crowd(gate)
            for point in (*POINTS, UNREAD, SHOWN):
                await remind(gate, point, _named(point))
            for point, (_, seen) in POINTS.items():
                client = await crowd.start(_named(point), point)
                await (client.saw(seen) if seen else witness.reached(point))
            await crowd.start(ACKNOWLEDGED, SCHEDULE + ACKNOWLEDGED)
            await until(lambda: ACKNOWLEDGED in witness.acknowledged)
            await (await crowd.start(_named(SHOWN), SHOWN)).saw(FIRST)
            # Who does not run reads nothing.
            os.kill(gate.pid, signal.SIGSTOP)
            await crowd.start(UNREAD, UNREAD)
            await gate.kill()
        written = {point: _is_delivered(home, point) for point in (*POINTS, SHOWN, UNREAD)}
        async with process(tmp_path, settings) as gate:
            for _ in range(2):
                for point in (*written, ACKNOWLEDGED):
                    await ask(gate, _named(point))
    times = {task: len(idents) for task, idents in witness.carried.items()}
    assert {point: times[point] for point in POINTS} == {p: n for p, (n, _) in POINTS.items()}
    assert {point for point in POINTS if written[point]} == {
        p for p, (n, _) in POINTS.items() if n == 1
    }
    # The process was stopped either before or after it had written that down.
    assert times[SHOWN] == (1 if written[SHOWN] else 2)
    assert not written[UNREAD]
    assert times[UNREAD] == times[ACKNOWLEDGED] == 1


def _named(point: str) -> str:
    return point.replace(" ", "-")


def _is_delivered(home: Path, point: str) -> bool:
    (task,) = kept_tasks(home, _named(point))
    return "deliveredAtMs" in task


# At each call to the disk.


@asynccontextmanager
async def tampered(gate: GatewayProcess, injection: str) -> AsyncIterator[None]:
    """Have one system call of a running gateway tampered with."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("This test needs strace, which is not installed.", pytrace=False)
    calls = injection.partition(":")[0]
    tracing = ("-f", "-o", os.devnull, "-e", f"trace={calls}", "-e", f"inject={injection}")
    async with await anyio.open_process((strace, *tracing, "-p", str(gate.pid))) as tracer:
        assert tracer.stderr is not None
        said = await TextReceiveStream(tracer.stderr).receive()
        if "attached" not in said:
            pytest.fail(f"This test needs to trace processes: {said}", pytrace=False)
        try:
            yield
        finally:
            if tracer.returncode is None:
                tracer.kill()


class Point(NamedTuple):
    """A call to the disk at which the gateway is killed, and whether the new file counts then."""

    call: str
    number: int
    is_kept: bool
    does: str = "signal=SIGKILL"

    @property
    def injection(self) -> str:
        """What strace has to do."""
        return f"{self.call}:{self.does}:when={self.number}"

    @property
    def name(self) -> str:
        """A name for a session and its task."""
        return f"{self.call}-{self.number}-{self.does.partition('=')[0]}"


WRITING = (
    Point("fsync", 1, is_kept=False),
    Point("rename", 1, is_kept=False),
    Point("fsync", 2, is_kept=True),
)
# All is written, and nobody was told yet.
UNTOLD = Point("fsync", 2, is_kept=True, does="delay_exit=60000000")


@asynccontextmanager
async def killed_at(point: Point, gate: GatewayProcess, home: Path) -> AsyncIterator[Crowd]:
    """Have a gateway killed at a point to which the clients bring it."""
    async with tampered(gate, point.injection):
        crowd = Crowd(gate)
        yield crowd
        if point is UNTOLD:
            await until(clock_file(home, point.name).exists)
            os.kill(gate.pid, signal.SIGKILL)
        else:
            with anyio.fail_after(10):
                await gate.gone()
    await gate.gone()


async def test_killed_at_each_call_that_commits(tmp_path: Path) -> None:
    """Until the new file has its name the old one counts, and the reminder is carried again."""
    home = tmp_path / "sessions"
    async with witnessed() as (witness, settings):
        for point in WRITING:
            async with process(tmp_path, settings) as gate:
                await remind(gate, point.name, point.name)
                async with killed_at(point, gate, home) as crowd:
                    await crowd.start(point.name, "hi")
            assert len(witness.carried[point.name]) == 1
            assert ("deliveredAtMs" in kept_tasks(home, point.name)[0]) == point.is_kept
        await see_all_again(tmp_path, settings)
    times = {task: len(idents) for task, idents in witness.carried.items()}
    assert times == {point.name: 1 if point.is_kept else 2 for point in WRITING}


async def test_killed_between_the_write_of_a_tool_and_its_follow_up(tmp_path: Path) -> None:
    """Nothing was acknowledged; it is there as a whole or not at all, and comes once at most."""
    home = tmp_path / "sessions"
    async with witnessed() as (witness, settings):
        for point in (*WRITING, UNTOLD):
            async with process(tmp_path, settings) as gate:
                async with killed_at(point, gate, home) as crowd:
                    await crowd.start(point.name, SCHEDULE + point.name)
            assert bool(kept_tasks(home, point.name)) == point.is_kept
        await see_all_again(tmp_path, settings)
    assert not witness.acknowledged
    times = {task: len(idents) for task, idents in witness.carried.items()}
    assert times == {point.name: 1 for point in (*WRITING, UNTOLD) if point.is_kept}


async def see_all_again(home: Path, settings: dict[str, str]) -> None:
    """Ask twice in each session of a new life, which has tidied up after the old ones."""
    async with process(home, settings) as gate:
        for _ in range(2):
            for point in (*WRITING, UNTOLD):
                await ask(gate, point.name)
        left = list(home.joinpath("sessions", "clock").iterdir())
        assert {path.suffix for path in left} == {".json"}


# At random, under load.


@dataclass
class ModelRequest:
    """An exchange: of which session in which life, and what the client saw of its answer."""

    session: str
    life: int
    stream: bool
    schedules: bool
    seen: bytes = b""

    @property
    def may_have_delivered(self) -> bool:
        """Whether what it carried can count: a turn that only calls the clock shows nothing."""
        return bool(self.seen) or self.schedules


class Ordeal:
    """Sessions in which much is scheduled and carried, while their gateway is killed."""

    def __init__(self, witness: Witness, seed: int, sessions: int) -> None:
        self.witness = witness
        self.random = Random(seed)
        self.sessions = [f"s{number}" for number in range(sessions)]
        self.asked: dict[str, ModelRequest] = {}
        self._life = 0
        self._tasks = count(1)

    async def live(self, gate: GatewayProcess) -> None:
        """Have all sessions ask on and on, and kill the gateway meanwhile."""
        self._life += 1
        before, moment = len(self.asked), self.random.randrange(1, 10 * len(self.sessions))
        async with anyio.create_task_group() as tasks:
            for session in self.sessions:
                tasks.start_soon(self._go_on, gate, session)
            with anyio.move_on_after(5):
                await until(lambda: len(self.asked) >= before + moment)
            await anyio.sleep(self.random.random() * 0.005)
            await gate.kill()

    async def finish(self, gate: GatewayProcess) -> None:
        """Ask in all sessions for what they have left, and see that it is all."""
        self._life += 1
        for session in self.sessions:
            for _ in range(2):
                assert DONE in await self._ask(gate, session, "hi", stream=True)

    async def _go_on(self, gate: GatewayProcess, session: str) -> None:
        seen = b"x"
        while seen:
            words = f"{SCHEDULE}task {next(self._tasks)}" if self.random.random() < 0.5 else "hi"
            seen = await self._ask(gate, session, words, self.random.random() < 0.7)

    async def _ask(self, gate: GatewayProcess, session: str, words: str, stream: bool) -> bytes:
        ident = f"r{len(self.asked)}"
        self.asked[ident] = asked = ModelRequest(session, self._life, stream, words != "hi")
        request = ask_of(
            talk(words, stream=stream), f"x-session-id: {session}", f"x-request-id: {ident}"
        )
        # Nothing, or not all of it, when the gateway was killed; that is what this is about.
        with suppress(OSError, AssertionError):
            asked.seen = bytes((await fetch(gate.port, request)).body)
        return asked.seen

    def surely_written(self, ident: str) -> bool:
        """Tell whether what an exchange carried was written down as delivered for certain.

        That is so when a client saw the end of a stream, or the session's next request got
        through to the upstream.
        """
        asked = self.asked[ident]
        if asked.stream and DONE in asked.seen:
            return True
        later = (other for name, other in self.asked.items() if int(name[1:]) > int(ident[1:]))
        return any((o.session, o.life) == (asked.session, asked.life) and o.seen for o in later)


async def killed_again_and_again(home: Path, kills: int, seed: int) -> None:
    async with witnessed() as (witness, settings):
        ordeal = Ordeal(witness, seed, sessions=8)
        for _ in range(kills):
            async with process(home, settings) as gate:
                await ordeal.live(gate)
        async with process(home, settings) as gate:
            await ordeal.finish(gate)
    assert len(witness.acknowledged) > kills
    assert not set(witness.acknowledged) - set(witness.carried)
    for task, idents in witness.carried.items():
        lives = [ordeal.asked[ident].life for ident in idents]
        assert len(set(lives)) == len(lives), f"{task} was carried twice in one life"
        assert not any(ordeal.surely_written(ident) for ident in idents[:-1]), task
        assert ordeal.asked[idents[-1]].may_have_delivered, task


async def test_killed_at_random_under_load(tmp_path: Path) -> None:
    await killed_again_and_again(tmp_path, kills=4, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
async def test_killed_at_random_a_hundred_times(tmp_path: Path, seed: int) -> None:
    await killed_again_and_again(tmp_path, kills=100, seed=seed)
