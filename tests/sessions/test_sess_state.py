"""What a session remembers of a stop message: between requests, over restarts, until cleared."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.wire import get
from tests.run import Running, in_process
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    assistant,
    document,
    follow_ups,
    forget,
    kept,
    look,
    model,
    newest,
    stop_message,
    talk,
    text_of,
    told,
)
from tests.wire.fake import Story

FIELDS = {
    "stopMessageText",
    "stopMessageMaxRepeats",
    "stopMessageUsed",
    "stopMessageUpdatedAt",
    "stopMessageLastUsedAt",
}
CUT = model(("cut", "length"))
"""An upstream that never stops by itself: a directive is set, and nothing of it is used."""


def fields(directory: Path) -> set[str]:
    return FIELDS & document(directory).keys()


def gate_on(directory: Path, story: Story | None = None) -> AbstractAsyncContextManager[Running]:
    return in_process(story or model(), **kept(directory))


async def test_what_is_left_is_used_by_the_next_request() -> None:
    async with in_process(model("one", ("two", "length"), "three", "four", "five", "six")) as gate:
        assert text_of(await gate.ask(talk(GO_ON + "hi"), SESSION)) == "one\n\ntwo"
        assert (await stop_message(gate))["used"] == 1
        assert text_of(await gate.ask(talk("hi"), SESSION)) == "three\n\nfour\n\nfive"
        assert text_of(await gate.ask(talk("hi"), SESSION)) == "six"
        assert len(follow_ups(gate.requests)) == 3


async def test_the_rest_is_used_later_and_then_it_is_spent(tmp_path: Path) -> None:
    """Also by a gateway that was started anew in between."""
    async with gate_on(tmp_path, CUT) as gate:
        assert told(await gate.ask(talk(GO_ON + "hi"), SESSION)) == "set"
        assert len(gate.requests) == 1
        shown = await stop_message(gate)
    assert (shown["text"], shown["maxRepeats"], shown["used"]) == ("go on", 3, 0)
    assert shown["armed"] is True
    assert shown["lastUsedAt"] is None
    assert fields(tmp_path) == FIELDS - {"stopMessageLastUsedAt"}
    history = (GO_ON + "hi", assistant("cut"), "and now?")
    async with gate_on(tmp_path) as gate:
        answer = await gate.ask(talk(*history), SESSION)
        assert text_of(answer) == "answer 1\n\nanswer 2\n\nanswer 3\n\nanswer 4"
        assert not told(answer)
        assert all(newest(request) == "go on" for request in gate.requests[1:])
    assert fields(tmp_path) == FIELDS
    assert document(tmp_path)["stopMessageUsed"] == 3
    async with gate_on(tmp_path) as gate:
        assert text_of(await gate.ask(talk(*history, assistant("x"), "more"), SESSION)) == (
            "answer 1"
        )
        shown = await stop_message(gate)
    assert (shown["used"], shown["armed"]) == (3, False)
    assert shown["lastUsedAt"] >= shown["updatedAt"]


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
async def test_the_same_message_sent_again_arms_nothing(tmp_path: Path, restarted: bool) -> None:
    """A retry, and the steps of a tool loop: the newest user message stays the same."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    loop: tuple[Any, ...] = (
        GO_ON + "hi",
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    )
    async with gate_on(tmp_path) as gate:
        assert told(await gate.ask(talk(GO_ON + "hi"), SESSION)) == "set"
        if not restarted:
            for again in (talk(GO_ON + "hi"), talk(*loop), talk(*loop, *loop[1:])):
                answer = await gate.ask(again, SESSION)
                assert told(answer) == "unchanged"
            assert len(gate.requests) == 4 + 3
    if restarted:
        async with gate_on(tmp_path) as gate:
            assert told(await gate.ask(talk(*loop), SESSION)) == "unchanged"
            assert len(gate.requests) == 1
            assert (await stop_message(gate))["armed"] is False


async def test_an_old_message_in_the_history_arms_nothing() -> None:
    history = (GO_ON + "hi", assistant("answer 1"), "thanks")
    async with in_process(model()) as gate:
        await gate.ask(talk(GO_ON + "hi"), SESSION)
        answer = await gate.ask(talk(*history), SESSION)
        assert not told(answer)
        assert len(gate.requests) == 5


async def test_the_same_text_in_a_new_message_arms_it_again() -> None:
    history = (GO_ON + "hi", assistant("answer 1"), GO_ON + "hi")
    async with in_process(model()) as gate:
        await gate.ask(talk(GO_ON + "hi"), SESSION)
        assert told(await gate.ask(talk(*history), SESSION)) == "set"
        assert len(gate.requests) == 8


async def test_set_anew_the_count_begins_anew(tmp_path: Path) -> None:
    async with gate_on(tmp_path) as gate:
        await gate.ask(talk(GO_ON + "hi"), SESSION)
    before = document(tmp_path)
    async with gate_on(tmp_path, CUT) as gate:
        other = '<**stopMessage:"other",5**> hi'
        assert told(await gate.ask(talk("hi", assistant("x"), other), SESSION)) == "set"
    after = document(tmp_path)
    assert (after["stopMessageText"], after["stopMessageMaxRepeats"]) == ("other", 5)
    assert after["stopMessageUsed"] == 0
    assert after["stopMessageUpdatedAt"] >= before["stopMessageUpdatedAt"]
    assert "stopMessageLastUsedAt" not in after


CLEARS = ["<**stopMessage:clear**>", "<**clear**>", "<** StopMessage : CLEAR **> ok"]


@pytest.mark.parametrize("clear", CLEARS)
async def test_clear_takes_it_off_the_disk(tmp_path: Path, clear: str) -> None:
    async with gate_on(tmp_path) as gate:
        await gate.ask(talk(GO_ON + "hi"), SESSION)
        assert fields(tmp_path) == FIELDS
        answer = await gate.ask(talk("hi", assistant("x"), clear), SESSION)
        assert told(answer) == "set"
        assert text_of(answer) == "answer 5"
        assert fields(tmp_path) == set()
        shown = (await look(gate)).json
    assert (shown["stopMessage"], shown["directives"]) == (None, [])


@pytest.mark.parametrize(
    "message", [f"{GO_ON}<**stopMessage:clear**>", f"<**stopMessage:clear**>{GO_ON}"]
)
async def test_clear_wins_over_a_set_in_the_same_message(tmp_path: Path, message: str) -> None:
    async with gate_on(tmp_path) as gate:
        await gate.ask(talk(message), SESSION)
        assert len(gate.requests) == 1
        assert fields(tmp_path) == set()
        assert told(await gate.ask(talk(message), SESSION)) == "unchanged"


async def test_the_last_of_several_sets_counts() -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk('<**stopMessage:"a",2**><**clear**><**stopMessage:"b",1**>'), SESSION)
        assert [newest(request) for request in gate.requests] == [".", "b"]


async def test_sessions_do_not_share_it() -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        assert text_of(await gate.ask(talk("hi"), "x-session-id: t")) == "answer 5"
        assert text_of(await gate.ask(talk("hi"), "x-conversation-id: s")) == "answer 6"
        assert (await look(gate, "t")).status == 404
        assert (await look(gate, "conversation:s")).status == 404


async def test_forgetting_a_session(tmp_path: Path) -> None:
    async with gate_on(tmp_path, CUT) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        answer = await forget(gate)
        assert (answer.status, answer.json) == (200, {"sessionId": "s", "deleted": True})
        assert not list(tmp_path.joinpath("session").iterdir())
        assert (await look(gate)).status == 404
        assert (await forget(gate)).status == 404
        listed = await gate.fetch(get("/api/sessions"))
        assert listed.json == {"sessions": [], "next": None}
        await gate.ask(talk("hi"), SESSION)
        assert len(gate.requests) == 2


async def test_what_is_known_of_a_message_is_forgotten_with_its_session() -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        await forget(gate)
        assert told(await gate.ask(talk(GO_ON), SESSION)) == "set"
        assert len(gate.requests) == 8
