"""Each member of `schedule`: what is read, and what is refused with which sentence."""

from datetime import UTC, datetime

import pytest
from msgspec import to_builtins

from gateway.errors import InvalidInput
from gateway.jobs.model import JobRules
from gateway.jobs.schedule.cron import read_dial
from gateway.jobs.schedule.model import (
    At,
    Cron,
    Every,
    Schedule,
    in_words,
    next_due,
    next_times,
    show_schedule,
    times_between,
)
from gateway.jobs.schedule.reader import read_schedule
from gateway.reminders.clock_calls import YEAR_MS
from gateway.timestamps import iso

NOW = 1_770_067_358_229
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
RULES = JobRules(timezone="Asia/Shanghai")
HOURLY = JobRules(timezone="Asia/Shanghai", min_interval_ms=HOUR)
TEN = int(datetime(2026, 2, 4, 2, tzinfo=UTC).timestamp()) * 1000


def read(given: dict[str, object], rules: JobRules = RULES, now_ms: int = NOW) -> Schedule:
    return read_schedule(given, "", now_ms, rules)


def refusal(given: dict[str, object], rules: JobRules = RULES) -> str:
    with pytest.raises(InvalidInput) as refused:
        read(given, rules)
    return str(refused.value)


@pytest.mark.parametrize(
    "at, expected",
    [
        ("2026-02-04T10:00:00+08:00", At(TEN)),
        ("2026-02-04T02:00:00Z", At(TEN)),
        (" 2026-02-04t02:00z ", At(TEN)),
        ("2026-02-03 21:00:00.250-05:00", At(TEN + 250)),
        ("2026-02-04T02:00:00.123456789Z", At(TEN + 123)),
        ("2026-02-04T02:00:00.5Z", At(TEN + 500)),
        ("2026-02-04T10:00:00", At(TEN, "Asia/Shanghai")),
        ("2026-02-04 10:00", At(TEN, "Asia/Shanghai")),
        (TEN, At(TEN)),
        (TEN // 1000, At(TEN)),
        (TEN / 1000 + 0.25, At(TEN + 250)),
        (str(TEN), At(TEN)),
        (f" {TEN // 1000} ", At(TEN)),
        (iso(NOW + 1), At(NOW + 1)),
        (iso(NOW + YEAR_MS), At(NOW + YEAR_MS)),
    ],
)
def test_at(at: object, expected: At) -> None:
    assert read({"kind": "at", "at": at}) == expected


def test_at_in_a_zone_that_is_given() -> None:
    given: dict[str, object] = {"kind": "at", "at": "2026-07-01T09:00", "tz": "Europe/London"}
    eight = int(datetime(2026, 7, 1, 8, tzinfo=UTC).timestamp()) * 1000
    assert read(given) == At(eight, "Europe/London")
    assert read(given | {"at": "2026-07-01T08:00Z"}) == At(eight, "Europe/London")


@pytest.mark.parametrize(
    "wall, utc",
    [
        ("2026-03-08T02:30:00", "2026-03-08T07:00:00.000Z"),
        ("2026-11-01T01:30:00.125", "2026-11-01T05:30:00.125Z"),
    ],
)
def test_at_when_clocks_are_changed(wall: str, utc: str) -> None:
    found = read({"kind": "at", "at": wall, "tz": "America/New_York"})
    assert to_builtins(show_schedule(found))["at"] == utc


EXAMPLE = "it is now 2026-02-02T21:22:38.229Z, so in ten minutes it is 2026-02-02T21:32:38.229Z."
WHAT_AT_IS = (
    "schedule.at must be a date and time in RFC 3339 format (without an offset it is read in "
    f"schedule.tz), or seconds or milliseconds since 1970; {EXAMPLE}"
)


@pytest.mark.parametrize(
    "at",
    [
        None,
        "",
        "tomorrow",
        "2026-02-04",
        "2026-W06-3T10:00:00Z",
        "2026-02-04T24:00:00Z",
        "2026-02-04T10:00:00+0800",
        "2026-02-04T10:00:00+24:00",
        "2026-02-04T10:00:00.Z",
        "20260204T100000Z",
        "٢٠٢٦-02-04T10:00:00Z",
        "1" * 16,
        "-5",
        "1e9",
        True,
        {},
        ["2026-02-04T10:00:00Z"],
    ],
)
def test_at_that_is_no_time(at: object) -> None:
    assert refusal({"kind": "at", "at": at}) == WHAT_AT_IS


@pytest.mark.parametrize(
    "at, sentence",
    [
        ("2026-02-30T10:00:00Z", f"schedule.at is not a real date and time; {EXAMPLE}"),
        ("2026-02-04T10:61", f"schedule.at is not a real date and time; {EXAMPLE}"),
        ("2026-06-30T23:59:60Z", f"schedule.at is not a real date and time; {EXAMPLE}"),
        ("0000-01-01T00:00:00Z", f"schedule.at is not a real date and time; {EXAMPLE}"),
        (iso(NOW), f"schedule.at is in the past; {EXAMPLE}"),
        ("0001-01-01T00:00:00+23:59", f"schedule.at is in the past; {EXAMPLE}"),
        ("0001-01-01T00:00:00", f"schedule.at is in the past; {EXAMPLE}"),
        (0, f"schedule.at is in the past; {EXAMPLE}"),
        (iso(NOW + YEAR_MS + 1), f"schedule.at is more than 366 days ahead; {EXAMPLE}"),
        ("9999-12-31T23:59:59-23:59", f"schedule.at is more than 366 days ahead; {EXAMPLE}"),
        ("9999-12-31T23:59:59", f"schedule.at is more than 366 days ahead; {EXAMPLE}"),
        (99_999_999_999, f"schedule.at is more than 366 days ahead; {EXAMPLE}"),
        (100_000_000_000, f"schedule.at is in the past; {EXAMPLE}"),
    ],
)
def test_at_that_cannot_be(at: object, sentence: str) -> None:
    assert refusal({"kind": "at", "at": at}) == sentence


@pytest.mark.parametrize("at", [-1, -0.5, 1e300, float("inf"), float("nan"), 10**400])
def test_at_as_a_number_that_is_no_time(at: float) -> None:
    sentence = "schedule.at, as a number, must be seconds or milliseconds since 1970."
    assert refusal({"kind": "at", "at": at}) == sentence


@pytest.mark.parametrize("every_ms", [1000, 60_000, 60_000.0, YEAR_MS])
def test_every(every_ms: float) -> None:
    assert read({"kind": "every", "every_ms": every_ms}) == Every(int(every_ms), NOW)


@pytest.mark.parametrize(
    "every_ms",
    [None, "", 999, 0, -60_000, YEAR_MS + 1, 10**400, 1500.5, 1e300, "60000", True, [], {}],
)
def test_every_that_is_no_interval(every_ms: object) -> None:
    assert refusal({"kind": "every", "every_ms": every_ms}) == (
        "schedule.every_ms must be a whole number of milliseconds, from 1000 to 31622400000 "
        "(366 days)."
    )


def test_every_has_the_operators_minimum() -> None:
    assert read({"kind": "every", "every_ms": HOUR}, HOURLY) == Every(HOUR, NOW)
    assert "from 3600000 to" in refusal({"kind": "every", "every_ms": HOUR - 1}, HOURLY)


@pytest.mark.parametrize(
    "at, anchor_ms",
    [
        ("2026-02-04T02:00:00Z", TEN),
        ("2026-02-04T10:00", TEN),
        ("2020-01-01T00:00:00Z", 1_577_836_800_000),
        (0, 0),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_the_grid_begins_where_it_is_said(at: object, anchor_ms: int) -> None:
    assert read({"kind": "every", "every_ms": HOUR, "at": at}) == Every(HOUR, anchor_ms)


@pytest.mark.parametrize(
    "at", ["1969-12-31T23:59:59.999Z", "1970-01-01T07:59:59", "0001-01-01T00:00"]
)
def test_the_grid_begins_in_known_time(at: str) -> None:
    given: dict[str, object] = {"kind": "every", "every_ms": HOUR, "at": at}
    assert refusal(given) == "schedule.at is before 1970; use a later time."


def test_the_grid_begins_within_a_year() -> None:
    given: dict[str, object] = {"kind": "every", "every_ms": HOUR, "at": iso(NOW + YEAR_MS + 1)}
    assert refusal(given).startswith("schedule.at is more than 366 days ahead")
    assert refusal(given | {"at": "soon"}) == WHAT_AT_IS


@pytest.mark.parametrize(
    "cron, expression",
    [
        ("0 9 * * *", "0 9 * * *"),
        ("  0\t9 * *\n* ", "0 9 * * *"),
        ("30 9 * * MON-FRI", "30 9 * * MON-FRI"),
        ("0 9 * jan,Jul sun", "0 9 * jan,Jul sun"),
        ("0 9 * * mon-sun", "0 9 * * mon-sun"),
        ("0 9 L * *", "0 9 L * *"),
        ("0 9 LW * *", "0 9 LW * *"),
        ("0 9 * * 5L", "0 9 * * 5L"),
        ("0 9 * * MON#2", "0 9 * * MON#2"),
        ("*/10 8-18/2 1,15 * *", "*/10 8-18/2 1,15 * *"),
        ("15 30 9 * * *", "15 30 9 * * *"),
        ("* * * * * *", "* * * * * *"),
        ("0 0 29 2 *", "0 0 29 2 *"),
        ("0 0 30 2 1", "0 0 30 2 1"),
        ("@daily", "0 0 * * *"),
        (" @Hourly ", "0 * * * *"),
    ],
)
def test_cron(cron: str, expression: str) -> None:
    assert read({"kind": "cron", "cron": cron}) == Cron(expression, "Asia/Shanghai")


@pytest.mark.parametrize("cron", [None, "", 5, ["0 9 * * *"], {}])
def test_cron_that_is_no_text(cron: object) -> None:
    sentence = 'schedule.cron must be a string of 5 fields, such as "30 9 * * MON-FRI".'
    assert refusal({"kind": "cron", "cron": cron}) == sentence


@pytest.mark.parametrize(
    "cron, count", [("9:00", 1), ("0 9 * *", 4), ("0 0 9 * * * 2026", 7), (" ", 0), ("@reboot", 1)]
)
def test_cron_of_too_few_or_many_fields(cron: str, count: int) -> None:
    assert refusal({"kind": "cron", "cron": cron}) == (
        "schedule.cron must have 5 fields (minute, hour, day of month, month, day of week), as in "
        f'"30 9 * * MON-FRI"; it has {count}.'
    )


@pytest.mark.parametrize(
    "cron, found",
    [
        ("60 9 * * *", "'60' is not a valid minute; use 0 to 59, "),
        ("0 24 * * *", "'24' is not a valid hour; use 0 to 23, "),
        ("0 9 0 * *", "'0' is not a valid day-of-month; use 1 to 31, L for the last day and LW "),
        ("0 9 32 * *", "'32' is not a valid day-of-month; "),
        ("0 9 15W * *", "'15W' is not a valid day-of-month; "),
        ("0 9 ? * 1", "'?' is not a valid day-of-month; "),
        ("0 9 * 13 *", "'13' is not a valid month; use 1 to 12, or JAN to DEC, "),
        ("0 9 * Smarch *", "'Smarch' is not a valid month; "),
        ("0 9 * * 8", "'8' is not a valid day-of-week; use 0 to 7, or SUN to SAT, 5L for "),
        ("0 9 * * Fryday", "'Fryday' is not a valid day-of-week; "),
        ("0 9 * * MON#6", "'MON#6' is not a valid day-of-week; "),
        ("0 9 * * FRI-MON", "'FRI-MON' is not a valid day-of-week; "),
        ("0 9 * * L", "'L' is not a valid day-of-week; "),
        ("60 0 9 * * *", "'60' is not a valid second; use 0 to 59, "),
        ("*/0 9 * * *", "'*/0' is not a valid minute; "),
        ("1,,2 9 * * *", "'1,,2' is not a valid minute; "),
        ("-1 9 * * *", "'-1' is not a valid minute; "),
        ("٣ 9 * * *", "'٣' is not a valid minute; "),
        ("30 2 31 13 *", "'13' is not a valid month; "),
        ("\ud800 9 * * *", r"'\ud800' is not a valid minute; "),
    ],
)
def test_cron_with_a_field_that_cannot_be_read(cron: str, found: str) -> None:
    sentence = refusal({"kind": "cron", "cron": cron})
    assert sentence.startswith(f"schedule.cron: {found}")
    assert sentence.endswith("with lists (1,3), ranges (1-5), steps (*/5) and *.")


@pytest.mark.parametrize(
    "cron, day", [("0 0 31 2 *", "31"), ("0 0 30,31 feb *", "30,31"), ("0 0 31 2,4,6 */2", "31")]
)
def test_cron_of_a_day_that_no_month_has(cron: str, day: str) -> None:
    sentence = f"schedule.cron is never due: no month in it has a day {day}."
    assert refusal({"kind": "cron", "cron": cron}) == sentence


def test_cron_that_does_not_come_within_the_lookahead() -> None:
    assert refusal({"kind": "cron", "cron": "0 0 * 2 MON#5"}) == (
        "schedule.cron is never due in the next 3660 days; use another expression."
    )
    month = JobRules(cron_lookahead_days=30)
    assert refusal({"kind": "cron", "cron": "0 0 1 7 *"}, month).startswith(
        "schedule.cron is never due in the next 30 days;"
    )
    assert read({"kind": "cron", "cron": "0 0 1 3 *"}, month) == Cron("0 0 1 3 *", "UTC")


def test_cron_that_is_endless() -> None:
    cron = f"{'1,' * 200}1 9 * * *"
    sentence = "schedule.cron has more than 256 characters; make it shorter."
    assert refusal({"kind": "cron", "cron": cron}) == sentence


def test_seconds_only_where_jobs_may_run_within_a_minute() -> None:
    six: dict[str, object] = {"kind": "cron", "cron": "0 0 9 * * *"}
    assert read(six, JobRules(min_interval_ms=MINUTE - 1)) == Cron("0 0 9 * * *", "UTC")
    assert refusal(six, JobRules(min_interval_ms=MINUTE)) == (
        "schedule.cron has 6 fields, but jobs may not run more often than every 60000 ms; remove "
        "the field for seconds."
    )


@pytest.mark.parametrize(
    "cron, interval_ms, gap",
    [
        ("* * * * * *", 1001, 1),
        ("*/20 * * * * *", 30_000, 20),
        ("0,50 * * * * *", 30_000, 10),
        ("50 59 * * * *", HOUR + 1000, None),
        ("* * * * *", 2 * MINUTE, 60),
        ("*/7 * * * *", 7 * MINUTE, 240),
        ("0,59 * * * *", 2 * MINUTE, 60),
        ("*/30 * * * *", HOUR, 1800),
        ("59 9 * * *", DAY + 1, 86_400),
        ("0,59 9,10 * * *", 2 * MINUTE, 60),
        ("0 0,23 * * *", 2 * HOUR, 3600),
        ("0 0,23 * * 1", 2 * HOUR, None),
        ("0 0,23 * * 1", DAY, 82_800),
        ("0 9 * * 1,4", 4 * DAY, 3 * 86_400),
        ("0 9 1 * *", 31 * DAY, 28 * 86_400),
        ("0 9 1 * *", 28 * DAY, None),
        ("0 0 29 2 *", YEAR_MS, None),
    ],
)
def test_the_smallest_gap(cron: str, interval_ms: int, gap: int | None) -> None:
    rules = JobRules(min_interval_ms=interval_ms)
    dial = read_dial(cron)
    today = NOW // DAY
    if gap is not None:
        assert dial.gap_below(gap, today, 3660) is None
        assert dial.gap_below(gap + 1, today, 3660) == gap
        assert -(-interval_ms // 1000) > gap
    if interval_ms >= MINUTE and cron.count(" ") == 5:
        return
    if gap is None:
        assert read({"kind": "cron", "cron": cron}, rules) == Cron(cron, "UTC")
        return
    assert refusal({"kind": "cron", "cron": cron}, rules) == (
        f"schedule.cron has times that are {gap} seconds apart, but jobs may not run more often "
        f"than every {interval_ms} ms; choose fewer times."
    )


def test_an_hourly_job_is_fine_where_jobs_may_run_hourly() -> None:
    """Also where clocks change by half an hour."""
    given: dict[str, object] = {"kind": "cron", "cron": "40 * * * *", "tz": "Australia/Lord_Howe"}
    assert read(given, HOURLY) == Cron("40 * * * *", "Australia/Lord_Howe")


@pytest.mark.parametrize("tz", ["UTC", "Europe/London", " America/Argentina/Ushuaia ", "EST5EDT"])
def test_tz(tz: str) -> None:
    found = read({"kind": "cron", "cron": "0 9 * * *", "tz": tz})
    assert found == Cron("0 9 * * *", tz.strip())


@pytest.mark.parametrize("tz", [None, ""])
def test_tz_that_is_left_out(tz: object) -> None:
    assert read({"kind": "cron", "cron": "0 9 * * *", "tz": tz}) == Cron(
        "0 9 * * *", RULES.timezone
    )


@pytest.mark.parametrize(
    "tz",
    [
        "Mars/Olympus",
        "asia/shanghai",
        "America",
        "CST",
        "UTC+8",
        "+08:00",
        "../UTC",
        "/etc/localtime",
        "localtime",
        "right/UTC",
        "a\0b",
        "\ud800",
        " ",
        "x" * 5000,
    ],
)
@pytest.mark.parametrize(
    "given",
    [
        {"kind": "cron", "cron": "0 9 * * *"},
        {"kind": "at", "at": "2026-02-04T10:00:00Z"},
        {"kind": "every", "every_ms": 60_000},
    ],
    ids=lambda given: str(given["kind"]),
)
def test_tz_that_is_unknown(given: dict[str, object], tz: str) -> None:
    assert refusal(given | {"tz": tz}) == (
        f"schedule.tz: no time zone is called {tz.strip()[:64]!r}; use an IANA name, such as "
        f"Asia/Shanghai, America/New_York or UTC."
    )


@pytest.mark.parametrize("tz", [8, True, ["UTC"], {}])
def test_tz_that_is_no_text(tz: object) -> None:
    sentence = "schedule.tz must be a string, an IANA name such as Asia/Shanghai or UTC."
    assert refusal({"kind": "cron", "cron": "0 9 * * *", "tz": tz}) == sentence


@pytest.mark.parametrize("kind", ["cron", " CRON ", "Cron"])
def test_kind(kind: str) -> None:
    assert read({"kind": kind, "cron": "0 9 * * *"}) == Cron("0 9 * * *", "Asia/Shanghai")


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"cron": "0 9 * * *"}, "schedule.kind is missing; use at, every or cron."),
        ({"tz": "UTC"}, "schedule.kind is missing; use at, every or cron."),
        ({"kind": "daily"}, "schedule.kind cannot be 'daily'; use at, every or cron."),
        (
            {"kind": "x" * 99},
            f"schedule.kind cannot be '{'x' * 60}…'; use at, every or cron.",
        ),
        ({"kind": 1}, "schedule.kind must be a string: at, every or cron."),
        ({"kind": ["at"]}, "schedule.kind must be a string: at, every or cron."),
        (
            {"kind": "cron", "when": 1},
            "schedule has no member 'when'; it has kind, at, every_ms, cron, tz.",
        ),
    ],
)
def test_kind_and_members_that_cannot_be(given: dict[str, object], sentence: str) -> None:
    assert refusal(given) == sentence


def test_a_schedule_that_is_missing() -> None:
    for given in ({}, {"kind": None, "at": "", "every_ms": None, "cron": "", "tz": None}):
        assert refusal(dict(given)) == (
            'schedule is missing; give one, or a schedule_text such as "every 5 minutes", '
            '"hourly", "daily at 9am" or "weekdays at 18:30".'
        )


@pytest.mark.parametrize(
    "kind, name, value",
    [
        ("at", "every_ms", 60_000),
        ("at", "cron", "0 9 * * *"),
        ("every", "cron", "0 9 * * *"),
        ("cron", "at", "2026-02-04T10:00:00Z"),
        ("cron", "every_ms", 60_000),
    ],
)
def test_members_of_another_kind(kind: str, name: str, value: object) -> None:
    given: dict[str, object] = {"kind": kind, name: value}
    sentence = f"schedule.{name} means nothing when schedule.kind is {kind}; leave it out."
    assert refusal(given) == sentence


def test_members_that_are_empty_are_left_out() -> None:
    given: dict[str, object] = {
        "kind": "cron",
        "cron": "0 9 * * *",
        "at": "",
        "every_ms": 0,
        "tz": None,
    }
    assert read(given) == Cron("0 9 * * *", "Asia/Shanghai")


@pytest.mark.parametrize(
    "schedule, shown",
    [
        (At(TEN), ("at", "2026-02-04T02:00:00.000Z", None, None, None)),
        (At(TEN, "UTC"), ("at", "2026-02-04T02:00:00.000Z", None, None, "UTC")),
        (Every(300_000, TEN), ("every", "2026-02-04T02:00:00.000Z", 300_000, None, None)),
        (Cron("0 9 * * *", "UTC"), ("cron", None, None, "0 9 * * *", "UTC")),
    ],
)
def test_what_is_shown(schedule: Schedule, shown: tuple[object, ...]) -> None:
    names = ("kind", "at", "every_ms", "cron", "tz")
    assert to_builtins(show_schedule(schedule)) == dict(zip(names, shown, strict=True))
    assert read(to_builtins(show_schedule(schedule))) == schedule


def test_once() -> None:
    at = At(TEN)
    assert next_due(at, TEN - 1) == TEN
    assert next_due(at, TEN) is None
    assert next_times(at, 0, 5) == (TEN,)
    assert times_between(at, TEN, TEN) == (1, TEN, None)
    assert times_between(at, TEN + 1, TEN + 9) == (0, TEN + 1, None)
    assert times_between(at, TEN - 9, TEN - 1) == (0, TEN - 9, None)


def test_a_grid() -> None:
    grid = Every(300_000, NOW)
    assert next_due(grid, NOW) == NOW + 300_000
    assert next_due(grid, NOW + 299_999) == NOW + 300_000
    assert next_due(grid, NOW + 300_000) == NOW + 600_000
    assert next_times(grid, NOW, 3) == (NOW + 300_000, NOW + 600_000, NOW + 900_000)


def test_a_grid_that_is_to_begin_begins_with_its_first_point() -> None:
    grid = Every(300_000, NOW + DAY)
    assert next_times(grid, NOW, 2) == (NOW + DAY, NOW + DAY + 300_000)
    assert times_between(grid, NOW, NOW + DAY - 1) == (0, NOW, None)
    assert times_between(grid, NOW, NOW + DAY) == (1, NOW + DAY, None)


def test_a_year_of_seconds_is_counted_at_once() -> None:
    assert times_between(Every(1000, NOW), NOW + 1, NOW + YEAR_MS) == (
        YEAR_MS // 1000,
        NOW + YEAR_MS,
        NOW + YEAR_MS - 1000,
    )
    every_second = Cron("* * * * * *", "America/New_York")
    first = NOW // 1000 * 1000 + 1000
    assert times_between(every_second, NOW, NOW + YEAR_MS - 1000) == (
        YEAR_MS // 1000 - 1,
        first + YEAR_MS - 2000,
        first + YEAR_MS - 3000,
    )


def test_times_between_two_instants_that_have_none() -> None:
    daily = Cron("0 9 * * *", "UTC")
    nine = int(datetime(2026, 2, 3, 9, tzinfo=UTC).timestamp()) * 1000
    assert times_between(daily, nine + 1, nine + HOUR) == (0, nine + 1, None)
    assert times_between(daily, nine, nine - 1) == (0, nine, None)
    assert times_between(daily, nine - 1, nine) == (1, nine, None)
    assert times_between(daily, nine - DAY, nine) == (2, nine, nine - DAY)


def test_of_an_endless_time_the_last_ten_years_are_counted() -> None:
    daily = Cron("0 9 * * *", "UTC")
    count, last, before = times_between(daily, 0, NOW)
    assert count == 3660
    assert before == last - DAY


@pytest.mark.parametrize("edge", [-(10**30), 10**30])
def test_the_ends_of_time_have_no_times(edge: int) -> None:
    for expression in ("0 9 * * *", "0 * * * *"):
        assert next_due(Cron(expression, "Asia/Shanghai"), edge) is None
        assert times_between(Cron(expression, "Asia/Shanghai"), edge, edge + DAY)[0] == 0


@pytest.mark.parametrize("cron", [Cron("0 9 * * *", "Old/Zone"), Cron("new form", "UTC")])
def test_what_this_version_cannot_read_is_never_due(cron: Cron) -> None:
    assert next_due(cron, NOW) is None
    assert next_times(cron, NOW, 5) == ()
    assert times_between(cron, NOW, NOW + DAY) == (0, NOW, None)
    assert cron.expression in to_builtins(show_schedule(cron)).values()
    assert in_words(cron)
