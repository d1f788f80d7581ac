"""When a stop message is not sent: it waits, and what it is set to stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.wire import DONE, data, event, streaming, text
from tests.run import in_process
from tests.sessions.talk import (
    GO_ON,
    JSON,
    SESSION,
    assistant,
    messages,
    model,
    newest,
    stop_message,
    system,
    talk,
    text_of,
    told,
    user,
)
from tests.wire.fake import Story, answering, sized

CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def message(finish: str, **said: Any) -> Story:
    """Answer whole, with a message of any kind."""
    choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": finish}
    return answering(sized(data({"id": "a", "choices": [choice]})[6:], JSON))


def deltas(finish: str, **said: Any) -> Story:
    """Answer in a stream, with a delta of any kind."""
    return streaming(event({"role": "assistant", **said}) + event({}, finish) + DONE)


ENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "cut by length": ("length", {"content": "so far"}),
    "filtered": ("content_filter", {"content": "so"}),
    "a tool call": ("tool_calls", {"tool_calls": [CALL]}),
    "a tool call that says stop": ("stop", {"content": "see", "tool_calls": [CALL]}),
    "an unknown reason": ("tired", {"content": "so"}),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", ENDS)
async def test_only_a_stop_is_followed_up(name: str, stream: bool) -> None:
    finish, said = ENDS[name]
    story = deltas(finish, **said) if stream else message(finish, **said)
    async with in_process(story) as gate:
        answer = await gate.ask(talk(GO_ON + "hi", stream=stream, tools=TOOLS), SESSION)
        assert (answer.status, told(answer)) == (200, "set")
        assert len(gate.requests) == 1
        assert (await stop_message(gate))["used"] == 0


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_several_choices_are_not_followed_up(stream: bool) -> None:
    async with in_process(model()) as gate:
        answer = await gate.ask(talk(GO_ON + "hi", stream=stream, n=2), SESSION)
        assert text_of(answer) == "answer 1"
        assert (await stop_message(gate))["used"] == 0
        assert text_of(await gate.ask(talk("hi", n=1), SESSION)).count("answer") == 4


async def test_an_answer_that_breaks_off_is_not_followed_up() -> None:
    async with in_process(streaming(text("half"))) as gate:
        assert (await gate.ask(talk(GO_ON + "hi"), SESSION)).failed == "upstream_broke"
        assert len(gate.requests) == 1
        assert (await stop_message(gate))["used"] == 0


async def test_an_error_is_not_followed_up() -> None:
    async with in_process(answering(sized(b"{}", JSON, status="500 Hm"))) as gate:
        answer = await gate.ask(talk(GO_ON + "hi"), SESSION)
        assert (answer.status, told(answer)) == (500, "set")
        assert len(gate.requests) == 1
        assert (await stop_message(gate))["used"] == 0


SENTINEL = "Handoff Summary for another LLM"
PART = {"type": "text", "text": "\n handoff summary FOR ANOTHER llm: write it"}
COMPACTIONS: dict[str, tuple[Any, ...]] = {
    "the user's text": (f"{SENTINEL}. Summarise.",),
    "any part of the user's text": (user([{"type": "text", "text": "a"}, PART]),),
    "the system's text": (system("You are performing a context checkpoint compaction."), "hi"),
    "a developer's text": ({"role": "developer", "content": [PART]}, "hi"),
    "after a directive": ("<**@a**> Checkpoint compaction now",),
}
CONVERSATIONS: dict[str, tuple[Any, ...]] = {
    "in the middle": (f"Look for '{SENTINEL}' in the log.",),
    "on a later line": (f"Well,\n{SENTINEL}",),
    "in the middle of the system's text": (system(f"Never say {SENTINEL}."), "hi"),
    "in an older message": (f"{SENTINEL}.", assistant("done"), "hi"),
    "in the model's answer": ("hi", assistant(SENTINEL), "go"),
    "cut short": (SENTINEL[:-1],),
}


@pytest.mark.parametrize("said", COMPACTIONS.values(), ids=COMPACTIONS)
async def test_a_compaction_is_not_followed_up(said: tuple[Any, ...]) -> None:
    async with in_process(model(("cut", "length"), "summary")) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        assert text_of(await gate.ask(talk(*said), SESSION)) == "summary"
        assert (await stop_message(gate))["used"] == 0


@pytest.mark.parametrize("said", CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_a_sentinel_elsewhere_does_not_count(said: tuple[Any, ...]) -> None:
    async with in_process(model(("cut", "length"), "a", "b", "c", "d")) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        assert text_of(await gate.ask(talk(*said), SESSION)) == "a\n\nb\n\nc\n\nd"


async def test_sentinels_are_the_operators() -> None:
    sentinels = ["boil it down"]
    async with in_process(model(), stop_message__compaction_sentinels=sentinels) as gate:
        assert text_of(await gate.ask(talk(f"{GO_ON}Boil it down"), SESSION)) == "answer 1"
        other = await gate.ask(talk(f"{GO_ON}{SENTINEL}"), "x-session-id: t")
        assert text_of(other).count("answer") == 4


async def test_without_sentinels_nothing_is_a_compaction() -> None:
    async with in_process(model(), stop_message__compaction_sentinels=[]) as gate:
        assert text_of(await gate.ask(talk(f"{GO_ON}{SENTINEL}"), SESSION)).count("answer") == 4


WORK = system("You write code.")
TITLE = system("Write a title of five words.")


async def test_side_requests_of_an_agent_are_left_alone() -> None:
    """Once a session has sent tools, one without any and under another system text is one."""
    async with in_process(model(("cut", "length"), "title", "a", "b", "c", "d")) as gate:
        await gate.ask(talk(WORK, GO_ON + "hi", tools=TOOLS), SESSION)
        side = await gate.ask(talk(TITLE, GO_ON + "hi"), SESSION)
        assert text_of(side) == "title"
        assert (
            told(side) == 'ignored; reason="directives have no effect in an agent\'s side request"'
        )
        assert messages(gate.requests[-1]) == [TITLE, user("hi")]
        assert (await stop_message(gate))["used"] == 0
        assert text_of(await gate.ask(talk(WORK, "hi"), SESSION)) == "a\n\nb\n\nc\n\nd"


SIDE_CALLS: dict[str, tuple[Any, ...]] = {
    "to clear": (TITLE, "<**clear**> hi"),
    "to set": (TITLE, '<**stopMessage:"other"**> hi'),
    "to exclude": (TITLE, "<**#a**> hi"),
    "to force": (TITLE, "<**a.other**> hi"),
}


@pytest.mark.parametrize("said", SIDE_CALLS.values(), ids=SIDE_CALLS)
async def test_directives_of_side_requests_do_not_act(said: tuple[Any, ...]) -> None:
    async with in_process(model(("cut", "length"))) as gate:
        await gate.ask(talk(WORK, GO_ON + "hi", tools=TOOLS), SESSION)
        before = await stop_message(gate)
        assert told(await gate.ask(talk(*said), SESSION)).startswith("ignored")
        assert newest(gate.requests[-1]) == " hi"
        assert json.loads(gate.requests[-1].body)["model"] == "m"
        assert await stop_message(gate) == before


CONVERSING: dict[str, tuple[bytes, str]] = {
    "tools again, under another system text": (talk(TITLE, "hi", tools=TOOLS), SESSION),
    "no tools, under the same system text": (talk(WORK, "hi"), SESSION),
    "another session": (talk(TITLE, GO_ON + "hi"), "x-session-id: t"),
    "an empty list of tools": (talk(WORK, "hi", tools=[]), SESSION),
}


@pytest.mark.parametrize("name", CONVERSING)
async def test_these_are_no_side_requests(name: str) -> None:
    body, session = CONVERSING[name]
    async with in_process(model(("cut", "length"), "a", "b", "c", "d")) as gate:
        await gate.ask(talk(WORK, GO_ON + "hi", tools=TOOLS), SESSION)
        assert text_of(await gate.ask(body, session)) == "a\n\nb\n\nc\n\nd"


async def test_the_system_text_of_the_last_request_with_tools_counts() -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk(WORK, "hi", tools=TOOLS), SESSION)
        await gate.ask(talk(TITLE, "hi", tools=TOOLS), SESSION)
        assert told(await gate.ask(talk(WORK, GO_ON), SESSION)).startswith("ignored")
        assert told(await gate.ask(talk(TITLE, GO_ON), SESSION)) == "set"


async def test_a_session_without_tools_has_no_side_requests() -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk(WORK, "hi"), SESSION)
        assert told(await gate.ask(talk(TITLE, GO_ON), SESSION)) == "set"
