"""Weeks in the life of an agent: what it is asked to do later it does then, and once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import httpx
from anyio.abc import TaskStatus
from httpx_sse import ServerSentEvent, aconnect_sse

from gateway.clock import ManualClock
from tests.agents.talking import messages_of, roles, text_of
from tests.agents.talking import said as tell
from tests.clock.words import Call, Said, clock, item, play, says
from tests.jobs.models import task
from tests.jobs.words import DAY, HOUR, cron, house, inbox, ms_of, ran, seen
from tests.run import Running, until
from tests.sessions.talk import Message

ZONE = ZoneInfo("America/New_York")
# On the Sunday after, at two, clocks there go forward.
TUESDAY_EVENING = datetime(2026, 3, 3, 21, tzinfo=ZONE)
WISH = "Remind me of the dentist at nine, and summarise the week every Friday at five."
REMINDER = "Remind the user of the dentist."
SUMMARY = "Summarise the week."
FRIDAYS = {"kind": "cron", "cron": "0 17 * * FRI", "tz": "America/New_York"}
WEEKLY = task("add", name="week", schedule=FRIDAYS, message=SUMMARY)
# The same wish, in the words of each tool.
BY_JOB = task("add", name="nine", schedule_text="tomorrow at 9am", message=REMINDER)
BY_CLOCK = clock("schedule", item("2026-03-04T09:00:00-05:00", REMINDER))
THANKS = "Thank you."
ABOUT_TO_BE_TOLD = [("Tue 03 21:00", WISH)]


class Secretary:
    """A model that keeps a diary of what it is told, and of the hour on the wall."""

    def __init__(self, clock: ManualClock, reminder: Call) -> None:
        self._clock = clock
        self._reminder = reminder
        self.diary: list[tuple[str, str]] = []
        self.promised: list[Any] = []

    def act(self, asked: Message) -> Said:
        """Set what is to be done later, do what is to be done now."""
        history, last = asked["messages"], asked["messages"][-1]
        if last["role"] == "tool":
            self.promised = [json.loads(m["content"]) for m in history if m["role"] == "tool"]
            return says("Both are set.")
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, ZONE)
        self.diary.append((f"{now:%a %d %H:%M}", last["content"]))
        if last["content"] == WISH:
            return says("", self._reminder, Call(WEEKLY.name, WEEKLY.arguments, "call_2"))
        return says(f"Answer {len(self.diary)}, to {len(history) - 1} messages.")


@asynccontextmanager
async def watching(gate: Running, told: list[ServerSentEvent]) -> AsyncIterator[None]:
    """Read the session's events for a while, from behind the last that was told."""
    async with anyio.create_task_group() as tasks:
        await tasks.start(_watch, gate, told)
        yield
        tasks.cancel_scope.cancel()


async def _watch(
    gate: Running, told: list[ServerSentEvent], *, task_status: TaskStatus[None]
) -> None:
    url = f"http://127.0.0.1:{gate.port}/api/sessions/helper/events"
    headers = {"last-event-id": told[-1].id} if told else {}
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        async with aconnect_sse(client, "GET", url, headers=headers) as source:
            task_status.started()
            async for event in source.aiter_sse():
                told.append(event)


async def pass_time(gate: Running, clock: ManualClock, day: int, hour: int) -> None:
    """Let hour after hour pass up to a day and an hour of March, with all that falls due."""
    end_ms = round(datetime(2026, 3, day, hour, tzinfo=ZONE).timestamp() * 1000)
    while clock.now_ms() < end_ms:
        clock.advance(HOUR)
        await seen(lambda: jobs_of(gate), lambda jobs: nothing_is_due(jobs, clock.now_ms()))


async def jobs_of(gate: Running) -> Message:
    """Look how jobs are."""
    found: Message = (await cron(gate, "status"))["jobs"]
    return found


def nothing_is_due(jobs: Message, now_ms: int) -> bool:
    """Whether all that was due has been done."""
    return jobs["running"] == 0 and ms_of(jobs["next_run_at"]) > now_ms


def happened(told: list[ServerSentEvent]) -> list[tuple[str, str]]:
    """Read what events there were, and of what; the numbers of them rise."""
    numbers = [int(event.id) for event in told]
    assert numbers == sorted(set(numbers))
    found = [event.json() for event in told]
    return [(one["event"], one["data"].get("name") or one["data"]["text"]) for one in found]


def office(secretary: Secretary, clock: ManualClock) -> Any:
    """Run a gateway in New York with this model, where reminders wait for a week."""
    settings = {"clock__timezone": "America/New_York", "clock__retention_ms": 7 * DAY}
    return house(play(secretary.act), clock=clock, settings=settings)


def new_york() -> ManualClock:
    """Return a clock that stands at the evening on which all begins."""
    return ManualClock(round(TUESDAY_EVENING.timestamp() * 1000))


async def test_what_is_to_be_done_later_is_done_then_over_a_clock_change() -> None:
    time, told = new_york(), list[ServerSentEvent]()
    secretary = Secretary(time, BY_JOB)
    async with office(secretary, time) as gate:
        assert text_of(await tell(gate, WISH)) == "Both are set."
        nine, week = (promised["job"]["job_id"] for promised in secretary.promised)

        async with watching(gate, told):
            await pass_time(gate, time, 4, 8)
            assert secretary.diary == ABOUT_TO_BE_TOLD
            await pass_time(gate, time, 5, 0)
            await until(lambda: len(told) == 2)
        # Nobody watches on the first Friday; on Sunday the clocks go forward.
        await pass_time(gate, time, 9, 0)
        async with watching(gate, told):
            await until(lambda: len(told) == 4)
            await pass_time(gate, time, 21, 0)
            await until(lambda: len(told) == 8)

        assert secretary.diary == [
            *ABOUT_TO_BE_TOLD,
            ("Wed 04 09:00", REMINDER),
            ("Fri 06 17:00", SUMMARY),
            ("Fri 13 17:00", SUMMARY),
            ("Fri 20 17:00", SUMMARY),
        ]
        ends = ("run.started", "run.finished")
        names = ("nine", "week", "week", "week")
        assert happened(told) == [(end, name) for name in names for end in ends]
        runs = await ran(gate, nine, "ok") + await ran(gate, week, "ok", "ok", "ok")
        assert [run["due_at"] for run in runs] == [
            "2026-03-04T14:00:00.000Z",
            "2026-03-06T22:00:00.000Z",
            "2026-03-13T21:00:00.000Z",
            "2026-03-20T21:00:00.000Z",
        ]
        assert [event.json()["data"] for event in told[1::2]] == [
            {"name": name, **run} for name, run in zip(names, runs, strict=True)
        ]

        # It is all in the conversation, so nothing waits, and the next message goes on from it.
        assert await inbox(gate, "helper") == []
        assert text_of(await tell(gate, THANKS)) == "Answer 6, to 14 messages."
        kept = await messages_of(gate)
        turn = ["user", "assistant"]
        assert roles(kept) == [*turn, "tool", "tool", "assistant", *turn * 5]
        assert [m["content"] for m in kept[5::2]] == [REMINDER, *[SUMMARY] * 3, THANKS]
        assert [m["content"] for m in kept[6::2]][:4] == [run["result"] for run in runs]


async def test_a_reminder_by_the_clock_waits_for_the_user_beside_the_jobs() -> None:
    time, told = new_york(), list[ServerSentEvent]()
    secretary = Secretary(time, BY_CLOCK)
    async with office(secretary, time) as gate:
        async with watching(gate, told):
            assert text_of(await tell(gate, WISH)) == "Both are set."
            await pass_time(gate, time, 4, 10)
            await until(lambda: len(told) == 1)
        assert secretary.diary == ABOUT_TO_BE_TOLD
        assert happened(told) == [("reminder.due", REMINDER)]
        (waiting,) = await inbox(gate, "helper")
        assert (waiting["kind"], waiting["text"]) == ("reminder", REMINDER)
        assert waiting["at"] == "2026-03-04T14:00:00.000Z"

        # A run leaves it to the user, whose next message brings it, once.
        await pass_time(gate, time, 7, 0)
        assert secretary.diary[1:] == [("Fri 06 17:00", SUMMARY)]
        assert await inbox(gate, "helper") == [waiting]
        await tell(gate, THANKS)
        await tell(gate, THANKS)
        brought, again = (one for _, one in secretary.diary[2:])
        assert (brought.count(REMINDER), again) == (1, THANKS)
        assert await inbox(gate, "helper") == []
        assert [m["content"] for m in await messages_of(gate)].count(brought) == 1
