"""Turns that call the clock beside the client's tools: parted for the client, whole upstream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.clock import ManualClock
from tests.clock.words import (
    MINUTE,
    NOW,
    Call,
    Said,
    clock,
    function,
    heard,
    item,
    message,
    play,
    reminders,
    result,
    says,
    tags,
)
from tests.gateway.client import Answer, Client
from tests.gateway.wire import ask_of
from tests.run import Running, in_process, until, upstreams_of
from tests.sessions.process import process
from tests.sessions.talk import SESSION, Message, assistant, kept, messages, notes_of, talk, user
from tests.stores.mounts import read_only
from tests.wire.fake import Request, fake_upstream

DAY = 24 * 60 * MINUTE
WEATHER = Call("get_weather", '{"city":"Paris"}', "call_w")
LOOK = Call("look", '{"at":[1,2]}', "call_l")
TIME, AGAIN = (clock("get", ident=ident) for ident in ("call_c", "call_d"))
MIXED = says("Let me see.", TIME, WEATHER)
TOOLS = [function("get_weather"), function("look")]

both_forms = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
named_or_not = pytest.mark.parametrize("headers", [[SESSION], []], ids=["session", "no session"])


def theirs(said: Said) -> tuple[Call, ...]:
    """Return the calls of a turn that are the client's."""
    return tuple(call for call in said.calls if call.name != "clock")


def back(answer: Said) -> list[Message]:
    """Write what a client adds to the conversation: what it heard, and what its tools returned."""
    return [message(answer), *(result(call, f"{call.name} ran") for call in answer.calls)]


async def ask(gate: Running, said: list[Message], *headers: str, stream: bool = True) -> Said:
    """Ask with tools, and return what the client heard."""
    return heard(await gate.ask(talk(*said, stream=stream, tools=TOOLS), *headers))


def check_whole(asked: Request, at: int, said: Said) -> None:
    """Demand that a request has the turn as the model said it, and each result once, in order."""
    turn, *results = messages(asked)[at : at + 1 + len(said.calls)]
    assert turn == message(said)
    assert [one["tool_call_id"] for one in results] == [call.id for call in said.calls]
    assert all(one["role"] == "tool" for one in results)
    for call, one in zip(said.calls, results, strict=True):
        ran = f"{call.name} ran"
        assert json.loads(one["content"])["ok"] if call.name == "clock" else one["content"] == ran
    others = messages(asked)[at + 1 + len(said.calls) :]
    assert not [one for one in others if one["role"] == "tool"]


ORDERS = {
    "ours first": (TIME, WEATHER),
    "ours last": (WEATHER, TIME),
    "ours between": (WEATHER, TIME, LOOK),
    "ours around": (TIME, WEATHER, AGAIN),
}


@both_forms
@named_or_not
@pytest.mark.parametrize("order", ORDERS)
async def test_the_client_sees_its_calls_and_the_model_all_of_them(
    order: str, headers: list[str], stream: bool
) -> None:
    said = says("Let me see.", *ORDERS[order])
    story = play(said, says("It is sunny."), says("Bye."))
    async with in_process(story, clock=ManualClock(NOW)) as gate:
        history = [user("How is the weather?")]
        answer = await ask(gate, history, *headers, stream=stream)
        assert answer == Said("Let me see.", theirs(said), "tool_calls")
        history += back(answer)
        assert (await ask(gate, history, *headers, stream=stream)).text == "It is sunny."
        history += [assistant("It is sunny."), user("Thank you.")]
        assert (await ask(gate, history, *headers, stream=stream)).text == "Bye."
        _, returned, later = gate.requests
    check_whole(returned, 1, said)
    assert tags(returned) == [len(messages(returned)) - 1]
    # What was sent before is sent again to the letter, as far as there was no tag.
    same, tag, _ = returned.body.partition(b'{"role":"user","content":"[Time/Date]')
    assert tag
    assert later.body.startswith(same)
    assert messages(later)[-3:-1] == [assistant("It is sunny."), user("Thank you.")]


@named_or_not
async def test_it_is_whole_again_after_a_restart(headers: list[str], tmp_path: Path) -> None:
    async with in_process(play(MIXED), clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        answer = await ask(gate, [user("hi")], *headers)
    async with in_process(play(says("Fine.")), clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        assert (await ask(gate, [user("hi"), *back(answer)], *headers)).text == "Fine."
        check_whole(gate.requests[0], 1, MIXED)


@both_forms
async def test_a_kill_right_after_the_answer_loses_nothing(stream: bool, tmp_path: Path) -> None:
    async with fake_upstream(play(MIXED, says("Fine."))) as fake:
        tables = {
            f"HOLDGATE_{name.upper()}": json.dumps(rows)
            for name, rows in upstreams_of(fake.port).items()
        }
        on = {"HOLDGATE_CLOCK__ENABLED": "true", "HOLDGATE_CLOCK__NTP__ENABLED": "false"}
        history = [user("hi")]
        for _ in range(2):
            async with process(tmp_path, {**tables, **on}) as gate:
                answer = await _asked(gate.port, talk(*history, stream=stream, tools=TOOLS))
                await gate.kill()
            history += back(heard(answer))
        check_whole(fake.requests[1], 1, MIXED)


async def _asked(port: int, body: bytes) -> Answer:
    client = await Client.connected(port)
    await client.send(ask_of(body, SESSION))
    answer = await client.answer()
    client.leave()
    return answer


@named_or_not
async def test_after_a_day_it_is_gone(headers: list[str]) -> None:
    at = ManualClock(NOW)
    async with in_process(play(MIXED, says("Fine.")), clock=at) as gate:
        answer = await ask(gate, [user("hi")], *headers)
        history = [user("hi"), *back(answer)]
        for passed in (DAY - 1, DAY):
            at.set(NOW + passed)
            await ask(gate, history, *headers)
        _, before, after = gate.requests
    check_whole(before, 1, MIXED)
    assert messages(after)[:-1] == history


@named_or_not
async def test_after_a_day_nothing_of_it_is_left_on_disk(
    headers: list[str], tmp_path: Path
) -> None:
    at = ManualClock(NOW)
    settings = {"clock__tick_ms": 10, **kept(tmp_path)}
    async with in_process(play(MIXED), clock=at, settings=settings) as gate:
        await ask(gate, [user("hi")], *headers)
        with read_only(tmp_path / "session"):
            at.advance(DAY + 1)
            await until(lambda: bool(notes_of(gate, "sessions_not_swept")))
            assert len(list(tmp_path.glob("session/*.json"))) == 1
        await until(lambda: not list(tmp_path.glob("session/*.json")))


async def test_what_the_clock_did_is_done_once(tmp_path: Path) -> None:
    """It is done at once, before the client has its calls, and not again when it comes back."""
    soon = item("2026-02-02T21:32:38Z", "tea")
    said = says("", WEATHER, clock("schedule", soon, ident="call_s"))
    story = play(said, says("Fine."))
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        answer = await ask(gate, [user("hi")], SESSION)
        scheduled = reminders(tmp_path)
        for _ in range(2):
            await ask(gate, [user("hi"), *back(answer)], SESSION)
        assert reminders(tmp_path) == scheduled
        check_whole(gate.requests[1], 1, said)
    (task,) = scheduled["tasks"]
    told = json.loads(messages(gate.requests[1])[3]["content"])
    assert told["scheduled"][0]["taskId"] == task["taskId"]


@named_or_not
@both_forms
async def test_several_such_turns_of_a_conversation(headers: list[str], stream: bool) -> None:
    second = says("", Call("look", "{}", "call_m"), clock("get", ident="call_e"))
    story = play(MIXED, second, says("Fine."))
    async with in_process(story, clock=ManualClock(NOW)) as gate:
        history = [user("hi")]
        for _ in range(3):
            history += back(await ask(gate, history, *headers, stream=stream))
        last = gate.requests[-1]
    check = messages(last)
    assert check[1] == message(MIXED)
    check_whole(last, 4, second)
    assert [one["tool_call_id"] for one in check[2:4]] == ["call_c", "call_w"]


@both_forms
async def test_a_follow_up_that_calls_both(stream: bool) -> None:
    """The clock alone first, then both: the client has one message, with the texts of both."""
    first, second = says("One moment.", clock("get", ident="call_0")), says("Now.", TIME, WEATHER)
    story = play(first, second, says("Fine."))
    async with in_process(story, clock=ManualClock(NOW)) as gate:
        answer = await ask(gate, [user("hi")], SESSION, stream=stream)
        assert answer == Said("One moment.\n\nNow.", (WEATHER,), "tool_calls")
        await ask(gate, [user("hi"), *back(answer)], SESSION, stream=stream)
        last = gate.requests[-1]
    check_whole(last, 1, Said(answer.text, second.calls))


@both_forms
async def test_out_of_turns_the_client_still_has_its_call(stream: bool) -> None:
    story = play(says("", clock("get", ident="call_0")), MIXED, says("Fine."))
    async with in_process(story, clock=ManualClock(NOW), limits__turns=1) as gate:
        answer = await ask(gate, [user("hi")], SESSION, stream=stream)
        assert answer == Said("Let me see.", (WEATHER,), "tool_calls")
        history = [user("hi"), *back(answer)]
        await ask(gate, history, SESSION, stream=stream)
        assert messages(gate.requests[-1])[:-1] == history


async def test_a_later_request_without_tools_has_it_too() -> None:
    async with in_process(play(MIXED, says("Fine.")), clock=ManualClock(NOW)) as gate:
        answer = await ask(gate, [user("hi")])
        heard(await gate.ask(talk(user("hi"), *back(answer), "Sum it up.")))
        check_whole(gate.requests[-1], 1, MIXED)


async def test_without_the_clock_what_was_said_stays_whole() -> None:
    async with in_process(play(MIXED, says("Fine.")), clock=ManualClock(NOW)) as gate:
        answer = await ask(gate, [user("hi")], SESSION)
        await ask(gate, [user("hi"), *back(answer)], SESSION, "x-holdgate-clock: off")
        check_whole(gate.requests[-1], 1, MIXED)
        assert tags(gate.requests[-1]) == []


@named_or_not
async def test_nobody_else_has_it(headers: list[str]) -> None:
    """Another owner's turn with the same ids, in a session of the same name, stays as it is."""
    keys = [{"owner": name, "key": f"key-of-{name}"} for name in ("ann", "bob")]
    ann, bob = (f"authorization: Bearer key-of-{name}" for name in ("ann", "bob"))
    story = play(MIXED, says("Fine."))
    async with in_process(story, clock=ManualClock(NOW), tables={"keys": keys}) as gate:
        answer = await ask(gate, [user("hi")], ann, *headers)
        history = [user("hi"), *back(answer)]
        await ask(gate, history, bob, *headers)
        await ask(gate, history, ann, *headers)
        _, bobs, anns = gate.requests
    assert messages(bobs)[:-1] == history
    check_whole(anns, 1, MIXED)


async def test_a_conversation_that_counts_its_calls_alike_has_nothing_of_it() -> None:
    """Some upstreams count from nought: without a session the same ids come again elsewhere."""
    elsewhere = says("", Call("get_weather", '{"city":"Rome"}', WEATHER.id))
    async with in_process(play(MIXED, says("Fine.")), clock=ManualClock(NOW)) as gate:
        await ask(gate, [user("hi")])
        history = [user("hi"), *back(elsewhere)]
        await ask(gate, history)
        assert messages(gate.requests[-1])[:-1] == history


async def test_a_disk_that_is_down_costs_only_the_clocks_part(tmp_path: Path) -> None:
    story = play(MIXED, says("Fine."))
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        with read_only(tmp_path / "session"):
            answer = await ask(gate, [user("hi")], SESSION)
            assert answer == Said("Let me see.", (WEATHER,), "tool_calls")
        history = [user("hi"), *back(answer)]
        assert (await ask(gate, history, SESSION)).text == "Fine."
        assert messages(gate.requests[-1])[:-1] == history
        (note,) = notes_of(gate, "tool_results_not_stored")
        assert "read-only" in note["why"]


async def test_a_call_without_an_id_is_known_by_the_one_it_was_given(tmp_path: Path) -> None:
    said = says("", Call("look", "{}", ""), clock("get", ident=""))
    async with in_process(play(said, says("Fine.")), clock=ManualClock(NOW)) as gate:
        answer = await ask(gate, [user("hi")])
        await ask(gate, [user("hi"), *back(answer)])
        turn, *results = messages(gate.requests[-1])[1:4]
    called = [call["id"] for call in turn["tool_calls"]]
    assert [one["tool_call_id"] for one in results] == called
    assert len({*called, ""}) == 3
    assert answer.calls[0].id == called[0]
