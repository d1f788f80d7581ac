"""The preview of a schedule over REST: what it shows, and that `add` agrees."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.jobs.words import HOUR, NOW, ask, cron, house, refused
from tests.sessions.talk import model

PATHS = ["/api/cron", "/wunder/cron"]
ZONE = {"clock__timezone": "Asia/Shanghai"}


def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.mark.parametrize("path", PATHS)
async def test_a_schedule_is_shown_before_it_is_made(path: str) -> None:
    async with house(model(), clock=clock(), settings=ZONE) as gate:
        found = await cron(gate, "preview", {"when": "weekdays at 8:30"}, path=path)
        schedule = {"kind": "cron", "at": None, "every_ms": None, "cron": "30 8 * * 1-5"}
        assert found["schedule"] == {**schedule, "tz": "Asia/Shanghai"}
        assert found["words"] == {"en": "weekdays at 08:30", "zh": "工作日 08:30"}
        assert found["tz"] == "Asia/Shanghai"
        assert found["times"][0] == {
            "at": "2026-02-03T00:30:00.000Z",
            "local": "2026-02-03T08:30:00+08:00",
            "clock_change": False,
        }
        assert len(found["times"]) == 5
        assert (await cron(gate, "list"))["jobs"] == []


@pytest.mark.parametrize(
    "when",
    [
        "每天9点",
        "工作日 18:30",
        "每 5 分钟",
        "每周一 8 点",
        "明天 9 点",
        "15m",
        "2h",
        "90s",
        "0 9 * * mon-fri",
        "@daily",
    ],
)
async def test_what_is_previewed_is_made_as_it_was_shown(when: str) -> None:
    async with house(model(), clock=clock(), settings=ZONE) as gate:
        found = await cron(gate, "preview", {"when": when})
        place = {"session_id": "s", "message": "m"}
        for wish in ({"schedule": found["schedule"]}, {"schedule_text": when}):
            job = (await cron(gate, "add", {**place, **wish}))["job"]
            assert job["schedule"] == found["schedule"]
            assert job["words"] == found["words"]
            assert job["next_times"] == [time["at"] for time in found["times"]]


@pytest.mark.parametrize(
    "asked, wish",
    [
        ({"when": "whenever"}, {"schedule_text": "whenever"}),
        ({"when": "daily"}, {"schedule_text": "daily"}),
        ({"when": "x" * 300}, {"schedule_text": "x" * 300}),
        ({"when": 5}, {"schedule_text": 5}),
        (
            {"when": "daily at 9", "tz": "CST"},
            {"schedule_text": "daily at 9", "schedule": {"tz": "CST"}},
        ),
        ({}, {}),
        (
            {"schedule": {"kind": "every", "every_ms": 1}},
            {"schedule": {"kind": "every", "every_ms": 1}},
        ),
        (
            {"schedule": {"kind": "cron", "cron": "0 0 31 2 *"}},
            {"schedule": {"kind": "cron", "cron": "0 0 31 2 *"}},
        ),
    ],
)
async def test_what_is_refused_is_refused_with_the_same_sentence(asked: Any, wish: Any) -> None:
    async with house(model(), clock=clock(), settings=ZONE) as gate:
        added = await ask(gate, "add", {"session_id": "s", "message": "m", **wish})
        assert refused(await ask(gate, "preview", asked)) == refused(added)


async def test_a_schedule_as_it_is_shown_may_be_sent() -> None:
    async with house(model(), clock=clock(), settings=ZONE) as gate:
        schedule = {"kind": "every", "every_ms": HOUR, "at": None, "cron": None, "tz": None}
        found = await cron(gate, "preview", {"schedule": schedule, "when": None, "tz": "UTC"})
        assert found["words"]["zh"] == "每小时"
        assert found["times"][0]["local"] == "2026-02-02T22:22:38+00:00"
