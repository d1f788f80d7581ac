"""The whole gateway and its time servers: good ones shift its time, bad ones nothing at all."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from gateway.clock import Clock, ManualClock, NtpClock, NtpSettings, SystemClock
from tests.clock.reminding import (
    HOUR,
    NO_HOLD,
    SECOND,
    carried,
    counted,
    fetch,
    kept_tasks,
    listed,
    remind,
    variables,
)
from tests.clock.sntp import Behaviour, FakeServer, Told, never, serving, well
from tests.clock.words import MINUTE, NOW
from tests.gateway.wire import ask_of, get
from tests.run import GatewayProcess, Running, in_process, until
from tests.sessions.process import process
from tests.sessions.talk import SESSION, kept, messages, model, talk, text_of
from tests.wire.fake import FakeUpstream, Request, fake_upstream

AHEAD = 5 * SECOND
# How far apart two looks at the time may be on a busy machine.
BLUR = 2 * SECOND
_TAG = re.compile(r"nowMs=`(\d+)` ntpOffsetMs=`(-?\d+)`")

BAD: dict[str, tuple[Behaviour, str]] = {
    "absurd": (well(off_s=3600), "no more than 600000 ms is corrected"),
    "absurd, before": (well(off_s=-601), "no more than 600000 ms is corrected"),
    "a kiss of death": (well(Told(stratum=0, reference=b"RATE")), "not to be queried (RATE)"),
    "another's question": (well(Told(origin=b"12345678")), "does not match our request"),
    "garbage": (lambda _: [b"\xff" * 48, b"", b"x" * 200], "does not match our request"),
    "garbage to our question": (lambda q: [b"\xff" * 24 + q[40:48] + b"\xff" * 16], "it answered"),
    "its clock is not set": (well(Told(leap=3)), "its own clock is not set"),
    "silence": (never, "no answer within"),
}


def host_ms() -> int:
    return int(time.time() * 1000)


def tag_of(asked: Request) -> tuple[int, int]:
    """Read the time and the correction that a request's time tag tells."""
    found = _TAG.search(messages(asked)[-1]["content"])
    assert found
    return int(found[1]), int(found[2])


def servers(*fakes: FakeServer) -> dict[str, str]:
    """Write the settings of a gateway that asks these servers."""
    names = json.dumps([fake.name for fake in fakes])
    return {"clock__ntp__enabled": "true", "clock__ntp__servers": names}


# In a process of its own.


class Seen:
    """What can be seen of the time of a gateway in a process of its own."""

    def __init__(self, gate: GatewayProcess, upstream: FakeUpstream) -> None:
        self.gate = gate
        self.upstream = upstream

    async def clock(self) -> Any:
        """Ask for the time, and see that it is the host's plus the correction."""
        before = host_ms()
        answer = await fetch(self.gate.port, get("/api/clock"))
        found = answer.json
        early = found["nowMs"] - found["ntp"]["offsetMs"]
        assert before <= early <= host_ms()
        return found

    async def until(self, fact: Callable[[Any], bool]) -> Any:
        """Ask for the time until something is so."""
        with anyio.fail_after(10):
            while not fact((found := await self.clock())["ntp"]):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        return found

    async def tag(self) -> tuple[int, int]:
        """Ask the model, and return by how much the time it is told differs, and is said to."""
        before = host_ms()
        answer = await fetch(self.gate.port, ask_of(talk("hi")))
        assert text_of(answer) == "x"
        now_ms, offset_ms = tag_of(self.upstream.requests[-1])
        assert before <= now_ms - offset_ms <= host_ms()
        return now_ms - before, offset_ms


async def test_a_correction_shifts_the_time_and_survives_a_kill(tmp_path: Path) -> None:
    written = tmp_path.joinpath("sessions", "clock", "ntp-state.json")
    with serving(well(off_s=AHEAD / SECOND), well(off_s=AHEAD / SECOND), never) as (a, b, silent):
        async with fake_upstream(model("x")) as upstream:
            settings = variables(upstream.port, **servers(a, b))
            async with process(tmp_path, settings) as gate:
                seen = Seen(gate, upstream)
                state = (await seen.until(lambda ntp: ntp["status"] == "synced"))["ntp"]
                assert abs(state["offsetMs"] - AHEAD) <= BLUR
                assert state["server"] in (a.name, b.name)
                assert (await seen.tag())[1] == state["offsetMs"]
                assert (await seen.tag())[0] >= state["offsetMs"]
                await until(written.exists)
                await gate.kill()
            assert json.loads(written.read_bytes())["offsetMs"] == state["offsetMs"]
            settings = variables(upstream.port, **servers(silent))
            async with process(tmp_path, settings) as gate:
                seen = Seen(gate, upstream)
                # In force from the first instant on, and also after nobody answered.
                assert (await seen.clock())["ntp"]["offsetMs"] == state["offsetMs"]
                assert (await seen.tag())[1] == state["offsetMs"]
                later = (await seen.until(lambda ntp: ntp["status"] == "error"))["ntp"]
                assert later["lastSyncMs"] == state["lastSyncMs"]
                assert "no answer within" in later["lastError"]
                assert (await seen.tag())[1] == state["offsetMs"]


async def test_bad_servers_are_refused_and_nobody_waits_for_them(tmp_path: Path) -> None:
    with serving(*(behaviour for behaviour, _ in BAD.values())) as fakes:
        async with fake_upstream(model("x")) as upstream:
            settings = variables(upstream.port, **servers(*fakes), clock__ntp__timeout_ms=2000)
            async with process(tmp_path, settings) as gate:
                seen = Seen(gate, upstream)
                # Some of them are still being waited for.
                assert (await seen.tag())[1] == 0
                assert (await seen.clock())["ntp"]["status"] == "stale"
                state = (await seen.until(lambda ntp: ntp["status"] == "error"))["ntp"]
                assert (state["offsetMs"], state["lastSyncMs"]) == (0, None)
                for fake, (_, why) in zip(fakes, BAD.values(), strict=True):
                    assert fake.questions
                    assert fake.name in state["lastError"]
                    assert why in state["lastError"]
                assert (await seen.tag())[1] == 0


# In the test's own process.


def corrected(*fakes: FakeServer, **how: int) -> NtpClock:
    """Return a clock that asks these servers again and again."""
    settings = {"timeout_ms": 100, "resync_ms": 10, **how}
    return NtpClock(NtpSettings(tuple(fake.name for fake in fakes), **settings))


def ntp_of(gate: Running) -> Any:
    return gate.gateway.clock.ntp


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_server_changes_the_status_only(name: str) -> None:
    behaviour, why = BAD[name]
    with serving(behaviour) as fakes:
        async with in_process(model("x"), clock=corrected(*fakes)) as gate:
            await until(lambda: ntp_of(gate).status == "error")
            state = (await gate.fetch(get("/api/clock"))).json["ntp"]
            assert (state["status"], state["offsetMs"], state["server"]) == ("error", 0, "")
            assert why in state["lastError"]
            assert text_of(await gate.ask(talk("hi"), SESSION)) == "x"
            assert tag_of(gate.requests[0])[1] == 0


@pytest.mark.parametrize("name", BAD)
async def test_a_good_one_among_bad_ones_is_believed(name: str) -> None:
    with serving(BAD[name][0], well(off_s=0.2)) as fakes:
        async with in_process(model("x"), clock=corrected(*fakes)) as gate:
            await until(lambda: ntp_of(gate).status == "synced")
            assert ntp_of(gate).server == fakes[1].name
            await gate.ask(talk("hi"), SESSION)
            assert abs(tag_of(gate.requests[0])[1] - 200) <= 100


async def test_one_that_is_seconds_away_needs_another_that_agrees() -> None:
    with serving(well(off_s=5), well(off_s=-5)) as fakes:
        clock = corrected(*fakes, timeout_ms=5000)
        async with in_process(model("x"), clock=clock) as gate:
            await until(lambda: ntp_of(gate).status == "error")
            assert "contradict each other" in ntp_of(gate).last_error
            await gate.ask(talk("hi"), SESSION)
            assert tag_of(gate.requests[0])[1] == 0


async def test_silent_servers_make_no_request_slower() -> None:
    """Compared loosely, with servers that are being waited for all the time."""

    async def median(clock: Clock) -> float:
        async with in_process(model("x"), clock=clock) as gate:
            durations = []
            for _ in range(50):
                begun = time.perf_counter()
                assert text_of(await gate.ask(talk("hi"), SESSION)) == "x"
                durations.append(time.perf_counter() - begun)
        return statistics.median(durations)

    with serving(never, never, never) as fakes:
        waiting = await median(corrected(*fakes, timeout_ms=800, resync_ms=1))
        assert all(fake.questions for fake in fakes)
    assert waiting < 3 * await median(SystemClock()) + 0.01


# Steps of the clock, while an answer is held open.


class Mind:
    """What a server thinks the time is, until it changes its mind."""

    def __init__(self) -> None:
        self.off_s = 0.0

    def answer(self, question: bytes) -> list[bytes]:
        """Answer a question."""
        return [Told(off_s=self.off_s).answer(question)]


AT_ONCE: dict[str, Any] = {"clock__due_window_ms": 0, "clock__tick_ms": 20}


def deliveries(gate: Running, task: str = "tea") -> int:
    """Count the requests that carry a task; here no request repeats another's."""
    return sum(task in carried(asked) for asked in gate.requests)


async def held(gate: Running, count: int = 1) -> None:
    await until(lambda: gate.states == ["holding"] * count)


async def still_held(gate: Running, count: int = 1) -> None:
    """See that a hold does not end, when all had a chance to notice what there is."""
    for _ in range(5):
        await gate.fetch(get("/api/clock"))
    assert gate.states == ["holding"] * count


async def delivered_once(gate: Running) -> None:
    assert text_of(await gate.ask(talk("hi"), SESSION)) == "x"
    assert deliveries(gate) == 1
    assert (await listed(gate))["items"][0]["deliveryCount"] == 1


async def test_a_correction_forward_ends_a_hold_at_once() -> None:
    mind = Mind()
    with serving(mind.answer) as fakes:
        clock = corrected(*fakes, max_offset_ms=HOUR)
        async with in_process(model("x"), clock=clock, **AT_ONCE) as gate:
            await until(lambda: ntp_of(gate).status == "synced")
            await remind(gate, "tea", clock.now_ms() + 50 * SECOND)
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            mind.off_s = 60
            assert text_of(await client.answer()) == "x\n\nx"
            assert carried(gate.requests[1]) == ["tea"]
            await delivered_once(gate)


async def test_a_correction_backward_makes_a_hold_longer() -> None:
    mind = Mind()
    with serving(mind.answer) as fakes:
        clock = corrected(*fakes, max_offset_ms=HOUR)
        async with in_process(model("x"), clock=clock, **AT_ONCE) as gate:
            await until(lambda: ntp_of(gate).status == "synced")
            due_ms = clock.now_ms() + SECOND
            await remind(gate, "tea", due_ms)
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            mind.off_s = -20
            await until(lambda: clock.offset_ms < -10 * SECOND)
            await until(lambda: host_ms() > due_ms)
            await still_held(gate)
            assert not deliveries(gate)
            mind.off_s = 0
            assert text_of(await client.answer()) == "x\n\nx"
            await delivered_once(gate)


async def test_an_hour_back_and_forth() -> None:
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, **AT_ONCE) as gate:
        await remind(gate, "tea", NOW + 30 * SECOND)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        for step in (-HOUR, HOUR, -HOUR, -HOUR, 2 * HOUR, 29_999):
            clock.advance(step)
            await still_held(gate)
        assert not deliveries(gate)
        clock.advance(1)
        assert text_of(await client.answer()) == "x\n\nx"
        clock.advance(-HOUR)
        await delivered_once(gate)


async def test_an_hour_ahead_it_is_late_but_it_comes() -> None:
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, clock__retention_ms=2 * HOUR, **AT_ONCE) as gate:
        await remind(gate, "tea", NOW + 30 * SECOND)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        clock.advance(HOUR)
        assert text_of(await client.answer()) == "x\n\nx"
        await delivered_once(gate)


async def test_a_step_beyond_the_retention_expires_it_for_all_to_see() -> None:
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, **AT_ONCE) as gate:
        await remind(gate, "tea", NOW + 30 * SECOND)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        clock.advance(HOUR)
        assert text_of(await client.answer()) == "x"
        await until(lambda: gate.gateway.parts.reminders.counts.expired == 1)
        assert await counted(gate, "expired") == 1
        clock.advance(-HOUR)
        assert text_of(await gate.ask(talk("hi"), SESSION)) == "x"
        assert not deliveries(gate)
        assert (await listed(gate))["ended"][0]["outcome"] == "expired"


async def test_a_clock_that_goes_back_holds_nobody_beyond_the_limit() -> None:
    """How long a client waits is counted in time that passes, not in what a clock shows."""
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, clock__hold_max_ms=300, **AT_ONCE) as gate:
        await remind(gate, "tea", NOW + 300)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        clock.advance(-HOUR)
        begun = time.monotonic()
        assert text_of(await client.answer()) == "x"
        assert time.monotonic() - begun < 5
        clock.advance(HOUR + 300)
        await gate.ask(talk("hi"), SESSION)
        assert carried(gate.requests[-1]) == ["tea"]


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_the_steps_each_comes_once(tmp_path: Path, seed: int) -> None:
    random, clock, many = Random(seed), ManualClock(NOW), 20
    settings = {**AT_ONCE, **kept(tmp_path), "clock__retention_ms": 1000 * HOUR}
    settings |= {"clock__hold_max_ms": 10 * HOUR, "clock__hold_total_ms": 10 * HOUR}
    async with in_process(model("x"), clock=clock, settings=settings) as gate:
        clients = []
        for number in range(many):
            session = f"s{number}"
            await remind(gate, f"task {number}", NOW + random.randrange(1, 2 * HOUR), session)
            clients.append(await gate.start(talk("hi"), f"x-session-id: {session}"))
        await held(gate, many)
        for _ in range(30):
            clock.advance(random.choice((-HOUR, HOUR, random.randrange(-MINUTE, MINUTE))))
            await gate.fetch(get("/api/clock"))
        clock.set(NOW + 2 * HOUR)
        for number, client in enumerate(clients):
            assert text_of(await client.answer()) == "x\n\nx"
            await gate.ask(talk("hi"), f"x-session-id: s{number}", NO_HOLD)
            assert deliveries(gate, f"task {number}") == 1
            assert kept_tasks(tmp_path, f"s{number}")[0]["deliveryCount"] == 1
