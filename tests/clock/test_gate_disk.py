"""Disks that are full, read-only or gone: reminders say so, the chat goes on, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.clock.reminding import (
    NO_HOLD,
    carried,
    clock_file,
    due,
    kept_tasks,
    listed,
    remind,
    results,
    setting,
)
from tests.clock.words import MINUTE, NOW, Call, clock, play, says
from tests.gateway.wire import request
from tests.run import Running, in_process, until
from tests.sessions.talk import SESSION, kept, model, notes_of, talk, text_of, told
from tests.stores.mounts import read_only, small_disk

Trouble = Callable[[], AbstractContextManager[None]]
Stage = Callable[[Path], AbstractContextManager[tuple[Path, Trouble]]]
LATER = NOW + 10 * MINUTE


@contextmanager
def full(tmp_path: Path) -> Iterator[tuple[Path, Trouble]]:
    with small_disk(tmp_path / "disk", 64) as disk:

        @contextmanager
        def trouble() -> Iterator[None]:
            disk.fill()
            yield
            disk.free()

        yield disk.place / "kept", trouble


@contextmanager
def protected(tmp_path: Path) -> Iterator[tuple[Path, Trouble]]:
    place = tmp_path / "kept"
    yield place, lambda: read_only(place / "clock")


@contextmanager
def moved(tmp_path: Path) -> Iterator[tuple[Path, Trouble]]:
    place, away = tmp_path / "kept", tmp_path / "away"

    @contextmanager
    def trouble() -> Iterator[None]:
        place.rename(away)
        yield
        away.rename(place)

    yield place, trouble


FULL, READ_ONLY, GONE = "the disk is full", "the disk is read-only", "its directory is gone"
STAGES: dict[str, Stage] = {FULL: full, READ_ONLY: protected, GONE: moved}
TROUBLED = pytest.mark.parametrize("reason", STAGES)


async def asks_for(gate: Running) -> list[Any]:
    """Have the model call the clock in an answer that ends well; return what it was told."""
    assert text_of(await gate.ask(talk("hi"), SESSION, NO_HOLD)) == "well"
    return results(gate.requests[-1])


def names(place: Path) -> list[str]:
    """List all files of reminders, also those that nobody should find."""
    return sorted(path.name for path in place.joinpath("clock").iterdir())


@TROUBLED
async def test_what_cannot_be_kept_is_not_scheduled(tmp_path: Path, reason: str) -> None:
    wish = clock("schedule", due("tea", LATER), due("supper", LATER))
    story = play(says("", wish), says("well"), says("", wish), says("well"))
    with STAGES[reason](tmp_path) as (place, trouble):
        async with in_process(story, clock=ManualClock(NOW), **kept(place)) as gate:
            await remind(gate, "old", LATER)
            before = clock_file(place).read_bytes()
            with trouble():
                (failed,) = await asks_for(gate)
                assert (failed["ok"], failed["action"]) == (False, "schedule")
                assert reason in failed["error"]
            assert clock_file(place).read_bytes() == before
            assert names(place) == ["s.json"]
            (note,) = notes_of(gate, "reminders_not_stored")
            assert reason in note["why"]
            (scheduled,) = await asks_for(gate)
            assert scheduled["ok"]
            assert [task["task"] for task in kept_tasks(place)] == ["old", "tea", "supper"]


@TROUBLED
async def test_the_first_reminder_of_a_session_as_well(tmp_path: Path, reason: str) -> None:
    with STAGES[reason](tmp_path) as (place, trouble):
        async with in_process(model("well"), clock=ManualClock(NOW), **kept(place)) as gate:
            with trouble():
                refused = await gate.fetch(setting(due("tea", LATER)))
                assert (refused.status, refused.error["code"]) == (503, "store_unavailable")
                assert text_of(await gate.ask(talk("hi"), SESSION)) == "well"
            assert names(place) == []
            await remind(gate, "tea", LATER)
            assert names(place) == ["s.json"]


async def test_what_cannot_be_removed_stays(tmp_path: Path) -> None:
    """That a reminder is cancelled is as durable as that it was scheduled, or it is not said."""
    with protected(tmp_path) as (place, trouble):
        wishes: list[Call] = []
        story = play(lambda asked: says("", wishes.pop()) if wishes else says("well"))
        async with in_process(story, clock=ManualClock(NOW), **kept(place)) as gate:
            task_id = await remind(gate, "tea", LATER)
            with trouble():
                for wish in (clock("cancel", task_id=task_id), clock("clear")):
                    wishes.append(wish)
                    (failed,) = await asks_for(gate)
                    assert not failed["ok"]
                    assert READ_ONLY in failed["error"]
                answer = await gate.fetch(request("DELETE", "/api/sessions/s/reminders"))
                assert answer.status == 503
                answer = await gate.ask(talk("<**clock:clear**>hi"), SESSION, NO_HOLD)
                assert text_of(answer) == "well"
                assert READ_ONLY in told(answer)
                assert [one["task"] for one in (await listed(gate))["items"]] == ["tea"]
            wishes.append(clock("cancel", task_id=task_id))
            assert await asks_for(gate) == [{"ok": True, "removed": task_id}]
            assert names(place) == []


@pytest.mark.parametrize("reason", [FULL, READ_ONLY])
async def test_a_delivery_that_cannot_be_written_down_is_owed(tmp_path: Path, reason: str) -> None:
    """The chat needs no disk; while it is away nothing comes twice, and then it is made good."""
    settings = {"clock__tick_ms": 5}
    with STAGES[reason](tmp_path) as (place, trouble):
        clock = ManualClock(NOW)
        async with in_process(model("x"), clock=clock, settings=settings, **kept(place)) as gate:
            await remind(gate, "tea", NOW)
            with trouble():
                for _ in range(3):
                    assert text_of(await gate.ask(talk("hi"), SESSION)) == "x"
                assert [carried(asked) for asked in gate.requests] == [["tea"], [], []]
                assert (await listed(gate))["items"][0]["deliveryCount"] == 1
                assert "deliveredAtMs" not in kept_tasks(place)[0]
                clock.advance(MINUTE)
            await until(lambda: kept_tasks(place)[0].get("deliveredAtMs") == NOW)
            await gate.ask(talk("hi"), SESSION)
            assert not carried(gate.requests[-1])
        async with in_process(model("x"), clock=clock, **kept(place)) as gate:
            await gate.ask(talk("hi"), SESSION)
            assert not carried(gate.requests[-1])


async def test_while_the_directory_is_gone_nothing_is_due(tmp_path: Path) -> None:
    with moved(tmp_path) as (place, trouble):
        async with in_process(model("x"), clock=ManualClock(NOW), **kept(place)) as gate:
            await remind(gate, "tea", NOW)
            with trouble():
                assert text_of(await gate.ask(talk("hi"), SESSION)) == "x"
            assert text_of(await gate.ask(talk("hi"), SESSION)) == "x"
            assert [carried(asked) for asked in gate.requests] == [[], ["tea"]]


async def test_a_file_that_cannot_be_read_hurts_only_its_session(tmp_path: Path) -> None:
    async with in_process(model("x"), clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        for session in ("s", "other"):
            await remind(gate, "tea", NOW, session)
        clock_file(tmp_path).write_bytes(b'{"version": 1, "tasks": [')
        for session in ("s", "other"):
            assert text_of(await gate.ask(talk("hi"), f"x-session-id: {session}")) == "x"
        assert [carried(asked) for asked in gate.requests] == [[], ["tea"]]
        assert len(notes_of(gate, "quarantined")) == 1
        await remind(gate, "more tea", NOW)
        await gate.ask(talk("hi"), SESSION)
        assert carried(gate.requests[-1]) == ["more tea"]
