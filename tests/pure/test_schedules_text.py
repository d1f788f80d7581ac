"""Schedules in words: read, refused, and written."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.errors import InvalidInput
from gateway.jobs.model import JobRules
from gateway.jobs.schedule.model import At, Cron, Every, Schedule, in_words
from gateway.jobs.schedule.reader import read_schedule
from gateway.timestamps import iso

# A Tuesday in Shanghai, a quarter to six in the morning.
NOW = int(datetime(2026, 2, 2, 21, 45, 30, tzinfo=UTC).timestamp()) * 1000
TZ = "Asia/Shanghai"
RULES = JobRules(timezone=TZ)
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


def read(text: str, schedule: dict[str, object] | None = None) -> Schedule:
    return read_schedule(schedule or {}, text, NOW, RULES)


def refusal(text: str, rules: JobRules = RULES) -> str:
    with pytest.raises(InvalidInput) as refused:
        read_schedule({}, text, NOW, rules)
    return str(refused.value)


@pytest.mark.parametrize(
    "text, every_ms",
    [
        ("every 5 minutes", 5 * MINUTE),
        ("Every  5 Minutes.", 5 * MINUTE),
        ("every five minutes", 5 * MINUTE),
        ("every minute", MINUTE),
        ("each hour", HOUR),
        ("every hour", HOUR),
        ("every half hour", HOUR // 2),
        ("every half an hour", HOUR // 2),
        ("every 1.5 hours", 3 * HOUR // 2),
        ("every 90s", 90 * SECOND),
        ("every 1500 milliseconds", 1500),
        ("every 30 secs", 30 * SECOND),
        ("every 15min", 15 * MINUTE),
        ("every 2h", 2 * HOUR),
        ("every 24 hours", DAY),
        ("every 1 day", DAY),
        ("every 2 days", 2 * DAY),
        ("every two weeks", 14 * DAY),
        ("every 5 minutes (UTC)", 5 * MINUTE),
        ("每5分钟", 5 * MINUTE),
        ("每 5 分钟", 5 * MINUTE),
        ("每隔五分钟", 5 * MINUTE),
        ("每十五分钟一次", 15 * MINUTE),
        ("每二十分钟", 20 * MINUTE),
        ("每四十五分钟", 45 * MINUTE),
        ("每分钟", MINUTE),
        ("每30秒", 30 * SECOND),
        ("每小时", HOUR),
        ("每个小时", HOUR),
        ("每两个小时", 2 * HOUR),
        ("每半小时", HOUR // 2),
        ("每1.5小时", 3 * HOUR // 2),
        ("每2天", 2 * DAY),
    ],
)
def test_intervals(text: str, every_ms: int) -> None:
    assert read(text) == Every(every_ms, NOW)


@pytest.mark.parametrize(
    "text, expression",
    [
        ("hourly", "0 * * * *"),
        ("hourly at :30", "30 * * * *"),
        ("hourly at 5", "5 * * * *"),
        ("every hour at minute 15", "15 * * * *"),
        ("every hour on the hour", "0 * * * *"),
        ("daily at 9am", "0 9 * * *"),
        ("Daily at 9 AM", "0 9 * * *"),
        ("daily at 9 a.m.", "0 9 * * *"),
        ("daily at 9 p.m. and 9 a.m.", "0 9,21 * * *"),
        ("daily at 9 o'clock", "0 9 * * *"),
        ("daily 9:00", "0 9 * * *"),
        ("every day at 9", "0 9 * * *"),
        ("everyday at 9:30pm", "30 21 * * *"),
        ("each day at 00:05", "5 0 * * *"),
        ("once a day at 9am", "0 9 * * *"),
        ("at 9am every day", "0 9 * * *"),
        ("9:00 daily", "0 9 * * *"),
        ("every day, at 9am", "0 9 * * *"),
        ("daily at noon", "0 12 * * *"),
        ("daily at midnight", "0 0 * * *"),
        ("daily at 12am", "0 0 * * *"),
        ("daily at 12pm", "0 12 * * *"),
        ("daily at 9am and 6pm", "0 9,18 * * *"),
        ("daily at 18:00, 13:00, and 9:00", "0 9,13,18 * * *"),
        ("daily at 9 & 9", "0 9 * * *"),
        ("weekdays at 18:30", "30 18 * * 1-5"),
        ("every weekday at 6:30 pm", "30 18 * * 1-5"),
        ("on working days at 18:30", "30 18 * * 1-5"),
        ("at 18:30 on weekdays", "30 18 * * 1-5"),
        ("monday to friday at 18:30", "30 18 * * 1-5"),
        ("Mon-Fri 18:30", "30 18 * * 1-5"),
        ("every mon through fri at 18:30", "30 18 * * 1-5"),
        ("weekends at 10am", "0 10 * * 0,6"),
        ("every weekend at 10", "0 10 * * 0,6"),
        ("every monday at 9", "0 9 * * 1"),
        ("mondays at 9", "0 9 * * 1"),
        ("on mondays at 9", "0 9 * * 1"),
        ("weekly on friday at 17:00", "0 17 * * 5"),
        ("every week on sunday at 17:00", "0 17 * * 0"),
        ("every mon, wed and fri at 8:15", "15 8 * * 1,3,5"),
        ("every tues/thurs at 8:15", "15 8 * * 2,4"),
        ("mondays & thursdays at 8:15", "15 8 * * 1,4"),
        ("fri-mon at 9", "0 9 * * 0,1,5,6"),
        ("sunday to saturday at 9", "0 9 * * *"),
        ("monthly on the 1st at 9am", "0 9 1 * *"),
        ("monthly on day 15 at 09:00", "0 9 15 * *"),
        ("every month on the 3rd at 8", "0 8 3 * *"),
        ("on the 22nd of every month at 8", "0 8 22 * *"),
        ("monthly on the last day at 18:00", "0 18 L * *"),
        ("on the last day of each month at 18:00", "0 18 L * *"),
        ("0 9 * * Mon-Fri", "0 9 * * mon-fri"),
        ("0 9 lw * *", "0 9 lw * *"),
        ("30 0 9 * * *", "30 0 9 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("每天9点", "0 9 * * *"),
        ("每天９：３０。", "30 9 * * *"),
        ("每日　九点整", "0 9 * * *"),
        ("每天上午9点", "0 9 * * *"),
        ("每天的早上8点30分", "30 8 * * *"),
        ("每天早上8点05分", "5 8 * * *"),
        ("每早8点", "0 8 * * *"),
        ("每天下午6点半", "30 18 * * *"),
        ("每天傍晚6点", "0 18 * * *"),
        ("每日18时", "0 18 * * *"),
        ("每晚8点", "0 20 * * *"),
        ("每晚上8点", "0 20 * * *"),
        ("每天晚上12点", "0 0 * * *"),
        ("每天深夜2点", "0 2 * * *"),
        ("每天晚上22点", "0 22 * * *"),
        ("每天凌晨2点", "0 2 * * *"),
        ("每天凌晨12点", "0 0 * * *"),
        ("每天中午", "0 12 * * *"),
        ("每天中午12点", "0 12 * * *"),
        ("每天中午11点半", "30 11 * * *"),
        ("每天中午1点", "0 13 * * *"),
        ("每天午夜", "0 0 * * *"),
        ("每天十二点一刻", "15 12 * * *"),
        ("每天二十点三刻", "45 20 * * *"),
        ("每天9点和18点", "0 9,18 * * *"),
        ("天天9点、13点、18点", "0 9,13,18 * * *"),
        ("工作日18:30", "30 18 * * 1-5"),
        ("每个工作日18点30分", "30 18 * * 1-5"),
        ("周一到周五9点", "0 9 * * 1-5"),
        ("每周一至五9:30", "30 9 * * 1-5"),
        ("周末10点", "0 10 * * 0,6"),
        ("每周末上午10点", "0 10 * * 0,6"),
        ("每周一9点", "0 9 * * 1"),
        ("每周一三点", "0 3 * * 1"),
        ("每周一十点", "0 10 * * 1"),
        ("每周一、三、五9点", "0 9 * * 1,3,5"),
        ("每星期一和星期四18点", "0 18 * * 1,4"),
        ("每礼拜天上午10点", "0 10 * * 0"),
        ("每个星期日10点", "0 10 * * 0"),
        ("每月1号9点", "0 9 1 * *"),
        ("每月十五日上午9点", "0 9 15 * *"),
        ("每个月的最后一天18点", "0 18 L * *"),
    ],
)
def test_times_of_the_clock(text: str, expression: str) -> None:
    assert read(text) == Cron(expression, TZ)


@pytest.mark.parametrize(
    "text, utc",
    [
        ("in 10 minutes", "2026-02-02T21:55:30.000Z"),
        ("in an hour", "2026-02-02T22:45:30.000Z"),
        ("in half an hour", "2026-02-02T22:15:30.000Z"),
        ("after 3 days", "2026-02-05T21:45:30.000Z"),
        ("2 weeks from now", "2026-02-16T21:45:30.000Z"),
        ("90 seconds later", "2026-02-02T21:47:00.000Z"),
        ("at 18:30", "2026-02-03T10:30:00.000Z"),
        ("at 5:45", "2026-02-03T21:45:00.000Z"),
        ("at noon", "2026-02-03T04:00:00.000Z"),
        ("once at 6 am", "2026-02-02T22:00:00.000Z"),
        ("today at 23:00", "2026-02-03T15:00:00.000Z"),
        ("tomorrow at 9am", "2026-02-04T01:00:00.000Z"),
        ("tomorrow 9am", "2026-02-04T01:00:00.000Z"),
        ("9am tomorrow", "2026-02-04T01:00:00.000Z"),
        ("the day after tomorrow at noon", "2026-02-05T04:00:00.000Z"),
        ("2026-03-01 09:00", "2026-03-01T01:00:00.000Z"),
        ("2026-03-01T09:00:00Z", "2026-03-01T09:00:00.000Z"),
        ("2026-03-01t09:00:00.5-05:00", "2026-03-01T14:00:00.500Z"),
        ("on 2026-03-01 at 9am", "2026-03-01T01:00:00.000Z"),
        ("2026-03-01, 9am", "2026-03-01T01:00:00.000Z"),
        ("once on 2026-03-01 at 09:00:05", "2026-03-01T01:00:05.000Z"),
        ("10分钟后", "2026-02-02T21:55:30.000Z"),
        ("半小时后", "2026-02-02T22:15:30.000Z"),
        ("一个小时以后", "2026-02-02T22:45:30.000Z"),
        ("过三天之后", "2026-02-05T21:45:30.000Z"),
        ("两周后", "2026-02-16T21:45:30.000Z"),
        ("今天23点", "2026-02-03T15:00:00.000Z"),
        ("今晚8点", "2026-02-03T12:00:00.000Z"),
        ("明天9点", "2026-02-04T01:00:00.000Z"),
        ("明早8点", "2026-02-04T00:00:00.000Z"),
        ("明天的8点", "2026-02-04T00:00:00.000Z"),
        ("后天下午3点", "2026-02-05T07:00:00.000Z"),
        ("下午3点", "2026-02-03T07:00:00.000Z"),
    ],
)
def test_once(text: str, utc: str) -> None:
    found = read(text)
    assert isinstance(found, At)
    assert (iso(found.at_ms), found.tz) == (utc, TZ)


@pytest.mark.parametrize(
    "text",
    [
        "daily at 9am (Europe/London)",
        "daily at 9am(Europe/London)",
        "daily at 9am Europe/London",
        "daily at 9am in Europe/London.",
        "每天9点（Europe/London）",
    ],
)
def test_a_zone_after_the_words(text: str) -> None:
    assert read(text) == Cron("0 9 * * *", "Europe/London")


@pytest.mark.parametrize("name", ["UTC", "GMT"])
def test_the_zones_without_a_slash(name: str) -> None:
    assert read(f"weekdays at 18:30 {name}") == Cron("30 18 * * 1-5", name)
    assert read(f"weekdays at 18:30 ({name})") == Cron("30 18 * * 1-5", name)


def test_the_zone_decides_what_day_it_is() -> None:
    found = read("today at 23:00 (America/New_York)")
    assert found == At(NOW - NOW % HOUR + 7 * HOUR, "America/New_York")


def test_schedule_wins() -> None:
    given: dict[str, object] = {"kind": "cron", "cron": "0 9 * * *", "tz": "UTC"}
    assert read("every 5 minutes", given) == Cron("0 9 * * *", "UTC")
    assert read("no words at all", given) == Cron("0 9 * * *", "UTC")


def test_a_schedule_of_a_zone_alone_is_where_the_words_are_meant() -> None:
    empty: dict[str, object] = {"kind": None, "at": "", "every_ms": None, "cron": ""}
    assert read("daily at 9am", {"tz": "UTC"}) == Cron("0 9 * * *", "UTC")
    assert read("daily at 9am (Asia/Tokyo)", {"tz": "UTC"}) == Cron("0 9 * * *", "UTC")
    assert read(" daily at 9am ", empty) == Cron("0 9 * * *", TZ)


NOT_UNDERSTOOD = (
    'it is not understood; write it like "every 5 minutes", "hourly", "daily at 9am" or "weekdays '
    'at 18:30", or use schedule instead.'
)


@pytest.mark.parametrize(
    "text",
    [
        "whenever you like",
        "5 minutes",
        "every",
        "every 5",
        "every minutes 5",
        "every 5 fortnights",
        "daily at",
        "at",
        "daily at 24",
        "daily at 25:00",
        "daily at 9:60",
        "daily at 13pm",
        "daily at 0am",
        "daily at teatime",
        "hourly at 60",
        "monday at 9",
        "mondays and thursday at 9",
        "every monday and never at 9",
        "every mon-fri-sun at 9",
        "every someday at 9",
        "monthly on the first at 9",
        "today and tomorrow at 9",
        "tomorrow at 9 and 10",
        "at 9 and 10",
        "(UTC)",
        "@",
        "0 9 * *",
        "x 9 * * *",
        "每",
        "每天二十五点",
        "每天9点60分",
        "每天上午15点",
        "每天零十点",
        "每天九九点",
        "每天9点九九分",
        "每周八9点",
        "周一9点",
        "每月百号9点",
        "每月十十号9点",
        "每九九分钟",
        "零十分钟后",
        "明天9点和10点",
        "5分钟",
    ],
)
def test_words_that_are_not_understood(text: str) -> None:
    assert refusal(text) == f"schedule_text {text!r}: {NOT_UNDERSTOOD}"


NO_TIME = 'say at what time, as in "daily at 9:00".'
NO_DAY = 'say on which day and at what time, as in "every Monday at 9:00".'
INTERVALS = (
    "schedule.every_ms must be a whole number of milliseconds, from 1000 to 31622400000 (366 days)."
)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("daily", NO_TIME),
        ("every day", NO_TIME),
        ("weekdays", NO_TIME),
        ("every friday", NO_TIME),
        ("monthly on the 1st", NO_TIME),
        ("每天", NO_TIME),
        ("每晚", NOT_UNDERSTOOD),
        ("每周一", NO_TIME),
        ("weekly", NO_DAY),
        ("every week", NO_DAY),
        ("monthly", NO_DAY),
        ("每周", NO_DAY),
        ("每个月", NO_DAY),
        (
            "daily at 9:00 and 18:30",
            "times with different minutes need one job each, or a schedule of kind cron.",
        ),
        (
            "每天9点和18点半",
            "times with different minutes need one job each, or a schedule of kind cron.",
        ),
        ("every 0 minutes", INTERVALS),
        ("every 0.5 seconds", INTERVALS),
        ("every 367 days", INTERVALS),
        ("every 999999999 weeks", INTERVALS),
        (
            "daily at 9am (Mars/Olympus)",
            "schedule.tz: no time zone is called 'Mars/Olympus'; use an IANA name, such as "
            "Asia/Shanghai, America/New_York or UTC.",
        ),
        (
            "today at 5am",
            "schedule.at is in the past; it is now 2026-02-02T21:45:30.000Z, so in ten minutes it is "
            "2026-02-02T21:55:30.000Z.",
        ),
        (
            "in 999999999 weeks",
            "schedule.at is more than 366 days ahead; it is now 2026-02-02T21:45:30.000Z, so in ten "
            "minutes it is 2026-02-02T21:55:30.000Z.",
        ),
        (
            "on 2026-02-30 at 9am",
            "schedule.at is not a real date and time; it is now 2026-02-02T21:45:30.000Z, so in ten "
            "minutes it is 2026-02-02T21:55:30.000Z.",
        ),
        ("0 0 31 2 *", "schedule.cron is never due: no month in it has a day 31."),
    ],
)
def test_words_that_mean_what_cannot_be(text: str, sentence: str) -> None:
    assert refusal(text) == f"schedule_text {text!r}: {sentence}"


def test_words_keep_to_the_operators_minimum() -> None:
    rules = JobRules(timezone=TZ, min_interval_ms=2 * HOUR)
    assert "from 7200000 to" in refusal("every 5 minutes", rules)
    assert "3600 seconds apart" in refusal("hourly", rules)


def test_a_long_text_is_not_read() -> None:
    assert refusal("x" * 201) == "schedule_text has more than 200 characters; make it shorter."
    assert refusal("x" * 200) == f"schedule_text '{'x' * 60}…': {NOT_UNDERSTOOD}"


@pytest.mark.parametrize(
    "schedule, words",
    [
        (At(NOW), "once on 2026-02-02 at 21:45:30 (UTC)"),
        (At(NOW - 30_000, TZ), "once on 2026-02-03 at 05:45 (Asia/Shanghai)"),
        (At(NOW, "Old/Zone"), "once on 2026-02-02 at 21:45:30 (UTC)"),
        (Every(1, 0), "every millisecond"),
        (Every(1500, 0), "every 1500 milliseconds"),
        (Every(SECOND, 0), "every second"),
        (Every(90 * SECOND, 0), "every 90 seconds"),
        (Every(MINUTE, 0), "every minute"),
        (Every(5 * MINUTE, 0), "every 5 minutes"),
        (Every(HOUR, 0), "every hour"),
        (Every(DAY, 0), "every 24 hours"),
        (Every(14 * DAY, 0), "every 14 days"),
        (Cron("0 * * * *", TZ), "hourly (Asia/Shanghai)"),
        (Cron("5 * * * *", TZ), "hourly at :05 (Asia/Shanghai)"),
        (Cron("0 9 * * *", TZ), "daily at 09:00 (Asia/Shanghai)"),
        (Cron("30 9,18 * * *", TZ), "daily at 09:30 and 18:30 (Asia/Shanghai)"),
        (Cron("0 8,12,18 * * 1-5", TZ), "weekdays at 08:00, 12:00 and 18:00 (Asia/Shanghai)"),
        (Cron("0 9 * * 0,6", "UTC"), "weekends at 09:00 (UTC)"),
        (Cron("0 9 * * 1", "UTC"), "every Monday at 09:00 (UTC)"),
        (Cron("0 9 * * 1,3,5", "UTC"), "every Monday, Wednesday and Friday at 09:00 (UTC)"),
        (Cron("0 9 15 * *", "UTC"), "monthly on day 15 at 09:00 (UTC)"),
        (Cron("0 9 L * *", "UTC"), "monthly on the last day at 09:00 (UTC)"),
        (Cron("0 9 1 1 *", "UTC"), "at 09:00 on January 1 (UTC)"),
        (Cron("*/5 * * * *", "UTC"), "every fifth minute of every hour (UTC)"),
        (Cron("0 */2 * * *", "UTC"), "at minute 0 past every second hour (UTC)"),
        (Cron("0 9 1 * 1", "UTC"), "at 09:00 on the first day of month and on Monday (UTC)"),
        (Cron("10 0 9 * * *", "UTC"), "at 09:00:10 every day (UTC)"),
        (Cron("what is this", "UTC"), "cron what is this (UTC)"),
    ],
)
def test_in_words(schedule: Schedule, words: str) -> None:
    assert in_words(schedule) == words


@pytest.mark.parametrize(
    "text",
    [
        "every 90 seconds",
        "every hour",
        "every 14 days",
        "hourly",
        "hourly at :05",
        "daily at 9",
        "weekdays at 9:30 and 18:30",
        "weekends at noon",
        "every mon, wed and fri at 8:15",
        "monthly on the 15th at 9",
        "monthly on the last day at 9",
        "in 10 minutes",
        "tomorrow at 9",
        "周一到周五9点",
    ],
)
@pytest.mark.parametrize("tz", ["UTC", "Asia/Shanghai", "America/New_York"])
def test_what_is_said_in_words_can_be_read(text: str, tz: str) -> None:
    schedule = read(text, {"tz": tz})
    assert read(in_words(schedule)) == schedule


WORDS = (
    "every each 5 9 9am 18:30 minutes hour day monday mondays and , at on in weekly monthly the 1st",
    "last daily noon from now to - 每 天 周 一 三 9点 半 后 号 月 分钟 (UTC) * */5 UTC",
)
PIECES = st.sampled_from([word for line in WORDS for word in line.split()])


def answer(text: str) -> str:
    """What is read, said in words, or why it is not."""
    try:
        return f"{in_words(read(text))}."
    except InvalidInput as invalid:
        return str(invalid)


@given(st.lists(PIECES, max_size=20), st.sampled_from(["", " "]))
@example(["9", "and"] * 20, " ")
@example(["mondays", ","] * 12, " ")
def test_any_words_give_a_schedule_or_a_sentence(pieces: list[str], between: str) -> None:
    assert answer(between.join(pieces)).endswith(".")


@given(st.text(max_size=250))
def test_any_text_gives_a_schedule_or_a_sentence(text: str) -> None:
    assert answer(text).endswith(".")
