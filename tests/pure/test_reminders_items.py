"""What can be asked for: times, texts and arguments, and the sentences about those that cannot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.errors import InvalidInput
from gateway.reminders.clock_calls import DEPTH, TOOL_BYTES, YEAR_MS, read_item
from gateway.reminders.model import ReminderRequest, Rules

NOW = 1_770_067_358_229  # 2026-02-02T21:22:38.229Z
RULES = Rules()


def read_due(due_at: str, now_ms: int = NOW, rules: Rules = RULES) -> int:
    return read_item(due_at, "x", "", "", now_ms, rules).due_ms


def read_arguments(arguments: str, rules: Rules = RULES) -> str:
    return read_item("2026-02-02T21:30:00Z", "x", "", arguments, NOW, rules).arguments


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(InvalidInput) as invalid:
        read()
    return str(invalid.value)


def test_an_item_is_read() -> None:
    item = read_item(
        " 2026-02-02T13:30:00.5-08:00\n",
        " drink tea ",
        " kettle ",
        ' {"b": [1], "a":2} ',
        NOW,
        RULES,
    )
    expected = datetime(2026, 2, 2, 21, 30, 0, 500_000, UTC).timestamp() * 1000
    assert item == ReminderRequest(int(expected), "drink tea", "kettle", '{"a":2,"b":[1]}')


@pytest.mark.parametrize(
    "due_at, utc",
    [
        ("2026-02-02T21:30:00Z", "2026-02-02T21:30:00.000"),
        ("2026-02-02t21:30:00z", "2026-02-02T21:30:00.000"),
        ("2026-02-02 21:30:00Z", "2026-02-02T21:30:00.000"),
        ("2026-02-02T21:30:00-00:00", "2026-02-02T21:30:00.000"),
        ("2026-02-02T21:30:00+00:00", "2026-02-02T21:30:00.000"),
        ("2026-02-03T05:30:00+08:00", "2026-02-02T21:30:00.000"),
        ("2026-02-03T21:29:00+23:59", "2026-02-02T21:30:00.000"),
        ("2026-02-02T21:29:00-23:59", "2026-02-03T21:28:00.000"),
        ("2026-02-03T05:30:00+0800", "2026-02-02T21:30:00.000"),
        ("2026-02-02T13:30:00.5-0800", "2026-02-02T21:30:00.500"),
        ("2026-02-02T21:30Z", "2026-02-02T21:30:00.000"),
        ("2026-02-03T05:30+08:00", "2026-02-02T21:30:00.000"),
        ("2026-02-03T05:30+0800", "2026-02-02T21:30:00.000"),
        ("2026-02-02T21:30:00.1Z", "2026-02-02T21:30:00.100"),
        ("2026-02-02T21:30:00.0019Z", "2026-02-02T21:30:00.001"),
        ("2026-02-02T21:30:00.9999999999999999999999Z", "2026-02-02T21:30:00.999"),
        ("2027-02-02T21:22:38.229Z", "2027-02-02T21:22:38.229"),
        ("2026-02-02T21:02:38.229Z", "2026-02-02T21:02:38.229"),
    ],
)
def test_times_that_are_times(due_at: str, utc: str) -> None:
    assert read_due(due_at) == round(datetime.fromisoformat(f"{utc}+00:00").timestamp() * 1000)


FORM = "dueAt must be a date"
UNREAL = "dueAt is not a real date"
AHEAD = "dueAt is more than a year ahead"
PAST = "dueAt is too far in the past"


@pytest.mark.parametrize(
    "due_at, why",
    [
        ("", FORM),
        ("tomorrow", FORM),
        ("1770067358229", FORM),
        ("2026-02-02T21:30:00", FORM),
        ("2026-02-02T21:30:00 Z", FORM),
        ("2026-02-02", FORM),
        ("2026-02-02Z", FORM),
        ("2026-02-02T21:30", FORM),
        ("2026-02-02T21:30+080", FORM),
        ("2026-02-02T21:30.5Z", FORM),
        ("2026-02-02T21Z", FORM),
        ("2026-02-02T21:30:00,5Z", FORM),
        ("2026-02-02T21:30:00.Z", FORM),
        ("20260202T213000Z", FORM),
        ("2026-W06-1T21:30:00Z", FORM),
        ("2026-W06-1", FORM),
        ("2026-033T21:30:00Z", FORM),
        ("2026-2-2T21:30:00Z", FORM),
        ("+2026-02-02T21:30:00Z", FORM),
        ("12026-02-02T21:30:00Z", FORM),
        ("2026-02-02T21:30:00+08", FORM),
        ("2026-02-02T21:30:00+24:00", FORM),
        ("2026-02-02T21:30:00-08:60", FORM),
        ("2026-02-02T21:30:00−08:00", FORM),
        ("2026-02-02T21:30:00Z[Europe/London]", FORM),
        ("２０２６-02-02T21:30:00Z", FORM),
        ("2026-02-02T21:30:00Z\n2026-02-02T21:30:00Z", FORM),
        ("2026-02-30T21:30:00Z", UNREAL),
        ("2026-02-29T21:30:00Z", UNREAL),
        ("2026-13-01T21:30:00Z", UNREAL),
        ("2026-00-01T21:30:00Z", UNREAL),
        ("2026-02-02T24:00:00Z", UNREAL),
        ("2026-02-02T21:60:00Z", UNREAL),
        ("2026-06-30T23:59:60Z", UNREAL),
        ("0000-01-01T00:00:00Z", UNREAL),
        ("9999-12-31T23:59:59-23:59", AHEAD),
        ("2027-02-04T00:00:00Z", AHEAD),
        ("0001-01-01T00:00:00+23:59", PAST),
        ("2026-02-02T21:02:38.228Z", PAST),
    ],
)
def test_times_that_are_none(due_at: str, why: str) -> None:
    said = refusal(lambda: read_due(due_at))
    assert said.startswith(why)
    assert said.endswith(
        "; it is now 2026-02-02T21:22:38.229Z, so in ten minutes it is 2026-02-02T21:32:38.229Z."
    )


def test_the_example_in_the_sentence_can_be_used() -> None:
    said = refusal(lambda: read_due("soon"))
    example_at = said.rpartition(" ")[2].removesuffix(".")
    assert read_due(example_at) == NOW + 600_000


def test_a_year_ahead_and_no_more() -> None:
    at = datetime.fromtimestamp((NOW + YEAR_MS) / 1000, UTC)
    assert read_due(at.isoformat(timespec="milliseconds")) == NOW + YEAR_MS
    later = (at + timedelta(milliseconds=1)).isoformat(timespec="milliseconds")
    assert refusal(lambda: read_due(later)).startswith(AHEAD)
    leap_day = 1_709_200_000_000  # 2024-02-29
    assert read_due("2025-02-28T23:59:59Z", leap_day)


@pytest.mark.parametrize(
    "task, tool, said",
    [
        ("", "", "task is empty"),
        (" \n\t", "", "task is empty"),
        ("x" * 4097, "", "task has 4097 bytes; make it shorter, at most 4096 bytes."),
        ("茶" * 1366, "", "task has 4098 bytes; make it shorter"),
        ("a\ud800", "", "task contains an invalid character"),
        ("x", "t" * (TOOL_BYTES + 1), "tool has 257 bytes; make it shorter"),
        ("x", "\udfff", "tool contains an invalid character"),
    ],
)
def test_texts_that_cannot_be(task: str, tool: str, said: str) -> None:
    assert refusal(
        lambda: read_item("2026-02-02T21:30:00Z", task, tool, "", NOW, RULES)
    ).startswith(said)


def test_texts_up_to_their_limit() -> None:
    item = read_item("2026-02-02T21:30:00Z", "x" * 4096, "t" * TOOL_BYTES, "", NOW, RULES)
    assert (len(item.text), len(item.tool)) == (4096, TOOL_BYTES)


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    "arguments, compact",
    [
        ("", ""),
        ("  ", ""),
        ("{}", ""),
        (" { } ", ""),
        ('{"a": 1}', '{"a":1}'),
        ('{"b":1,"a":{"d":[ ],"c":null}}', '{"a":{"c":null,"d":[]},"b":1}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ('{"n":123456789012345678901234567890}', '{"n":123456789012345678901234567890}'),
        ('{"a":"\\u8336"}', '{"a":"茶"}'),
        (nested(DEPTH), nested(DEPTH)),
    ],
)
def test_arguments_in_one_form(arguments: str, compact: str) -> None:
    assert read_arguments(arguments) == compact


@pytest.mark.parametrize(
    "arguments",
    [
        "[]",
        "null",
        '"{}"',
        "{",
        "{a:1}",
        "city=Paris",
        'say "tea"',
        '{"a":NaN}',
        '{"a":1e999}',
        '{"a":' + "9" * 5000 + "}",
        '{"a":"\\ud800"}',
        "[" * 4000 + "]" * 4000,
    ],
)
def test_arguments_that_are_no_object_are_kept_as_text(arguments: str) -> None:
    assert msgspec.json.decode(read_arguments(f" {arguments} ")) == arguments


@pytest.mark.parametrize(
    "arguments, said",
    [
        ('{"a":"\ud800"}', "arguments contains an invalid character"),
        ('{"a":"' + "x" * 8192 + '"}', "arguments has 8200 bytes; make it shorter"),
        ("x" * 8193, "arguments has 8193 bytes; make it shorter"),
        ('"' * 8192, "arguments has 16386 bytes; make it shorter"),
        ('{"a":[' + ",".join(["1e15"] * 1000) + "]}", "arguments has 19007 bytes; make it shorter"),
        (nested(DEPTH + 1), f"arguments are nested more than {DEPTH} levels deep"),
        ('{"a":' + "[" * DEPTH + "]" * DEPTH + "}", "arguments are nested more than"),
        ('{"a":' + "[" * 4000 + "]" * 4000 + "}", "arguments are nested more than"),
    ],
)
def test_arguments_that_cannot_be(arguments: str, said: str) -> None:
    assert refusal(lambda: read_arguments(arguments)).startswith(said)


OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59)


@given(
    ahead_ms=st.integers(-1_000_000, YEAR_MS - 86_400_000),
    offset=OFFSETS,
    fraction=st.text("0123456789", max_size=12),
    marks=st.sampled_from(["TZ", "tz", " Z"]),
)
def test_any_time_as_rfc_3339_writes_it(
    ahead_ms: int, offset: int, fraction: str, marks: str
) -> None:
    zone = timezone(timedelta(minutes=offset))
    at = datetime.fromtimestamp((NOW + ahead_ms) // 1000, zone)
    written = at.strftime(f"%Y-%m-%d{marks[0]}%H:%M:%S") + (f".{fraction}" if fraction else "")
    sign, size = "-" if offset < 0 else "+", abs(offset)
    written += f"{sign}{size // 60:02d}:{size % 60:02d}" if offset else marks[1]
    assert read_due(written) == int(at.timestamp()) * 1000 + int(f"{fraction:0<3}"[:3])


@given(
    due_at=st.one_of(
        st.text(),
        st.text("0123456789-:.TtZz +W", max_size=40),
        st.from_regex(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?[Zz+-]"
        ),
        st.from_regex(r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]Z\Z"),
        st.datetimes(timezones=st.timezones()).map(datetime.isoformat),
    ),
    texts=st.lists(st.text(st.characters(), max_size=20), min_size=2, max_size=2),
    arguments=st.text() | st.text('{}[]":,0123456789.eE-\\ud8ntf', max_size=60),
)
@example("2026-02-02T21:30:00Z", ["x", ""], "{" + '"":{' * 3000)
def test_nothing_but_unfit_is_ever_raised(due_at: str, texts: list[str], arguments: str) -> None:
    for when in (due_at, "2026-02-02T21:30:00Z"):
        try:
            item = read_item(when, texts[0], texts[1], arguments, NOW, RULES)
        except InvalidInput:
            continue
        assert NOW - RULES.retention_ms <= item.due_ms <= NOW + YEAR_MS


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_arguments_have_one_form_however_they_are_written(value: dict[str, Any]) -> None:
    backwards = dict(reversed(value.items()))
    spaced = msgspec.json.format(msgspec.json.encode(backwards)).decode()
    once = read_arguments(spaced)
    assert once == read_arguments(msgspec.json.encode(value).decode())
    assert read_arguments(once) == once
    assert msgspec.json.decode(once or "{}") == value
