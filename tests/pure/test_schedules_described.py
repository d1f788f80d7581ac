"""Schedules in short words of English and Chinese, and what becomes of the words when read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.errors import InvalidInput
from gateway.jobs.model import JobRules
from gateway.jobs.schedule.cron import read_dial
from gateway.jobs.schedule.describe import ScheduleWords, describe_schedule
from gateway.jobs.schedule.model import At, Cron, Every, Schedule, next_due
from gateway.jobs.schedule.reader import read_schedule
from gateway.jobs.schedule.zones import find_zone, instant_of, offset_at
from tests.pure.test_schedules_properties import CRONS, EXPRESSIONS, GRIDS, INSTANTS, ZONES

NOW = int(datetime(2026, 11, 18, 13, 53, 20, tzinfo=UTC).timestamp()) * 1000
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
TZ = "Asia/Shanghai"
NINE = NOW + 11 * HOUR + 6 * MINUTE + 40 * SECOND
RULES = JobRules(timezone=TZ)


def read(text: str, tz: str = TZ, now_ms: int = NOW) -> Schedule:
    return read_schedule({"tz": tz}, text, now_ms, RULES)


@pytest.mark.parametrize(
    "schedule, en, zh",
    [
        (At(NINE, TZ), "once, 2026-11-19 09:00", "一次，2026-11-19 09:00"),
        (At(NINE + 5 * SECOND, TZ), "once, 2026-11-19 09:00:05", "一次，2026-11-19 09:00:05"),
        (At(NINE), "once, 2026-11-19 01:00 UTC", "一次，2026-11-19 01:00 UTC"),
        (At(NINE, "Old/Zone"), "once, 2026-11-19 01:00 UTC", "一次，2026-11-19 01:00 UTC"),
        (Every(15 * MINUTE, 0), "every 15 minutes", "每 15 分钟"),
        (Every(MINUTE, 0), "every minute", "每分钟"),
        (Every(HOUR, 0), "every hour", "每小时"),
        (Every(DAY, 0), "every 24 hours", "每 24 小时"),
        (Every(14 * DAY, 0), "every 14 days", "每 14 天"),
        (Every(1500, 0), "every 1500 milliseconds", "每 1500 毫秒"),
        (Cron("30 8 * * 1-5", TZ), "weekdays at 08:30", "工作日 08:30"),
        (Cron("30 8 * * MON-FRI", TZ), "weekdays at 08:30", "工作日 08:30"),
        (Cron("0 10 * * 0,6", TZ), "weekends at 10:00", "周末 10:00"),
        (Cron("0 10 * * SAT,7", TZ), "weekends at 10:00", "周末 10:00"),
        (Cron("0 9 * * *", TZ), "daily at 09:00", "每天 09:00"),
        (Cron("0 0 9 * * *", TZ), "daily at 09:00", "每天 09:00"),
        (Cron("0 9 1-31 * 1", TZ), "daily at 09:00", "每天 09:00"),
        (Cron("0,30 9 * * *", TZ), "daily at 09:00 and 09:30", "每天 09:00、09:30"),
        (
            Cron("0 9 * * 0,1,3", TZ),
            "every Monday, Wednesday and Sunday at 09:00",
            "每周一、三、日 09:00",
        ),
        (Cron("0 0 1 * *", TZ), "on the 1st of each month at 00:00", "每月 1 日 00:00"),
        (
            Cron("0 0 2,13,23 * *", TZ),
            "on the 2nd, 13th and 23rd of each month at 00:00",
            "每月 2、13、23 日 00:00",
        ),
        (Cron("0 18 L * *", TZ), "on the last day of each month at 18:00", "每月最后一天 18:00"),
        (Cron("0 0 1 1 *", TZ), "yearly on 1 January at 00:00", "每年 1 月 1 日 00:00"),
        (Cron("0 * * * *", TZ), "hourly", "每小时整点"),
        (Cron("5 * * * *", TZ), "hourly at :05", "每小时第 5 分钟"),
        (Cron("*/15 * * * *", TZ), "every 15 minutes, from :00", "每 15 分钟，从 00 分起"),
        (Cron("0 */2 * * *", TZ), "every 2 hours, from 00:00", "每 2 小时，从 00:00 起"),
        (
            Cron("*/30 9-17 * * 1-5", TZ),
            "weekdays, every 30 minutes from 09:00 to 17:30",
            "工作日 09:00 到 17:30，每 30 分钟",
        ),
        (
            Cron("0 9-17 * * *", TZ),
            "daily, every hour from 09:00 to 17:00",
            "每天 09:00 到 17:00，每小时",
        ),
    ],
)
def test_what_a_schedule_is_called(schedule: Schedule, en: str, zh: str) -> None:
    assert describe_schedule(schedule) == ScheduleWords(en, zh)


@pytest.mark.parametrize(
    "expression",
    [
        "10 0 9 * * *",
        "0 9 * * 5L",
        "0 9 * * MON#2,TUE",
        "0 9 LW * *",
        "0 9 1 * 1",
        "0 9 */2 * MON",
        "0 9 1,2,3,4 * *",
        "0 9 1 1,2 *",
        "0 9 1,2 1 *",
        "0 9 L 1 *",
        "0 9 * 1 1",
        "0,7,9,11,13 * * * *",
        "what is this",
    ],
)
def test_what_cannot_be_said_is_shown_as_it_is(expression: str) -> None:
    assert describe_schedule(Cron(expression, TZ)) == ScheduleWords(expression, expression)


def means_the_same(one: Schedule, other: Schedule) -> bool:
    """Whether two schedules have the same times; where a grid begins does not count."""
    match one, other:
        case Cron(), Cron():
            dials = read_dial(one.expression), read_dial(other.expression)
            times = [(dial.seconds, dial.minutes, dial.hours) for dial in dials]
            days = [[dial.has_day(day) for day in range(20_000, 21_500)] for dial in dials]
            return one.tz == other.tz and times[0] == times[1] and days[0] == days[1]
        case At(), At():
            # The words have no milliseconds.
            return one.at_ms // SECOND == other.at_ms // SECOND
        case Every(), Every():
            return one.every_ms == other.every_ms
    return False


@given(st.one_of(CRONS, GRIDS))
@example(Cron("* * * * *", "UTC"))
@example(Cron("0 */1 * * *", "UTC"))
@example(Cron("0 0 1-31 * *", "UTC"))
def test_words_that_are_understood_mean_the_schedule_they_describe(schedule: Cron | Every) -> None:
    assume(next_due(schedule, NOW) is not None)
    words = describe_schedule(schedule)
    for text in (words.en, words.zh):
        try:
            again = read(text, schedule.tz if isinstance(schedule, Cron) else "UTC")
        except InvalidInput:
            continue
        assert means_the_same(schedule, again), text


@given(INSTANTS, ZONES)
def test_one_time_leads_back_to_itself(at_ms: int, tz: str) -> None:
    second, zone = at_ms // SECOND, find_zone(tz)
    # Of a wall time that comes twice, the words mean the first.
    assume(instant_of(second + offset_at(second, zone), zone) == second)
    words = describe_schedule(At(at_ms, tz))
    now_ms = (second - 1) * SECOND
    for text in (words.en, words.zh):
        assert means_the_same(At(at_ms, tz), read(text, tz, now_ms)), text


TEXTS = [
    "15m",
    "every 90 seconds",
    "hourly",
    "hourly at :05",
    "daily at 9",
    "daily at 9am, noon and 6pm",
    "weekdays at 9:30 and 18:30",
    "weekends at noon",
    "every mon, wed and fri at 8:15",
    "monthly on the 15th at 9",
    "monthly on the last day at 9",
    "每小时第 20 分钟",
    "周一到周五9点",
    "明天 9 点",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_words_of_what_was_said_are_always_understood(text: str) -> None:
    schedule = read(text)
    words = describe_schedule(schedule)
    assert means_the_same(schedule, read(words.en))
    assert means_the_same(schedule, read(words.zh))


@given(EXPRESSIONS, ZONES)
def test_words_are_one_short_line(expression: str, tz: str) -> None:
    words = describe_schedule(Cron(expression, tz))
    for text in (words.en, words.zh):
        assert 0 < len(text) <= max(len(expression), 120)
        assert "\n" not in text


@pytest.mark.parametrize(
    "text, schedule",
    [
        ("15m", Every(15 * MINUTE, NOW)),
        ("2h", Every(2 * HOUR, NOW)),
        ("90s", Every(90 * SECOND, NOW)),
        ("1h30m", Every(90 * MINUTE, NOW)),
        ("1h 30m", Every(90 * MINUTE, NOW)),
        ("1.5h", Every(90 * MINUTE, NOW)),
        ("1500ms", Every(1500, NOW)),
        ("每1500毫秒", Every(1500, NOW)),
        ("每小时整点", Cron("0 * * * *", TZ)),
        ("每个整点", Cron("0 * * * *", TZ)),
        ("每小时的第五分钟", Cron("5 * * * *", TZ)),
        ("once, 2026-11-19 09:00", At(NINE, TZ)),
        ("一次，2026-11-19 09:00", At(NINE, TZ)),
        ("2026年11月19日9点", At(NINE, TZ)),
        ("11月19日上午9点", At(NINE, TZ)),
        ("11月18号21点53分", At(NOW - 20 * SECOND + 365 * DAY, TZ)),
        ("11月18号21点54分", At(NOW + 40 * SECOND, TZ)),
    ],
)
def test_what_else_is_understood(text: str, schedule: Schedule) -> None:
    assert read(text) == schedule


@pytest.mark.parametrize(
    "text", ["15 minutes", "15", "1.m", "每小时第60分钟", "2月30日9点", "13月1日9点"]
)
def test_what_is_still_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read(text)


def test_a_date_without_a_year_is_the_next_one() -> None:
    at = read("3月1日9点")
    assert isinstance(at, At)
    assert timedelta(milliseconds=at.at_ms - NOW) < timedelta(days=366)
