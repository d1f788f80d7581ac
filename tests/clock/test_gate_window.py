"""When a reminder is added to a request, when it is too late for that, and what is told of it then.

Counted from outside: by what the upstream is sent, the files, the metrics and the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.clock.reminding import (
    NO_HOLD,
    SECOND,
    carried,
    clock_file,
    counted,
    iso,
    kept_tasks,
    listed,
    remind,
)
from tests.clock.words import MINUTE, NOW
from tests.gateway.wire import Cue, on_cue, turn
from tests.run import Running, in_process, until
from tests.sessions.talk import SESSION, kept, model, notes_of, talk
from tests.wire.fake import CHUNKED, LAST, chunk

TICK: dict[str, Any] = {"clock__tick_ms": 5}
RARELY: dict[str, Any] = {"clock__tick_ms": 3_600_000}
WINDOW, RETENTION = MINUTE, 20 * MINUTE

MOMENTS = {
    "61 s before": (-61 * SECOND, False),
    "1 ms before the window": (-WINDOW - 1, False),
    "as the window opens": (-WINDOW, True),
    "59 s before": (-59 * SECOND, True),
    "on time": (0, True),
    "19 min after": (19 * MINUTE, True),
    "at the last moment": (RETENTION, True),
    "1 ms too late": (RETENTION + 1, False),
    "an hour after": (60 * MINUTE, False),
}


async def ask(gate: Running) -> list[str]:
    """Ask in the session, and return what its request carried."""
    answer = await gate.ask(talk("hi"), SESSION, NO_HOLD)
    assert answer.status == 200
    return carried(gate.requests[-1])


@pytest.mark.parametrize("ticking", [TICK, RARELY], ids=["swept", "not swept yet"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_when_a_reminder_is_added(moment: str, ticking: dict[str, Any]) -> None:
    after_ms, is_added = MOMENTS[moment]
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, **ticking) as gate:
        await remind(gate, "tea", NOW + 10 * MINUTE)
        assert await ask(gate) == []
        clock.set(NOW + 10 * MINUTE + after_ms)
        assert await ask(gate) == (["tea"] if is_added else [])
        assert await ask(gate) == []


@pytest.mark.parametrize(("window", "is_added"), [(0, False), (999, False), (1000, True)])
async def test_the_window_is_the_operators(window: int, is_added: bool) -> None:
    async with in_process(
        model("x"), clock=ManualClock(NOW), clock__due_window_ms=window, **RARELY
    ) as gate:
        await remind(gate, "tea", NOW + SECOND)
        assert await ask(gate) == (["tea"] if is_added else [])


async def test_so_is_the_retention() -> None:
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, clock__retention_ms=SECOND, **TICK) as gate:
        await remind(gate, "tea", NOW)
        clock.advance(SECOND + 1)
        assert await ask(gate) == []
        await remind(gate, "more tea", NOW + 2)
        assert await ask(gate) == ["more tea"]


async def expired(gate: Running, task_id: str) -> None:
    """See that one reminder ended as expired, and that this is told everywhere, once."""
    await until(lambda: bool(notes_of(gate, "reminders_expired")))
    assert await counted(gate, "expired") == 1
    (note,) = notes_of(gate, "reminders_expired")
    assert (note["owner"], note["session"], note["count"]) == ("local", "s", 1)
    assert note["tasks"] == task_id
    assert "tea" not in gate.log
    (end,) = (await listed(gate))["ended"]
    assert (end["taskId"], end["task"], end["outcome"]) == (task_id, "tea", "expired")
    assert end["dueAt"] == iso(NOW)


async def test_the_tick_removes_what_expired_and_tells(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, **TICK, **kept(tmp_path)) as gate:
        task_id = await remind(gate, "tea", NOW)
        later_id = await remind(gate, "supper", NOW + MINUTE)
        clock.advance(RETENTION + 1)
        await expired(gate, task_id)
        assert [task["taskId"] for task in kept_tasks(tmp_path)] == [later_id]
        assert await ask(gate) == ["supper"]


async def test_the_last_one_takes_its_file_along(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, **TICK, **kept(tmp_path)) as gate:
        task_id = await remind(gate, "tea", NOW)
        clock.advance(RETENTION)
        assert await counted(gate, "expired") == 0
        assert clock_file(tmp_path).exists()
        clock.advance(1)
        await expired(gate, task_id)
        assert not clock_file(tmp_path).exists()
        assert await ask(gate) == []


async def test_the_scan_at_the_start_removes_what_expired_meanwhile(tmp_path: Path) -> None:
    async with in_process(model("x"), clock=ManualClock(NOW), **RARELY, **kept(tmp_path)) as gate:
        task_id = await remind(gate, "tea", NOW)
        await remind(gate, "supper", NOW + RETENTION)
        await remind(gate, "sleep", NOW + RETENTION, session="other")
    other = clock_file(tmp_path, "other").read_bytes()
    later = ManualClock(NOW + RETENTION + 1)
    async with in_process(model("x"), clock=later, **RARELY, **kept(tmp_path)) as gate:
        await expired(gate, task_id)
        assert [task["task"] for task in kept_tasks(tmp_path)] == ["supper"]
        assert clock_file(tmp_path, "other").read_bytes() == other
        assert await ask(gate) == ["supper"]
        assert await ask(gate) == []


async def test_a_delivered_one_goes_in_silence(tmp_path: Path) -> None:
    """It stays to be listed while it would have been of use, and did not expire."""
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, **TICK, **kept(tmp_path)) as gate:
        await remind(gate, "tea", NOW)
        assert await ask(gate) == ["tea"]
        clock.advance(RETENTION)
        (shown,) = (await listed(gate))["items"]
        assert (shown["deliveredAt"], shown["deliveryCount"]) == (iso(NOW), 1)
        clock.advance(1)
        await until(lambda: not clock_file(tmp_path).exists())
        assert await counted(gate, "expired") == 0
        assert not notes_of(gate, "reminders_expired")
        (end,) = (await listed(gate))["ended"]
        assert end["outcome"] == "delivered"


async def test_what_a_turn_carries_does_not_expire_under_it(tmp_path: Path) -> None:
    """It was added in time; that the upstream takes long to answer does not lose it."""
    clock, cue = ManualClock(NOW), Cue()
    story = on_cue(cue, CHUNKED, chunk(turn("x")) + LAST)
    async with in_process(story, clock=clock, **TICK, **kept(tmp_path)) as gate:
        await remind(gate, "tea", NOW)
        client = await gate.start(talk("hi"), SESSION)
        await until(lambda: len(gate.requests) == 1)
        clock.advance(RETENTION + 1)
        # A reminder that nobody carries goes with the next sweep.
        await remind(gate, "witness", NOW + 1, session="other")
        clock.advance(1)
        await until(lambda: bool(notes_of(gate, "reminders_expired")))
        cue.give()
        await client.answer()
        assert carried(gate.requests[0]) == ["tea"]
        (end,) = (await listed(gate))["ended"]
        assert (end["task"], end["outcome"]) == ("tea", "delivered")
        await until(lambda: not clock_file(tmp_path).exists())
        assert await counted(gate, "expired") == 1
