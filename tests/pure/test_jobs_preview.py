"""A preview reads what `add` reads, refuses what it refuses, and shows what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import to_builtins

from gateway.errors import InvalidInput
from gateway.jobs.lifecycle import find_first_due, make_job
from gateway.jobs.model import JobRules
from gateway.jobs.reader import read_draft, read_patch, read_preview
from gateway.jobs.schedule.model import At, Cron, Every, Schedule, show_schedule
from gateway.jobs.view import show_preview
from tests.pure.test_schedules_properties import SCHEDULES, START
from tests.pure.test_schedules_text import PIECES

NOW = int(datetime(2026, 10, 23, 12, tzinfo=UTC).timestamp()) * 1000
RULES = JobRules(timezone="Europe/Berlin")
MINUTE = 60_000


def outcome(read: Callable[[], Schedule]) -> Schedule | str:
    """Return what is read, or the sentence that refuses it."""
    try:
        return read()
    except InvalidInput as invalid:
        return str(invalid)


def added(now_ms: int, **members: Any) -> Schedule | str:
    def read() -> Schedule:
        draft = read_draft({"message": "m", **members}, now_ms, RULES)
        return make_job(draft, "j", "o", "s", "", now_ms, RULES).schedule

    return outcome(read)


def previewed(now_ms: int, **members: Any) -> Schedule | str:
    def read() -> Schedule:
        schedule, _ = read_preview(members, now_ms, RULES)
        find_first_due(schedule, now_ms, RULES)
        return schedule

    return outcome(read)


@given(st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=8).map(" ".join)))
@example("")
@example("x" * 201)
@example("x" * 300)
@example("\x00")
@example("15m")
@example("每天9点")
@example("30 8 * * MON-FRI")
@example("daily at 9 (Asia/Tokyo)")
def test_words_are_previewed_as_they_are_added(text: str) -> None:
    assert previewed(NOW, when=text) == added(NOW, schedule_text=text)
    in_zone = added(NOW, schedule_text=text, schedule={"tz": "Asia/Tokyo"})
    assert previewed(NOW, when=text, tz="Asia/Tokyo") == in_zone


@given(SCHEDULES)
def test_schedules_are_previewed_as_they_are_added(schedule: Schedule) -> None:
    given = to_builtins(show_schedule(schedule))
    assert previewed(START, schedule=given) == added(START, schedule=given)


@pytest.mark.parametrize(
    "schedule",
    [
        5,
        {},
        {"kind": "x"},
        {"what": 1},
        {"kind": "cron", "cron": "61 * * * *"},
        {"kind": "at", "at": "x"},
        {"tz": "CST"},
    ],
)
def test_what_add_refuses_is_refused_alike(schedule: Any) -> None:
    refused = previewed(NOW, schedule=schedule)
    assert isinstance(refused, str)
    assert refused == added(NOW, schedule=schedule)


@given(SCHEDULES)
def test_what_is_shown_can_be_added(schedule: Schedule) -> None:
    found = previewed(START, schedule=to_builtins(show_schedule(schedule)))
    if not isinstance(found, str):
        shown = show_preview(found, "UTC", START)
        assert added(START, schedule=to_builtins(shown.schedule)) == found
        assert [time.at for time in shown.times] == sorted({time.at for time in shown.times})


def test_other_members_are_refused() -> None:
    refused = previewed(NOW, what="daily at 9")
    assert refused == "A preview has no member 'what'; it may have when, schedule, tz."


@pytest.mark.parametrize(
    "given, tz",
    [
        ({"when": "daily at 9"}, "Europe/Berlin"),
        ({"when": "daily at 9", "tz": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({"when": "daily at 9 (UTC)"}, "UTC"),
        ({"when": "15m"}, "Europe/Berlin"),
        ({"when": "15m", "tz": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({"schedule": {"kind": "at", "at": "2026-11-04T10:00:00Z"}}, "Europe/Berlin"),
        (
            {"schedule": {"kind": "at", "at": "2026-11-04T10:00", "tz": "UTC"}, "tz": "Asia/Tokyo"},
            "UTC",
        ),
    ],
)
def test_the_zone_of_the_local_times(given: dict[str, Any], tz: str) -> None:
    assert read_preview(given, NOW, RULES)[1] == tz


def test_times_in_the_zone_and_where_the_clock_changes() -> None:
    shown = show_preview(Cron("0 9 * * *", "Europe/Berlin"), "Europe/Berlin", NOW)
    assert [(time.at, time.local, time.clock_change) for time in shown.times[:3]] == [
        ("2026-10-24T07:00:00.000Z", "2026-10-24T09:00:00+02:00", False),
        ("2026-10-25T08:00:00.000Z", "2026-10-25T09:00:00+01:00", True),
        ("2026-10-26T08:00:00.000Z", "2026-10-26T09:00:00+01:00", False),
    ]
    assert len(shown.times) == 5


def test_the_first_time_after_a_change_is_marked_too() -> None:
    shown = show_preview(At(NOW + 14 * 86_400_000), "Europe/Berlin", NOW)
    assert [time.clock_change for time in shown.times] == [True]
    shown = show_preview(Every(15 * MINUTE, NOW), "Europe/Berlin", NOW)
    assert [time.clock_change for time in shown.times] == [False] * 5


@pytest.mark.parametrize(
    "given, ms",
    [
        ("2026-10-23T12:00:00.000Z", NOW),
        ("2026-10-23T14:00:00+02:00", NOW),
        ("", None),
        (None, None),
    ],
)
def test_when_a_job_must_have_been_changed_last(given: str | None, ms: int | None) -> None:
    assert read_patch({"job_id": "j", "if_updated_at": given}).if_updated_ms == ms


@pytest.mark.parametrize("given", ["yesterday", "2026-10-23T12:00:00"])
def test_a_time_of_change_that_is_none(given: str) -> None:
    with pytest.raises(InvalidInput, match="if_updated_at must be a time as updated_at shows it"):
        read_patch({"job_id": "j", "if_updated_at": given})
