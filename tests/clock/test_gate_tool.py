"""The tool `clock`, seen from outside: by the upstream's log, the client's bytes, the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from gateway.clock.protocol import NtpState
from tests.clock.words import (
    MINUTE,
    NOW,
    Call,
    Said,
    clock,
    function,
    heard,
    ids,
    item,
    message,
    play,
    reminders,
    says,
    sent,
    told,
    tools,
)
from tests.gateway.wire import DONE, event, in_turn
from tests.run import Running, in_process
from tests.sessions.talk import SESSION, Message, kept, messages, talk
from tests.stores.mounts import read_only
from tests.wire.fake import CHUNKED, LAST, chunk, once

SYNCED = NtpState("synced", -12, "time.example", 18, NOW - MINUTE)
SOON = "2026-02-02T21:32:38.229Z"
"""In ten minutes: too far for a hold."""
NAMED = "x-request-id: r"

both_forms = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


async def exchange(gate: Running, stream: bool, *headers: str) -> Said:
    """Ask something, and return what the client heard."""
    return heard(await gate.ask(talk("hi", stream=stream), NAMED, *headers))


async def answer_to(call: Call, *headers: str, **settings: Any) -> Message:
    """Return what a model is told that made this call; the chat goes on after it."""
    story = play(says("", call), says("I see."))
    async with in_process(story, clock=ManualClock(NOW), **settings) as gate:
        assert await exchange(gate, True, *headers) == says("I see.", finish="stop")
        _, followed = gate.requests
    return told(json.loads(followed.body))


@both_forms
async def test_a_model_asks_for_the_time(stream: bool) -> None:
    call = clock("get", ident="call_7")
    story = play(says("Let me see.", call), says("It is half past nine."))
    at = ManualClock(NOW, SYNCED)
    async with in_process(story, clock=at, clock__timezone="America/Los_Angeles") as gate:
        answer = await exchange(gate, stream)
        first, followed = gate.requests
    assert answer == says("Let me see.\n\nIt is half past nine.", finish="stop")
    assert ids([first, followed]) == ["r", "r:clock_followup"]
    *asked, called, returned = messages(followed)
    assert asked == messages(first)
    assert called == message(says("Let me see.", call))
    assert returned["tool_call_id"] == "call_7"
    assert json.loads(returned["content"]) == {
        "ok": True,
        "action": "get",
        "active": True,
        "nowMs": NOW,
        "utc": "2026-02-02T21:22:38.229Z",
        "local": "2026-02-02 13:22:38.229 -08:00",
        "timezone": "America/Los_Angeles",
        "ntp": {
            "status": "synced",
            "offsetMs": -12,
            "server": "time.example",
            "rttMs": 18,
            "lastSyncMs": NOW - MINUTE,
            "lastError": "",
        },
    }


async def test_the_tool_is_offered_after_the_clients_own() -> None:
    async with in_process(play(says("Fine.")), clock=ManualClock(NOW)) as gate:
        for offered in (None, [], [function("look")]):
            await gate.ask(talk("hi", tools=offered))
        await gate.ask(talk("hi"))
        asked = [json.loads(request.body)["tools"] for request in gate.requests]
    ours = asked[0][0]["function"]
    assert [tools(request) for request in gate.requests] == [
        ["clock"],
        ["clock"],
        ["look", "clock"],
        ["clock"],
    ]
    assert asked[2][0] == function("look")
    assert ours["strict"] is True
    schema = ours["parameters"]
    assert schema["required"] == ["action", "items", "taskId"] == list(schema["properties"])
    of_item = schema["properties"]["items"]["items"]
    assert of_item["required"] == ["dueAt", "task", "tool", "arguments"]
    assert schema["additionalProperties"] is of_item["additionalProperties"] is False
    assert schema["properties"]["action"]["enum"] == ["get", "schedule", "list", "cancel", "clear"]


@both_forms
async def test_a_reminder_is_on_disk_before_the_model_hears_of_it(
    stream: bool, tmp_path: Path
) -> None:
    """The upstream itself looks, at the moment when it is told."""
    seen: list[tuple[Message, Message]] = []

    def look(asked: Message) -> Said:
        seen.append((told(asked), reminders(tmp_path)))
        return says("I will.")

    wanted = item("2026-02-02T13:32:38.229-08:00", "Call Ann.", "phone", '{ "to": "ann" }')
    story = play(says("", clock("schedule", wanted)), look)
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        assert await exchange(gate, stream, SESSION) == says("I will.", finish="stop")
    ((answered, file),) = seen
    (task,) = file["tasks"]
    assert answered == {
        "ok": True,
        "scheduled": [
            {
                "taskId": task["taskId"],
                "dueAt": SOON,
                "task": "Call Ann.",
                "delivery": "next_request",
            }
        ],
    }
    assert file == {
        "version": 1,
        "owner": "local",
        "sessionId": "s",
        "tasks": [
            {
                "taskId": task["taskId"],
                "sessionId": "s",
                "dueAtMs": NOW + 10 * MINUTE,
                "createdAtMs": NOW,
                "updatedAtMs": NOW,
                "task": "Call Ann.",
                "tool": "phone",
                "arguments": {"to": "ann"},
                "deliveryCount": 0,
            }
        ],
        "updatedAtMs": NOW,
    }


async def test_what_is_due_at_once_names_the_exchange_that_must_not_deliver_it(
    tmp_path: Path,
) -> None:
    near = item("2026-02-02T21:23:38Z", "now")
    far = item("2026-02-02T21:23:38.230Z", "later")
    story = play(says("", clock("schedule", near, far)), says("I will."))
    off = "x-holdgate-hold: off"
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        await exchange(gate, True, SESSION, off)
        guarded, free = reminders(tmp_path)["tasks"]
        told_now = told(json.loads(gate.requests[1].body))
        await exchange(gate, True, SESSION, off)
    assert guarded["notBeforeRequestId"].startswith("req_")
    assert "notBeforeRequestId" not in free
    assert [task["delivery"] for task in told_now["scheduled"]] == ["next_request"] * 2
    # Another exchange with the same request id delivers the first at once, and not yet the other.
    delivered, waiting = reminders(tmp_path)["tasks"]
    assert (delivered["deliveredAtMs"], delivered["deliveryCount"]) == (NOW, 1)
    assert "deliveredAtMs" not in waiting


@both_forms
async def test_list_cancel_and_clear(stream: bool, tmp_path: Path) -> None:
    answers: list[Message] = []

    def then(answer: Callable[[], Said]) -> Callable[[Message], Said]:
        def act(asked: Message) -> Said:
            answers.append(told(asked))
            return answer()

        return act

    def cancel_the_first() -> Said:
        return says("", clock("cancel", task_id=answers[-1]["items"][0]["taskId"]))

    wanted = [item(SOON, "tea"), item(SOON, "rice", "stove", '{"level":0}')]
    story = play(
        says("", clock("schedule", *wanted)),
        then(lambda: says("", clock("list"))),
        then(cancel_the_first),
        then(lambda: says("", clock("list"))),
        then(lambda: says("", clock("clear"))),
        then(lambda: says("", clock("list"))),
        then(lambda: says("Done.")),
    )
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        assert await exchange(gate, stream, SESSION) == says("Done.", finish="stop")
        asked = ids(gate.requests)
    scheduled, listed, removed, one_left, cleared, none_left = answers
    tea, rice = (task["taskId"] for task in scheduled["scheduled"])
    stove = {"tool": "stove", "arguments": {"level": 0}}
    both = [
        {"taskId": tea, "dueAt": SOON, "task": "tea", "deliveryCount": 0},
        {"taskId": rice, "dueAt": SOON, "task": "rice", **stove, "deliveryCount": 0},
    ]
    assert listed == {"ok": True, "items": both}
    assert removed == {"ok": True, "removed": tea}
    assert one_left == {"ok": True, "items": both[1:]}
    assert cleared == {"ok": True, "removedCount": 1}
    assert none_left == {"ok": True, "items": []}
    assert not tmp_path.joinpath("clock", "s.json").exists()
    assert asked == ["r", "r:clock_followup", *(f"r:clock_followup.{n}" for n in range(2, 7))]


async def test_several_calls_of_one_turn_are_answered_in_their_order(tmp_path: Path) -> None:
    calls = (clock("schedule", item(SOON, "tea")), clock("list", ident="call_2"))
    story = play(says("", *calls), says("Done."))
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        await exchange(gate, True, SESSION)
        _, followed = gate.requests
    called, scheduled, listed = messages(followed)[-3:]
    assert called == message(says("", *calls))
    assert [one["tool_call_id"] for one in (scheduled, listed)] == ["call_1", "call_2"]
    assert len(json.loads(listed["content"])["items"]) == 1
    assert ids([followed]) == ["r:clock_followup"]


async def test_the_same_reminder_again_is_the_same_one(tmp_path: Path) -> None:
    same = item("2026-02-02T22:32:38.229+01:00", " tea ", arguments="")
    story = play(says("", clock("schedule", item(SOON, "tea"))), says("", clock("schedule", same)))
    settings = {"limits__turns": 2, **kept(tmp_path)}
    async with in_process(story, clock=ManualClock(NOW), **settings) as gate:
        await exchange(gate, True, SESSION)
        first, second = (json.loads(request.body) for request in gate.requests[1:])
    assert told(first)["scheduled"][0]["taskId"] == told(second)["scheduled"][0]["taskId"]
    assert len(reminders(tmp_path)["tasks"]) == 1


CLOCK_TIME = "it is now 2026-02-02T21:22:38.229Z, so in ten minutes it is 2026-02-02T21:32:38.229Z"
BAD_TIMES = (
    "2026-02-03T10:00:00",
    "2026-02-03",
    "2026-W06-2T10:00:00Z",
    "2026-02-29T10:00:00Z",
    "2026-02-03T24:00:00Z",
    "2028-01-01T00:00:00Z",
    "2026-02-02T21:02:38.228Z",
    "tomorrow",
    "",
)
ERRORS: dict[str, tuple[str, str, str]] = {
    **{
        f"dueAt {at}": (clock("schedule", item(at, "tea")).arguments, "schedule", CLOCK_TIME)
        for at in BAD_TIMES
    },
    "no JSON": ('{"action":"get"', "", "cannot be read"),
    "not an object": ('["get"]', "", "cannot be read"),
    "no action": ("{}", "", "use one of get, schedule, list, cancel, clear"),
    "unknown action": (
        '{"action":"sleep"}',
        "sleep",
        "No action is called 'sleep'; use one of get, schedule, list, cancel, clear",
    ),
    "no items": ('{"action":"schedule","items":[]}', "schedule", "`items` is empty"),
    "items of another kind": ('{"action":"schedule","items":"tea"}', "schedule", "`items` cannot"),
    "no task": (clock("schedule", item(SOON, " ")).arguments, "schedule", "task is empty"),
    "long task": (clock("schedule", item(SOON, "x" * 4097)).arguments, "schedule", "4096"),
    "long arguments": (
        clock("schedule", item(SOON, "tea", "t", json.dumps({"x": "y" * 8192}))).arguments,
        "schedule",
        "8192",
    ),
    "too many": (
        clock("schedule", *(item(SOON, f"task {n}") for n in range(101))).arguments,
        "schedule",
        "100 reminders",
    ),
    "one of two is wrong": (
        clock("schedule", item(SOON, "tea"), item("noon", "rice")).arguments,
        "schedule",
        CLOCK_TIME,
    ),
    "no taskId": ('{"action":"cancel"}', "cancel", "`taskId` is missing"),
    "unknown taskId": ('{"action":"cancel","taskId":"x"}', "cancel", "has the taskId 'x'"),
}


@pytest.mark.parametrize("error", ERRORS)
async def test_an_error_is_a_result_and_the_chat_goes_on(error: str, tmp_path: Path) -> None:
    arguments, action, why = ERRORS[error]
    answered = await answer_to(Call("clock", arguments), SESSION, **kept(tmp_path))
    assert (answered["ok"], answered["action"]) == (False, action)
    assert why in answered["error"]
    assert not tmp_path.joinpath("clock", "s.json").exists()


LENIENT = {
    "spelled otherwise": (' {"action": " LIST "} ', "items"),
    "nothing but what is needed": ('{"action":"clear","items":null,"taskId":null}', "removedCount"),
    "one item alone": (
        json.dumps({"action": "Schedule", "items": {"dueAt": SOON, "task": "tea"}}),
        "scheduled",
    ),
    "just past": (clock("schedule", item("2026-02-02T21:02:38.229Z", "x")).arguments, "scheduled"),
    "no seconds": (clock("schedule", item("2026-02-03T10:00Z", "x")).arguments, "scheduled"),
    "no colon": (clock("schedule", item("2026-02-03T10:00+0800", "x")).arguments, "scheduled"),
}


@pytest.mark.parametrize("spelling", LENIENT)
async def test_what_the_schema_would_not_allow_is_understood(spelling: str) -> None:
    arguments, member = LENIENT[spelling]
    answered = await answer_to(Call("clock", arguments), SESSION)
    assert answered["ok"] is True
    assert member in answered


@pytest.mark.parametrize("action", ["schedule", "list", "cancel", "clear"])
async def test_without_a_session_only_the_time_is_told(action: str) -> None:
    answered = await answer_to(clock(action, item(SOON, "tea"), task_id="x"))
    assert (answered["ok"], answered["action"]) == (False, action)
    assert answered["error"].startswith(f"clock.{action} needs a session id")
    assert "x-session-id" in answered["error"]


async def test_a_store_that_is_down_is_an_error_and_it_recovers(tmp_path: Path) -> None:
    call, more = (clock("schedule", item(SOON, task)) for task in ("tea", "rice"))
    acts = [says("", call), says("I will."), says("", more), says("I cannot."), says("", more)]
    story = play(*acts, says("I will."))
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        await exchange(gate, True, SESSION)
        before = reminders(tmp_path)
        with read_only(tmp_path / "clock"):
            assert (await exchange(gate, True, SESSION)).text == "I cannot."
            refused = told(json.loads(gate.requests[-1].body))
            assert reminders(tmp_path) == before
        assert (await exchange(gate, True, SESSION)).text == "I will."
    assert (refused["ok"], refused["action"]) == (False, "schedule")
    assert "read-only" in refused["error"]
    assert [task["task"] for task in reminders(tmp_path)["tasks"]] == ["tea", "rice"]


async def test_nobody_touches_the_reminders_of_another_owner(tmp_path: Path) -> None:
    keys = [{"owner": name, "key": f"key-of-{name}"} for name in ("ann", "bob")]
    scheduled: list[str] = []

    def steal(asked: Message) -> Said:
        return says("", clock("cancel", task_id=scheduled[0]))

    def note(asked: Message) -> Said:
        scheduled.append(told(asked)["scheduled"][0]["taskId"])
        return says("I will.")

    story = play(says("", clock("schedule", item(SOON, "tea"))), note, steal, says("None."))
    tables = {"tables": {"keys": keys}, **kept(tmp_path)}
    async with in_process(story, clock=ManualClock(NOW), **tables) as gate:
        for name in ("ann", "bob"):
            await exchange(gate, True, SESSION, f"authorization: Bearer key-of-{name}")
        refused = told(json.loads(gate.requests[-1].body))
    (file,) = tmp_path.joinpath("clock").glob("*.json")
    assert refused["ok"] is False
    assert json.loads(file.read_bytes())["tasks"][0]["taskId"] == scheduled[0]


@both_forms
async def test_a_model_that_never_stops_calling_is_stopped(stream: bool) -> None:
    story = play(says("Once more.", clock("get")))
    async with in_process(story, clock=ManualClock(NOW), limits__turns=3) as gate:
        answer = await exchange(gate, stream)
        asked = ids(gate.requests)
    assert answer == says("\n\n".join(["Once more."] * 4), finish="stop")
    assert asked == ["r", *(f"r:clock_followup{n}" for n in ("", ".2", ".3"))]


@both_forms
async def test_a_follow_up_that_fails_ends_the_answer_plainly(stream: bool, tmp_path: Path) -> None:
    called = says("One moment.", clock("schedule", item(SOON, "tea")))
    story = in_turn(once(*sent(called, stream)), once())
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        answer = await exchange(gate, stream, SESSION)
        assert len(gate.requests) == 2
    assert answer == says("One moment.", finish="stop")
    assert len(reminders(tmp_path)["tasks"]) == 1


GET = '{"action":"get"}'
FRAGMENTS: dict[str, list[Message]] = {
    "a name in pieces": [
        {"index": 0, "id": "c", "type": "function", "function": {"name": "c", "arguments": ""}},
        {"index": 0, "function": {"name": "lo"}},
        {"index": 0, "function": {"name": "ck"}},
        *({"index": 0, "function": {"arguments": character}} for character in GET),
    ],
    "all at once": [{"index": 0, "id": "c", "function": {"name": "clock", "arguments": GET}}],
    "no index": [
        {"id": "c", "function": {"name": "clock", "arguments": ""}},
        {"id": "c", "function": {"arguments": GET}},
    ],
    "no id": [{"index": 0, "function": {"name": "clock", "arguments": GET}}],
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("form", FRAGMENTS)
async def test_no_byte_of_a_call_is_seen_however_it_comes(form: str, size: int) -> None:
    deltas: list[Message] = [
        {"role": "assistant"},
        *({"tool_calls": [part]} for part in FRAGMENTS[form]),
    ]
    stream = b"".join(map(event, deltas)) + event({}, "tool_calls") + DONE
    pieces = [chunk(stream[at : at + size]) for at in range(0, len(stream), size)]
    story = in_turn(once(CHUNKED, *pieces, LAST), play(says("Noon.")))
    async with in_process(story, clock=ManualClock(NOW)) as gate:
        answer = await exchange(gate, True)
        _, followed = gate.requests
    called, returned = messages(followed)[-2:]
    (call,) = called["tool_calls"]
    assert answer == says("Noon.", finish="stop")
    assert call["function"] == {"name": "clock", "arguments": GET}
    assert call["id"] == returned["tool_call_id"] != ""
    assert json.loads(returned["content"])["nowMs"] == NOW
