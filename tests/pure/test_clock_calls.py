"""The `clock` tool: its schema is strict, its reader lenient, its results compact JSON."""

import json
import re
import textwrap
from dataclasses import fields
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.clock.protocol import NtpState
from gateway.config.sections import ClockSection, LimitsSection, ModelSection, NtpSection
from gateway.reminders.clock_calls import (
    ACTIONS,
    DECLARATION,
    NAME,
    NEEDS_SESSION,
    Call,
    Cancel,
    ClearAll,
    Get,
    List,
    ReminderItem,
    Schedule,
    ToolError,
    describe_unknown_reminder,
    read_call,
    read_item,
    render_cleared,
    render_error,
    render_list,
    render_removed,
    render_scheduled,
    render_time,
)
from gateway.reminders.model import (
    Reminder,
    ReminderList,
    Rules,
    decode_reminders,
    encode_reminders,
)
from gateway.reminders.text import reminder_text, time_tag
from gateway.sessions.directives.model import ClearReminders, SetReminder
from gateway.sessions.directives.reader import read

NOW = 1_770_067_358_229
DUE = "2026-02-02T21:30:00Z"
LOS_ANGELES = ZoneInfo("America/Los_Angeles")
PAGE = Path(__file__).parents[2].joinpath("docs/clock.md").read_text()


def said(**members: Any) -> str:
    return json.dumps(members)


def items(*written: Any) -> str:
    return said(action="schedule", items=written, taskId="")


def refusal(arguments: str) -> ToolError:
    with pytest.raises(ToolError) as refused:
        read_call(arguments)
    assert refused.value.sentence == str(refused.value)
    assert refused.value.sentence.endswith(".")
    return refused.value


# The declaration


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object schema in a schema."""
    if isinstance(schema, list):
        return [found for part in schema for found in objects(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" else []
    return own + [found for part in schema.values() for found in objects(part)]


def test_the_schema_is_strict() -> None:
    found = objects(json.loads(DECLARATION.schema))
    assert len(found) == 2
    for schema in found:
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False
        assert "default" not in json.dumps(schema)


def test_the_schema_has_the_members_of_a_call() -> None:
    call, item = objects(json.loads(DECLARATION.schema))
    assert list(call["properties"]) == ["action", "items", "taskId"]
    assert list(item["properties"]) == ["dueAt", "task", "tool", "arguments"]
    assert call["properties"]["action"]["enum"] == list(ACTIONS)
    assert DECLARATION.name == NAME == "clock"


def test_everything_is_described() -> None:
    assert "[Time/Date]" in DECLARATION.description
    assert "[Clock Reminder]" in DECLARATION.description
    for schema in objects(json.loads(DECLARATION.schema)):
        assert all(member["description"] for member in schema["properties"].values())


def test_times_in_the_descriptions_can_be_scheduled() -> None:
    _, item = objects(json.loads(DECLARATION.schema))
    examples = re.findall(r"\d{4}-\S+\d", item["properties"]["dueAt"]["description"])
    instants = [example if "-08" in example else f"{example}Z" for example in examples]
    read = {read_item(at, "x", "", "", 1_769_000_000_000, Rules()).due_ms for at in instants}
    assert len(examples) == 2
    assert len(read) == 1


# Calls


@pytest.mark.parametrize(
    "action, call",
    [("get", Get()), ("list", List()), ("clear", ClearAll()), (" GET\n", Get()), ("List", List())],
)
def test_actions_without_more(action: str, call: Call) -> None:
    assert read_call(said(action=action)) == call
    assert read_call(said(action=action, items=[], taskId="")) == call
    assert read_call(said(action=action, items="none", taskId=7, why="so")) == call
    assert call.action == action.strip().lower()


def test_a_call_as_the_schema_wants_it() -> None:
    written = {"dueAt": DUE, "task": "call Ann", "tool": "phone", "arguments": '{"to":"Ann"}'}
    call = read_call(items(written))
    assert call == Schedule((ReminderItem(DUE, "call Ann", "phone", '{"to":"Ann"}'),))
    assert call.action == "schedule"


@pytest.mark.parametrize(
    "written, item",
    [
        ({"dueAt": DUE, "task": "x"}, ReminderItem(DUE, "x")),
        ({"dueAt": DUE, "task": "x", "tool": "", "arguments": ""}, ReminderItem(DUE, "x")),
        ({"dueAt": DUE, "task": "x", "tool": None, "arguments": None}, ReminderItem(DUE, "x")),
        ({"dueAt": f" {DUE} ", "task": " x ", "tool": " t "}, ReminderItem(DUE, "x", "t")),
        ({"dueAt": DUE, "task": "x", "arguments": " {} "}, ReminderItem(DUE, "x", "", "{}")),
        ({"dueAt": DUE, "task": "x", "arguments": {}}, ReminderItem(DUE, "x")),
        (
            {"dueAt": DUE, "task": "x", "arguments": {"a": "b"}},
            ReminderItem(DUE, "x", "", '{"a":"b"}'),
        ),
        (
            {"dueAt": DUE, "task": "x", "arguments": "no JSON"},
            ReminderItem(DUE, "x", "", "no JSON"),
        ),
        ({"dueAt": DUE, "task": "x", "more": [1]}, ReminderItem(DUE, "x")),
        ({}, ReminderItem("", "")),
    ],
)
def test_what_may_be_left_out_or_otherwise(written: dict[str, Any], item: ReminderItem) -> None:
    assert read_call(items(written)) == Schedule((item,))
    assert read_call(said(action="schedule", items=written)) == Schedule((item,))


def test_arguments_given_as_an_object_keep_their_values() -> None:
    number = "123456789012345678901234567890"
    text = f'{{"action":"schedule","items":[{{"task":"x","arguments":{{"a": [{number}, 1.10]}}}}]}}'
    call = read_call(text)
    assert isinstance(call, Schedule)
    assert number in call.items[0].arguments
    assert json.loads(call.items[0].arguments) == {"a": [int(number), 1.1]}


def test_several_items_keep_their_order() -> None:
    call = read_call(items({"task": "one"}, {"task": "two"}))
    assert call == Schedule((ReminderItem("", "one"), ReminderItem("", "two")))


def test_cancel() -> None:
    call = read_call(said(action="cancel", items=[], taskId=" t-1 "))
    assert call == Cancel("t-1")
    assert call.action == "cancel"


# Refusals


@pytest.mark.parametrize("action", ["set", "remind", "gett"])
def test_an_unknown_action_is_told_the_five(action: str) -> None:
    refused = refusal(said(action=action))
    assert refused.action == action
    assert refused.sentence == (
        f"No action is called '{action}'; use one of get, schedule, list, cancel, clear."
    )


@pytest.mark.parametrize("arguments", ["", " ", "{}", '{"action":null}', '{"action":["get"]}'])
def test_a_missing_action_too(arguments: str) -> None:
    refused = refusal(arguments)
    assert refused.action == ""
    assert refused.sentence == (
        "The action is missing; use one of get, schedule, list, cancel, clear."
    )


def test_an_endless_action_is_not_repeated_whole() -> None:
    assert len(refusal(said(action="x" * 10_000)).sentence) < 200


@pytest.mark.parametrize(
    "arguments",
    ['{"action":', "get", "null", "[]", '"get"', '{"action":"get"}}', "{'action':'get'}", "\ud800"],
)
def test_broken_json_is_told_what_to_send(arguments: str) -> None:
    refused = refusal(arguments)
    assert refused.action == ""
    assert refused.sentence.startswith("The arguments cannot be read: ")


def test_depth_is_no_danger() -> None:
    # From 3.14 on, Python reads as deep as its stack allows: 100,000 levels are read there.
    deep = "[" * 1_000_000 + "]" * 1_000_000
    assert "nested too deeply" in refusal(f'{{"action":"get","why":{deep}}}').sentence


@pytest.mark.parametrize(
    "written", [[5], ["x"], [{"dueAt": 5}], [{"task": {}}], [{"tool": 1}], [{"arguments": 1}], "x"]
)
def test_items_of_another_kind(written: Any) -> None:
    refused = refusal(said(action="schedule", items=written))
    assert refused.action == "schedule"
    assert refused.sentence.startswith("`items` cannot be read: Expected ")


@pytest.mark.parametrize("more", [{}, {"items": []}, {"items": None}])
def test_nothing_to_schedule(more: dict[str, Any]) -> None:
    refused = refusal(said(action="schedule", **more))
    assert refused.action == "schedule"
    assert refused.sentence.startswith("`items` is empty; ")


@pytest.mark.parametrize("more", [{}, {"taskId": " "}, {"taskId": None}, {"taskId": 5}])
def test_nothing_to_cancel(more: dict[str, Any]) -> None:
    refused = refusal(said(action="cancel", **more))
    assert refused.action == "cancel"
    assert "`taskId` is missing" in refused.sentence


@pytest.mark.parametrize("arguments", ["{", '{"action":"schedule"}'])
def test_the_example_in_a_refusal_can_be_sent(arguments: str) -> None:
    example = re.search(r"\{.*\}", refusal(arguments).sentence)
    assert example
    assert isinstance(read_call(example[0]), Schedule)


ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=6,
)
ANY_ITEM = st.dictionaries(
    st.sampled_from(["dueAt", "task", "tool", "arguments", "x"]), ANY_JSON, max_size=4
)
ANY_CALL = st.fixed_dictionaries(
    {},
    optional={
        "action": st.one_of(st.sampled_from(ACTIONS), ANY_JSON),
        "items": st.one_of(ANY_ITEM, st.lists(ANY_ITEM), ANY_JSON),
        "taskId": ANY_JSON,
    },
)


def never_worse_than_refused(arguments: str) -> None:
    try:
        call = read_call(arguments)
    except ToolError as refused:
        render_error(refused.action, refused.sentence).encode()
    else:
        assert call.action in ACTIONS


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


@given(st.text('\\ud8cef0{}[]":,actionge', max_size=60))
def test_broken_escapes_are_read_or_refused(text: str) -> None:
    never_worse_than_refused(text)
    never_worse_than_refused(f'{{"action":"{text}"}}')
    never_worse_than_refused(f'{{"action":"schedule","items":[{{"task":"{text}"}}]}}')


# Results


def task(**more: Any) -> Reminder:
    return Reminder("t-1", NOW, NOW - 2, NOW - 1, "call Ann", **more)


def test_the_time() -> None:
    ntp = NtpState("synced", -12, "time.example", 18, NOW - 5, "")
    text = render_time(NOW, LOS_ANGELES, "America/Los_Angeles", ntp)
    assert text == (
        '{"ok":true,"action":"get","active":true,"nowMs":1770067358229,'
        '"utc":"2026-02-02T21:22:38.229Z","local":"2026-02-02 13:22:38.229 -08:00",'
        '"timezone":"America/Los_Angeles","ntp":{"status":"synced","offsetMs":-12,'
        '"server":"time.example","rttMs":18,"lastSyncMs":1770067358224,"lastError":""}}'
    )


def test_the_time_without_time_servers() -> None:
    told = json.loads(render_time(NOW, UTC, "UTC", NtpState("disabled")))
    assert told["ntp"]["status"] == "disabled"
    assert told["ntp"]["rttMs"] is told["ntp"]["lastSyncMs"] is None


def test_what_was_scheduled() -> None:
    soon, late = task(), Reminder("t-2", NOW + 1, 0, 0, "提醒", "tool", "{}")
    assert render_scheduled((soon, late), lambda one: one is soon) == (
        '{"ok":true,"scheduled":['
        '{"taskId":"t-1","dueAt":"2026-02-02T21:22:38.229Z","task":"call Ann","delivery":"hold"},'
        '{"taskId":"t-2","dueAt":"2026-02-02T21:22:38.230Z","task":"提醒","delivery":"next_request"}'
        "]}"
    )


def test_what_there_is() -> None:
    done = task(tool="phone", arguments='{"to":"Ann"}', delivered_ms=NOW + 1, deliveries=1)
    assert render_list((task(), done)) == (
        '{"ok":true,"items":['
        '{"taskId":"t-1","dueAt":"2026-02-02T21:22:38.229Z","task":"call Ann","deliveryCount":0},'
        '{"taskId":"t-1","dueAt":"2026-02-02T21:22:38.229Z","task":"call Ann","tool":"phone",'
        '"arguments":{"to":"Ann"},"deliveredAt":"2026-02-02T21:22:38.230Z","deliveryCount":1}]}'
    )
    assert render_list(()) == '{"ok":true,"items":[]}'


def test_what_is_gone() -> None:
    assert render_removed("t-1") == '{"ok":true,"removed":"t-1"}'
    assert render_cleared(3) == '{"ok":true,"removedCount":3}'


def test_errors() -> None:
    assert render_error("schedule", "No.") == '{"ok":false,"action":"schedule","error":"No."}'
    told = json.loads(describe_unknown_reminder("x" * 1000).render())
    assert (told["ok"], told["action"]) == (False, "cancel")
    assert "action list" in told["error"]
    assert len(told["error"]) < 200
    assert NEEDS_SESSION.format(action="schedule").startswith(
        "clock.schedule needs a session id and"
    )


# The page for users says what the code does.


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block).rstrip("\n") for block in found]


def calls() -> list[Call]:
    return [read_call(text) for text in blocks("json") if text.startswith('{"action"')]


def test_every_action_is_shown_on_the_page() -> None:
    assert [call.action for call in calls()] == list(ACTIONS)


def results() -> list[str]:
    """The results on the page, written by the code."""
    ntp = NtpState("synced", -12, "time.google.com", 18, 1_770_066_000_000)
    call = calls()[1]
    assert isinstance(call, Schedule)
    (item,) = call.items
    wanted = read_item(item.due_at, item.task, item.tool, item.arguments, NOW, Rules())
    known = "5d0c3c0e-8a54-4c43-9d0e-0d6c2f0f3a11"
    tea = Reminder(known, wanted.due_ms, NOW, NOW, wanted.text, wanted.tool, wanted.arguments)
    shown = replace(tea, delivered_ms=NOW + 29_775, deliveries=1)
    with pytest.raises(ToolError) as refused:
        read_call(said(action="sleep"))
    return [
        render_time(NOW, LOS_ANGELES, "America/Los_Angeles", ntp),
        render_scheduled((tea,), lambda _: True),
        render_list((shown,)),
        render_removed(known),
        render_cleared(3),
        render_error(refused.value.action, refused.value.sentence),
    ]


def test_the_results_on_the_page_are_those_given() -> None:
    page = [json.loads(text) for text in blocks("json") if text.startswith('{"ok"')]
    assert page == [json.loads(text) for text in results()]


def test_the_document_on_the_page_can_be_read() -> None:
    (document,) = [json.loads(text) for text in blocks("json") if text.startswith('{"version"')]
    (kept,) = decode_reminders(document).items
    assert encode_reminders(ReminderList((kept,))) == {
        "tasks": [{**document["tasks"][0], "arguments": msgspec.Raw(b'{"to":"ann"}')}]
    }


def test_the_messages_on_the_page_are_those_sent() -> None:
    reminder, tag = [text for text in blocks("text") if text.startswith("[")]
    assert tag == time_tag(NOW, LOS_ANGELES, "America/Los_Angeles", -12)
    due = Reminder(
        "t", NOW + 89_771, 0, 0, 'Ask Ann for the "big" report.', "send_mail", '{"to":"ann"}'
    )
    assert reminder == reminder_text((due,), standard_tools=False)


def test_the_directives_on_the_page_are_read() -> None:
    written = re.findall(r"^\| `(<\*\*clock.+?\*\*>)` \|", PAGE, re.MULTILINE)
    found = [item.directive for text in written for item in read(text, ()).directives]
    assert [type(directive) for directive in found] == [SetReminder, ClearReminders]
    assert isinstance(found[0], SetReminder)
    read_item(found[0].time, found[0].message, "", "", NOW, Rules())


def test_the_keys_on_the_page_exist() -> None:
    sections = {"clock": ClockSection, "limits": LimitsSection, "models": ModelSection}
    known = {f"{name}.{f.name}" for name, kind in sections.items() for f in fields(kind)}
    known |= {f"clock.ntp.{f.name}" for f in fields(NtpSection)}
    named = set(re.findall(r"`((?:clock|limits|models)\.[a-z_.]+)", PAGE))
    assert named - known == set()
    assert {key for key in known if key.startswith("clock.")} - named == {
        "clock.ntp",
    }
