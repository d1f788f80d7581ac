"""Reads requests for jobs from JSON: a new job, or changes of a job.

A job may be written flat, `{"name": …, "message": …}`, or within `job`, its message also within
`payload`. A member that is null counts as absent. A job that was shown may be sent back as it is:
members that only the gateway sets are ignored. Every other member is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from gateway.errors import InvalidInput
from gateway.jobs.model import Draft, JobRules, Patch, SessionMode
from gateway.jobs.schedule.model import Every, Schedule
from gateway.jobs.schedule.reader import LONGEST_TEXT as LONGEST_SCHEDULE
from gateway.jobs.schedule.reader import ScheduleRequest, read_schedule
from gateway.timestamps import Timestamp

Members = Mapping[str, object]
D = TypeVar("D")

LONGEST_MESSAGE = 16_384
LONGEST_NAME = 128
DEFAULT_NAME = 24
LONGEST_TEXT = 256
LONGEST_SHOWN = 60

JobId = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
_Message = Annotated[str, Meta(min_length=1, max_length=LONGEST_MESSAGE)]
_Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]


class PayloadRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a job is to send, where a job that was shown has it."""

    message: Annotated[_Message | None, Meta(description="Another place for it.")] = None


class JobRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A job as it may be written; a member that is null is as good as absent."""

    name: Annotated[str, Meta(max_length=LONGEST_NAME)] | None = None
    schedule: ScheduleRequest | None = None
    schedule_text: Annotated[
        Annotated[str, Meta(max_length=LONGEST_SCHEDULE)] | None,
        Meta(description="Such as `every 5 minutes` or `weekdays at 18:30`."),
    ] = None
    session: SessionMode | None = None
    message: Annotated[_Message | None, Meta(description="What is sent when it is time.")] = None
    payload: PayloadRequest | None = None
    enabled: bool | None = None
    delete_after_run: bool | None = None
    dedupe_key: Annotated[
        _Text | None, Meta(description="A known one has that job changed instead.")
    ] = None
    model: Annotated[_Text | None, Meta(description="For a relay session.")] = None
    session_id: Annotated[_Text | None, Meta(description="Which session it belongs to.")] = None
    agent_id: Annotated[_Text | None, Meta(description="Which agent it belongs to, if any.")] = None


class JobChange(JobRequest, kw_only=True):
    """What is to change about a job; what only we can say of it is passed over."""

    job_id: JobId
    user_id: Any = None
    next_run_at: Any = None
    running_at: Any = None
    run_due_at: Any = None
    last_run_at: Any = None
    last_status: Any = None
    last_error: Any = None
    consecutive_failures: Any = None
    disabled_reason: Any = None
    created_at: Any = None
    updated_at: Any = None
    state: Any = None
    words: Any = None
    next_times: Any = None
    last_runs: Any = None
    retry_at: Any = None
    waits_ms: Any = None
    if_updated_at: Annotated[
        Timestamp | None,
        Meta(description="Change it only if `updated_at` is still this; else 409 with the job."),
    ] = None


class PreviewRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When a job would be due: in words, or as a schedule."""

    when: Annotated[
        Annotated[str, Meta(max_length=LONGEST_SCHEDULE)] | None,
        Meta(description="As `schedule_text`: words, a cron expression, or an interval."),
    ] = None
    schedule: ScheduleRequest | None = None
    tz: Annotated[
        str | None, Meta(description="The zone, if neither the words nor the schedule name one.")
    ] = None


class JobName(msgspec.Struct, forbid_unknown_fields=True):
    """Which job is meant; what else a job has may be sent along."""

    job_id: JobId


# The id comes first in lists of members; in a new job it can only be refused.
SETTABLE = ("job_id", *JobRequest.__struct_fields__)
CONDITION = "if_updated_at"
OURS = frozenset(JobChange.__struct_fields__).difference((*SETTABLE, CONDITION))
SESSION_MODES: Mapping[str, SessionMode] = {"main": "main", "isolated": "isolated"}

_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
# Characters that no store of rows and no JSON text can contain.
_broken = re.compile(r"[\x00\ud800-\udfff]")
# A name is one line, so everything that a reader may take for a line end is replaced.
_breaks = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def read_draft(given: Members, now_ms: int, rules: JobRules) -> Draft:
    """Read a new job, or raise `InvalidInput`."""
    members = _check_members(given)
    message = _message(members)
    if message is None:
        raise InvalidInput("message is missing; say what to send when the job is due.")
    return Draft(
        schedule=read_schedule(
            _object(members, "schedule"), _text(members, "schedule_text", ""), now_ms, rules
        ),
        message=message,
        name=_name(members, "") or default_name(message),
        session_mode=_session_mode(members, "main"),
        enabled=_truth(members, "enabled", True),
        delete_after_run=_truth(members, "delete_after_run", False),
        dedupe_key=_text(members, "dedupe_key", ""),
        model=_text(members, "model", ""),
        job_id=_text(members, "job_id", ""),
        session_id=_text(members, "session_id", ""),
        agent_id=_text(members, "agent_id", ""),
    )


def read_patch(given: Members) -> Patch:
    """Read the changes of a job, or raise `InvalidInput`."""
    members = _check_members(given, CONDITION)
    return Patch(
        job_id=_job_id(members),
        schedule=_object(members, "schedule"),
        schedule_text=_text(members, "schedule_text", ""),
        message=_message(members),
        name=_name(members, None),
        session_mode=_session_mode(members, None),
        enabled=_truth(members, "enabled", None),
        delete_after_run=_truth(members, "delete_after_run", None),
        dedupe_key=_text(members, "dedupe_key", None),
        model=_text(members, "model", None),
        session_id=_text(members, "session_id", None),
        agent_id=_text(members, "agent_id", None),
        if_updated_ms=_instant_ms(members, CONDITION),
    )


def read_preview(given: Members, now_ms: int, rules: JobRules) -> tuple[Schedule, str]:
    """Read the schedule that `add` would read, and the zone to show it in."""
    members = flat(given)
    known = PreviewRequest.__struct_fields__
    _refuse_others(members, known, "A preview", known)
    asked = dict(_object(members, "schedule"))
    tz = _text(members, "tz", "")
    text = _text({"schedule_text": members.get("when")}, "schedule_text", "")
    if tz and not asked.get("tz"):
        asked["tz"] = tz
    schedule = read_schedule(asked, text, now_ms, rules)
    if isinstance(schedule, Every):
        return schedule, tz or rules.timezone
    return schedule, schedule.tz or tz or rules.timezone


def read_job_id(given: Members) -> str:
    """Read which job is meant and ignore other members, or raise `InvalidInput`."""
    return _job_id(flat(given))


def flat(given: Members) -> dict[str, object]:
    """Return the members of a job that is written flat or within `job`; those within `job` win."""
    nested = _object(given, "job")
    members = {**given, **{name: value for name, value in nested.items() if value is not None}}
    return {name: value for name, value in members.items() if value is not None and name != "job"}


def default_name(message: str) -> str:
    """Return the default name of a job: the beginning of its message."""
    return _breaks.sub(" ", message[:DEFAULT_NAME])


def _check_members(given: Members, *also: str) -> Members:
    members = flat(given)
    _refuse_others(members, (*SETTABLE, *OURS, *also), "A job", SETTABLE)
    return members


def _refuse_others(
    members: Members, known: Container[str], what: str, settable: Iterable[str]
) -> None:
    odd = next((name for name in members if name not in known), None)
    if odd is not None:
        raise InvalidInput(
            f"{what} has no member '{odd[:LONGEST_SHOWN]}'; it may have {', '.join(settable)}."
        )


def _job_id(members: Members) -> str:
    job_id = _text(members, "job_id", "")
    if not job_id:
        raise InvalidInput("job_id is missing; use one that list shows.")
    return job_id


def _message(members: Members) -> str | None:
    payload = _object(members, "payload")
    _refuse_others(payload, ("message",), "payload", ("message",))
    within = payload.get("message") is not None
    message = _text(payload if within else members, "message", None, LONGEST_MESSAGE)
    if message == "":
        raise InvalidInput("message is empty; say what to send when the job is due.")
    return message


def _name(members: Members, default: D) -> str | D:
    name = _text(members, "name", default, LONGEST_NAME)
    return _breaks.sub(" ", name) if isinstance(name, str) else name


def _text(members: Members, name: str, default: D, most: int = LONGEST_TEXT) -> str | D:
    value = members.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string, not {_kind(value)}.")
    text = value.strip()
    if _broken.search(text):
        raise InvalidInput(f"{name} contains an invalid character; remove it.")
    if len(text) > most:
        raise InvalidInput(
            f"{name} has {len(text)} characters; make it shorter, at most {most} characters."
        )
    return text


def _instant_ms(members: Members, name: str) -> int | None:
    text = _text(members, name, "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return (moment - _EPOCH) // _MS
    except ValueError:
        pass
    raise InvalidInput(f"{name} must be a time as updated_at shows it, in RFC 3339 format.")


def _truth(members: Members, name: str, default: D) -> bool | D:
    value = members.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false, not {_kind(value)}.")
    return value


def _object(members: Members, name: str) -> Members:
    value = members.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be an object, not {_kind(value)}; {_EXAMPLES[name]}.")
    return value


_EXAMPLES = {
    "job": 'put the job\'s members into it, such as "name" and "message"',
    "payload": 'send for instance {"message":"Summarise the news."}',
    "schedule": 'send for instance {"kind":"every","every_ms":3600000}, '
    "or say it in words in schedule_text",
}


def _session_mode(members: Members, default: D) -> SessionMode | D:
    text = _text(members, "session", None)
    if text is None:
        return default
    if text not in SESSION_MODES:
        raise InvalidInput(
            "session must be 'main', to continue the conversation, or 'isolated', to start a new "
            "one."
        )
    return SESSION_MODES[text]


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "that")
