"""Reads and checks schedules as clients and models write them.

The idea: two forms, one reader. A `schedule_text` is converted to the members that `schedule` would
have, by the first language that knows it; then both are read by the same code, so that all limits
apply to both.

Invariants:
- A schedule that was read is due at least once after now, within the operator's limits; else it is
  refused with one sentence that names the member and says what to write instead.
- `schedule` wins over `schedule_text`, unless it only has a zone.
- A schedule that was shown can be sent back as long as it is still due, and means the same.
- A time without an offset is read in the given zone; a time with an offset needs no zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.errors import InvalidInput
from gateway.jobs.model import JobRules
from gateway.jobs.schedule.chinese import read_chinese
from gateway.jobs.schedule.cron import DAY, read_dial, tidy
from gateway.jobs.schedule.english import read_english
from gateway.jobs.schedule.members import Members, Now, tidy_text
from gateway.jobs.schedule.model import At, Cron, Every, Kind, Schedule, next_due
from gateway.jobs.schedule.zones import LEAD, find_zone, instant_of, offset_at
from gateway.reminders.clock_calls import YEAR_MS
from gateway.timestamps import iso

LONGEST_TEXT = 200
EXAMPLES = '"every 5 minutes", "hourly", "daily at 9am" or "weekdays at 18:30"'
_MINUTE_MS = 60_000
# Smaller numbers are seconds: this one is in 1973 as milliseconds, and in 5138 as seconds.
_FIRST_IN_MS = 100_000_000_000
_END_MS = 253_402_300_800_000
_NAIVE_EPOCH = datetime(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_is_moment = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ](?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
).fullmatch
_is_number = re.compile(r"[0-9]{1,15}").fullmatch
_is_cron = re.compile(
    r"@[a-z]+|(?:[0-9*,/-]+ )?(?:[0-9*,/-]+ ){2}[0-9*,/lw-]+ [0-9a-z*,/-]+ [0-9a-z*,/#-]+"
).fullmatch


class ScheduleRequest(msgspec.Struct, forbid_unknown_fields=True):
    """When a job is to be due, as it may be written; a member that is null is as good as absent."""

    kind: Kind | None = None
    at: Annotated[
        str | float | None,
        Meta(description="RFC 3339, or without an offset and in `tz`, or since 1970 in s or ms."),
    ] = None
    every_ms: Annotated[int, Meta(ge=0)] | None = None
    cron: Annotated[str | None, Meta(description="Five fields, or six with seconds.")] = None
    tz: Annotated[str | None, Meta(description="An IANA name.")] = None


MEMBERS = ScheduleRequest.__struct_fields__


def read_schedule(given: Mapping[str, object], text: str, now_ms: int, rules: JobRules) -> Schedule:
    """Read `schedule`, or `schedule_text` if that only has `tz`; or raise `InvalidInput`."""
    members = _members(given)
    words = text.strip()
    if members.keys() <= {"tz"} and words:
        return _read_text(words, members, now_ms, rules)
    if not members:
        raise InvalidInput(f"schedule is missing; give one, or a schedule_text such as {EXAMPLES}.")
    return _read_members(members, now_ms, rules)


def _members(given: Mapping[str, object]) -> Members:
    unknown = next((name for name in given if name not in MEMBERS), None)
    if unknown is not None:
        raise InvalidInput(
            f"schedule has no member {_quote(unknown)}; it has {', '.join(MEMBERS)}."
        )
    # Clients that must send every member send the unused ones empty.
    return {name: value for name, value in given.items() if value is not None and value != ""}


def _read_text(text: str, members: Members, now_ms: int, rules: JobRules) -> Schedule:
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(
            f"schedule_text has more than {LONGEST_TEXT} characters; make it shorter."
        )
    try:
        words, named = tidy_text(text)
        # A zone in schedule.tz wins over one in the text.
        tz = _read_tz(members or {"tz": named or None}, rules)
        found = _parse_words(words, Now(now_ms, _wall_clock(now_ms, tz)))
        return _read_members(found | {"tz": tz}, now_ms, rules)
    except InvalidInput as invalid:
        raise InvalidInput(f"schedule_text {_quote(text)}: {invalid}") from None


def _parse_words(words: str, now: Now) -> Members:
    if _is_moment(words):
        return {"kind": "at", "at": words}
    found = read_english(words, now) or read_chinese(words, now)
    # A cron expression alone is accepted too; it is checked later.
    if found is None and _is_cron(words):
        return {"kind": "cron", "cron": words}
    if found is None:
        raise InvalidInput(
            f"it is not understood; write it like {EXAMPLES}, or use schedule instead."
        )
    return found


def _read_members(members: Members, now_ms: int, rules: JobRules) -> Schedule:
    kind = _read_kind(members)
    allowed, read = _KINDS[kind]
    # A 0 counts as absent, like an empty string: some clients must send every member.
    for name, value in members.items():
        if name not in ("kind", "tz", *allowed) and value != 0:
            raise InvalidInput(
                f"schedule.{name} means nothing when schedule.kind is {kind}; leave it out."
            )
    return read(members, now_ms, rules)


def _read_kind(members: Members) -> str:
    kind = members.get("kind")
    if kind is None:
        raise InvalidInput("schedule.kind is missing; use at, every or cron.")
    if not isinstance(kind, str):
        raise InvalidInput("schedule.kind must be a string: at, every or cron.")
    word = kind.strip().lower()
    if word not in _KINDS:
        raise InvalidInput(f"schedule.kind cannot be {_quote(kind)}; use at, every or cron.")
    return word


def _read_at(members: Members, now_ms: int, rules: JobRules) -> At:
    at_ms, tz = _read_moment(members, now_ms, rules)
    if at_ms <= now_ms:
        raise InvalidInput(f"schedule.at is in the past; {_example(now_ms)}")
    return At(at_ms, tz)


def _read_every(members: Members, now_ms: int, rules: JobRules) -> Every:
    tz = _read_tz(members, rules)
    every_ms = members.get("every_ms")
    # Some clients write whole numbers as 60000.0.
    if isinstance(every_ms, float) and every_ms.is_integer():
        every_ms = int(every_ms)
    if (
        not isinstance(every_ms, int)
        or isinstance(every_ms, bool)
        or not rules.min_interval_ms <= every_ms <= YEAR_MS
    ):
        raise InvalidInput(
            f"schedule.every_ms must be a whole number of milliseconds, from "
            f"{rules.min_interval_ms} to {YEAR_MS} (366 days)."
        )
    anchor_ms = _read_moment(members | {"tz": tz}, now_ms, rules)[0] if "at" in members else now_ms
    if anchor_ms < 0:
        raise InvalidInput("schedule.at is before 1970; use a later time.")
    return Every(every_ms, anchor_ms)


def _read_cron(members: Members, now_ms: int, rules: JobRules) -> Cron:
    given = members.get("cron")
    if not isinstance(given, str):
        raise InvalidInput(
            'schedule.cron must be a string of 5 fields, such as "30 9 * * MON-FRI".'
        )
    cron = Cron(tidy(given), _read_tz(members, rules))
    dial = read_dial(cron.expression)
    if cron.expression.count(" ") == 5 and rules.min_interval_ms >= _MINUTE_MS:
        raise InvalidInput(
            f"schedule.cron has 6 fields, but jobs may not run more often than every "
            f"{rules.min_interval_ms} ms; remove the field for seconds."
        )
    if next_due(cron, now_ms, rules.cron_lookahead_days) is None:
        raise InvalidInput(
            f"schedule.cron is never due in the next {rules.cron_lookahead_days} days; "
            f"use another expression."
        )
    # Expressions have whole seconds: round up, so that no gap is too small.
    seconds = -(-rules.min_interval_ms // 1000)
    gap = dial.gap_below(seconds, now_ms // 1000 // DAY, rules.cron_lookahead_days)
    if gap is not None:
        raise InvalidInput(
            f"schedule.cron has times that are {gap} seconds apart, but jobs may not run more "
            f"often than every {rules.min_interval_ms} ms; choose fewer times."
        )
    return cron


_KINDS: dict[str, tuple[tuple[str, ...], Callable[[Members, int, JobRules], Schedule]]] = {
    "at": (("at",), _read_at),
    "every": (("every_ms", "at"), _read_every),
    "cron": (("cron",), _read_cron),
}


def _read_tz(members: Members, rules: JobRules) -> str:
    tz = members.get("tz")
    if tz is None:
        tz = rules.timezone
    if not isinstance(tz, str):
        raise InvalidInput(
            "schedule.tz must be a string, an IANA name such as Asia/Shanghai or UTC."
        )
    tz = tz.strip()
    find_zone(tz)
    return tz


def _read_moment(members: Members, now_ms: int, rules: JobRules) -> tuple[int, str]:
    """Read `at`; return the instant, and the zone to show it in if one was used."""
    tz = _read_tz(members, rules)
    # The zone is shown again only if it was given: an instant needs no zone.
    kept = tz if "tz" in members else ""
    given = members.get("at")
    # A number in quotes counts as a number.
    if isinstance(given, str) and _is_number(given.strip()):
        given = int(given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        return _check_range(_epoch_ms(given), now_ms), kept
    if not isinstance(given, str) or not _is_moment(given.strip()):
        raise InvalidInput(
            f"schedule.at must be a date and time in RFC 3339 format (without an offset it is "
            f"read in schedule.tz), or seconds or milliseconds since 1970; {_example(now_ms)}"
        )
    try:
        moment = datetime.fromisoformat(given.strip().upper())
    except ValueError:
        raise InvalidInput(f"schedule.at is not a real date and time; {_example(now_ms)}") from None
    if moment.tzinfo is not None:
        return _check_range((moment - _EPOCH) // _MS, now_ms), kept
    return _check_range(_local_ms(moment, tz, now_ms), now_ms), tz


def _epoch_ms(number: float) -> int:
    if not 0 <= number < _END_MS:
        raise InvalidInput("schedule.at, as a number, must be seconds or milliseconds since 1970.")
    return round(number * 1000) if number < _FIRST_IN_MS else round(number)


def _local_ms(moment: datetime, tz: str, now_ms: int) -> int:
    second, ms = divmod((moment - _NAIVE_EPOCH) // _MS, 1000)
    # A time far out of range is so in every zone, and some zones have no date for it.
    near = min(max(second, -LEAD), (now_ms + 2 * YEAR_MS) // 1000)
    return instant_of(near, find_zone(tz)) * 1000 + ms


def _check_range(at_ms: int, now_ms: int) -> int:
    if at_ms > now_ms + YEAR_MS:
        raise InvalidInput(f"schedule.at is more than 366 days ahead; {_example(now_ms)}")
    return at_ms


def _example(now_ms: int) -> str:
    return f"it is now {iso(now_ms)}, so in ten minutes it is {iso(now_ms + 10 * _MINUTE_MS)}."


def _wall_clock(now_ms: int, tz: str) -> datetime:
    second = now_ms // 1000
    return _NAIVE_EPOCH + timedelta(seconds=second + offset_at(second, find_zone(tz)))


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
