"""The `schedule_task` tool: its schema is helpful, its reader lenient, its results compact JSON."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.errors import InvalidInput
from gateway.jobs.lifecycle import make_job
from gateway.jobs.model import Job, JobRules
from gateway.jobs.reader import SETTABLE, read_draft, read_job_id, read_patch
from gateway.jobs.schedule.model import Cron, Every
from gateway.jobs.tool_calls import (
    ACTIONS,
    DECLARATION,
    IN_A_RUN,
    NAME,
    NEEDS_SESSION,
    SENTENCE,
    ScheduleTaskCall,
    describe_unknown_job,
    read_call,
    render_job,
    render_jobs,
    render_removal,
    render_status,
)
from gateway.jobs.view import SchedulerStatus, count_jobs, summarize_job
from gateway.reminders.clock_calls import ToolError, render_error

NOW = 1_770_067_358_229
RULES = JobRules()
HOURLY = {"kind": "every", "every_ms": 3_600_000}
SCHEMA = json.loads(DECLARATION.schema)


def said(**members: Any) -> str:
    return json.dumps(members)


def members(**given: Any) -> dict[str, object]:
    return dict(read_call(said(action="add", **given)).members)


def refusal(arguments: str) -> ToolError:
    with pytest.raises(ToolError) as refused:
        read_call(arguments)
    assert refused.value.sentence.endswith(".")
    return refused.value


# The declaration


def test_its_name_and_what_it_is_for() -> None:
    assert DECLARATION.name == NAME == "schedule_task"
    assert not DECLARATION.strict
    assert "reminders and recurring tasks" in DECLARATION.description
    assert "reminders and recurring tasks" in SENTENCE
    assert NAME in SENTENCE
    assert SENTENCE.count(".") == 1


def test_the_schema_has_both_forms() -> None:
    properties = SCHEMA["properties"]
    flat = [
        "job_id",
        "name",
        "schedule",
        "schedule_text",
        "session",
        "message",
        "enabled",
        "delete_after_run",
        "dedupe_key",
    ]
    assert list(properties) == ["action", *flat, "job"]
    assert list(properties["job"]["properties"]) == [*flat, "payload"]
    assert list(properties["schedule"]["properties"]) == ["kind", "at", "every_ms", "cron", "tz"]
    assert properties["job"]["properties"]["payload"]["properties"].keys() == {"message"}
    assert properties["action"]["enum"] == list(ACTIONS)
    assert SCHEMA["required"] == ["action"]


def test_all_that_is_declared_can_be_set() -> None:
    assert SCHEMA["properties"].keys() - {"action", "job"} <= set(SETTABLE)
    assert SCHEMA["properties"]["job"]["properties"].keys() <= set(SETTABLE)


def test_everything_is_described_once() -> None:
    properties = SCHEMA["properties"]
    assert all(part["description"] for part in properties.values())
    assert all(part["description"] for part in properties["schedule"]["properties"].values())
    within = properties["job"]["properties"]
    assert "description" not in json.dumps(within)
    for name in within.keys() & properties.keys():
        assert within[name]["type"] == properties[name]["type"]
        assert within[name].get("enum") == properties[name].get("enum")
    assert within["schedule"]["properties"].keys() == properties["schedule"]["properties"].keys()


def draft_of(**given: Any) -> Any:
    return read_draft(members(message="x", **given), NOW, RULES)


def test_what_the_descriptions_say_can_be_sent() -> None:
    properties = SCHEMA["properties"]
    words = re.findall(r"'([^']+)'", properties["schedule_text"]["description"])
    assert len(words) == 4
    for text in words:
        assert draft_of(schedule_text=text).schedule
    parts = properties["schedule"]["properties"]
    (at,) = re.findall(r"e\.g\. (\S+)\.", parts["at"]["description"])
    assert draft_of(schedule={"kind": "at", "at": at})
    (cron,) = re.findall(r"e\.g\. (.+)\.", parts["cron"]["description"])
    (tz,) = re.findall(r"e\.g\. (\S+)\.", parts["tz"]["description"])
    assert draft_of(schedule={"kind": "cron", "cron": cron, "tz": tz}).schedule == Cron(cron, tz)
    (every,) = re.findall(r"e\.g\. (\d+) for an hour", parts["every_ms"]["description"])
    assert draft_of(schedule={"kind": "every", "every_ms": int(every)}).schedule == Every(
        3_600_000, NOW
    )


# Calls


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action(action: str) -> None:
    assert read_call(said(action=action)) == ScheduleTaskCall(action, {})
    assert read_call(said(action=f" {action.upper()}\n")) == ScheduleTaskCall(action, {})
    assert read_call(said(action=action, job_id="j-1")) == ScheduleTaskCall(
        action, {"job_id": "j-1"}
    )
    assert read_call(said(action=action, job={"job_id": "j-1"})) == ScheduleTaskCall(
        action, {"job_id": "j-1"}
    )


FULL: dict[str, Any] = {
    "job_id": "j-1",
    "name": "mail",
    "schedule": HOURLY,
    "session": "isolated",
    "payload": {"message": "Look."},
    "enabled": False,
    "delete_after_run": True,
    "dedupe_key": "m",
}


@pytest.mark.parametrize(
    "given",
    [
        FULL,
        {"job": FULL},
        {"job": json.dumps(FULL)},
        {"job": {**FULL, "schedule": json.dumps(HOURLY)}},
        {"job": {**FULL, "payload": '{"message": "Look."}'}},
        {**FULL, "schedule": f" {json.dumps(HOURLY)} "},
        {**FULL, "schedule_text": "", "message": None, "model": " "},
        {**FULL, "schedule": {**HOURLY, "at": "", "cron": None, "tz": ""}},
        {**FULL, "job": {}},
        {**FULL, "job": None},
        {**FULL, "job": ""},
        {**FULL, "name": " mail "},
    ],
)
def test_every_form_means_the_same(given: dict[str, Any]) -> None:
    assert members(**given) == FULL


@pytest.mark.parametrize(
    "given, becomes",
    [
        ({"schedule": "every 5 minutes"}, {"schedule_text": "every 5 minutes"}),
        ({"job": {"schedule": " daily at 9am"}}, {"schedule_text": "daily at 9am"}),
        ({"payload": "Look."}, {"message": "Look."}),
        ({"job": {"payload": "Look."}}, {"message": "Look."}),
        ({"job": "j-1"}, {"job_id": "j-1"}),
        ({"schedule": "{broken"}, {"schedule": "{broken"}),
        ({"schedule": '{"a":"\\ud800"}'}, {"schedule": '{"a":"\\ud800"}'}),
        ({"schedule": {}, "payload": {}, "enabled": False}, {"enabled": False}),
        ({"schedule": {"at": None}}, {}),
    ],
)
def test_what_stands_for_something_else(given: dict[str, Any], becomes: dict[str, object]) -> None:
    assert members(**given) == becomes


def test_depth_in_a_text_is_no_danger() -> None:
    deep = '{"a":' * 100_000 + "}" * 100_000
    assert members(schedule=deep) == {"schedule": deep}


def job(**more: Any) -> Job:
    draft = read_draft({"schedule": HOURLY, "message": "Look."}, NOW, RULES)
    return replace(make_job(draft, "j-1", "me", "s-1", "", NOW, RULES), **more)


def test_what_was_shown_can_be_sent_back() -> None:
    shown = json.loads(render_job("get", job(last_status="ok", last_run_ms=NOW)))["job"]
    assert read_patch(read_call(said(action="update", **shown)).members).name == "Look."
    assert read_patch(read_call(said(action="update", job=shown)).members).job_id == "j-1"


# Refusals


@pytest.mark.parametrize("action", ["create", "delete", "ad"])
def test_an_unknown_action_is_told_those_there_are(action: str) -> None:
    refused = refusal(said(action=action))
    assert refused.action == action
    assert refused.sentence == (
        f"No action is called '{action}'; use one of add, update, remove, enable, disable, get, "
        "list, run, status."
    )


@pytest.mark.parametrize("arguments", ["", " ", "{}", '{"action":null}', '{"action":["add"]}'])
def test_a_missing_action_too(arguments: str) -> None:
    refused = refusal(arguments)
    assert refused.action == ""
    assert refused.sentence.startswith("The action is missing; use one of add, ")


def test_an_endless_action_is_not_repeated_whole() -> None:
    assert len(refusal(said(action="x" * 10_000)).sentence) < 200


@pytest.mark.parametrize(
    "arguments",
    ['{"action":', "add", "null", "[]", '"add"', '{"action":"add"}}', "\ud800", "[" * 100_000],
)
def test_broken_json_is_told_what_to_send(arguments: str) -> None:
    refused = refusal(arguments)
    assert refused.action == ""
    assert refused.sentence.startswith("The arguments cannot be read: ")
    example = re.search(r"\{.*\}", refused.sentence)
    assert example
    call = read_call(example[0])
    assert read_draft(call.members, NOW, RULES).schedule == Every(300_000, NOW)


def test_depth_is_no_danger() -> None:
    deep = '{"a":' * 100_000 + "}" * 100_000
    assert "nested too deeply" in refusal(f'{{"action":"add","job":{deep}}}').sentence


@pytest.mark.parametrize("value", [5, ["j-1"], True, "{broken"])
def test_a_job_of_another_kind(value: object) -> None:
    refused = refusal(said(action="add", job=value))
    assert refused.action == "add"
    assert refused.sentence.startswith("job must be an object, not ")


ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=6,
)
ANY_JOB = st.dictionaries(st.sampled_from([*SETTABLE, "x"]), ANY_JSON, max_size=4)
ANY_CALL = st.builds(
    lambda action, job, nested: {"action": action, **job, **nested},
    st.one_of(st.sampled_from(ACTIONS), ANY_JSON),
    ANY_JOB,
    st.one_of(st.just({}), st.fixed_dictionaries({"job": st.one_of(ANY_JOB, ANY_JSON)})),
)


def never_worse_than_refused(arguments: str) -> None:
    try:
        call = read_call(arguments)
    except ToolError as refused:
        render_error(refused.action, refused.sentence).encode()
        return
    assert call.action in ACTIONS
    try:
        read_job_id(call.members)
    except InvalidInput as invalid:
        render_error(call.action, str(invalid)).encode()


@given(st.one_of(ANY_CALL, ANY_JSON))
def test_any_json_is_read_or_refused(value: Any) -> None:
    never_worse_than_refused(json.dumps(value))
    never_worse_than_refused(json.dumps(value, ensure_ascii=False))


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_any_text_is_read_or_refused(text: str) -> None:
    never_worse_than_refused(text)


@given(ANY_CALL, st.integers(0, 200))
def test_json_cut_anywhere_is_read_or_refused(value: Any, cut: int) -> None:
    never_worse_than_refused(json.dumps(value)[:cut])


@given(st.text('\\ud8cef0{}[]":,job', max_size=60))
def test_broken_escapes_are_read_or_refused(text: str) -> None:
    never_worse_than_refused(f'{{"action":"{text}"}}')
    never_worse_than_refused(f'{{"action":"add","job":"{text}"}}')
    never_worse_than_refused(f'{{"action":"add","schedule":"{{{text}"}}')


# Results


def test_a_job() -> None:
    assert render_job("add", job()) == (
        '{"ok":true,"action":"add","job":{"job_id":"j-1","name":"Look.","enabled":true,'
        '"schedule":{"kind":"every","at":"2026-02-02T21:22:38.229Z","every_ms":3600000},'
        '"next_run_at":"2026-02-02T22:22:38.229Z","last_run_at":null,"last_status":null}}'
    )


def test_what_was_done_with_it() -> None:
    assert json.loads(render_job("add", job(), deduped=True))["deduped"] is True
    assert json.loads(render_job("run", job(), queued=True))["queued"] is True
    busy = json.loads(render_job("run", job(), queued=False, reason="running"))
    assert (busy["ok"], busy["queued"], busy["reason"]) == (True, False, "running")
    assert busy["job"] == summarize_job(job())


def test_several_jobs_or_none() -> None:
    assert json.loads(render_jobs([job(), job(enabled=False)])) == {
        "ok": True,
        "action": "list",
        "jobs": [summarize_job(job()), summarize_job(job(enabled=False))],
    }
    assert render_jobs([]) == '{"ok":true,"action":"list","jobs":[]}'


def test_what_is_gone() -> None:
    assert render_removal("j-1") == '{"ok":true,"action":"remove","removed":"j-1"}'


OFF = SchedulerStatus(enabled=False, state="off")


def test_how_it_stands() -> None:
    assert json.loads(render_status(OFF, count_jobs([job()]))) == {
        "ok": True,
        "action": "status",
        "scheduler": {"enabled": False, "state": "off"},
        "jobs": {
            "total": 1,
            "enabled": 1,
            "running": 0,
            "next_run_at": "2026-02-02T22:22:38.229Z",
        },
    }


def test_errors() -> None:
    assert render_error("add", IN_A_RUN) == f'{{"ok":false,"action":"add","error":"{IN_A_RUN}"}}'
    wrong = json.loads(describe_unknown_job("get", "x" * 1000).render())
    assert (wrong["ok"], wrong["action"]) == (False, "get")
    assert "action list" in wrong["error"]
    assert len(wrong["error"]) < 200
    assert NEEDS_SESSION.startswith("schedule_task needs a session id and")
