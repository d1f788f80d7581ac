"""Calls of tools that take plain text."""

import json
from typing import Any

import pytest

from gateway.dialects.translate.answer_context import (
    MOST_CUSTOM_TOOLS,
    AnswerContext,
    read_custom_tools,
)
from gateway.errors import BadRequest
from tests.dialects.answers_wire import (
    CHAT,
    DONE,
    HEARD,
    MESSAGES,
    PAIRS,
    RESPONSES,
    added,
    block,
    call,
    chunk,
    completed,
    delta,
    done,
    end,
    event,
    hear,
    start,
    stop,
    translated,
)

PATCH = AnswerContext("m", "s", custom=frozenset({"patch"}))
APPLIED = '*** Begin\n"x" \\ 上海\n'


@pytest.mark.parametrize("source, target", [pair for pair in PAIRS if pair[1] != MESSAGES])
def test_a_function_is_shown_as_the_custom_tool_it_stands_for(source: str, target: str) -> None:
    arguments = json.dumps({"input": APPLIED})
    half = len(arguments) // 2
    streams = {
        CHAT: chunk(call(0, arguments[:half], name="patch", id="c"))
        + chunk(call(0, arguments[half:]))
        + chunk({}, "tool_calls")
        + DONE,
        MESSAGES: start()
        + block(0, type="tool_use", id="c", name="patch")
        + delta(0, partial_json=arguments[:half])
        + delta(0, partial_json=arguments[half:])
        + stop(0)
        + end("tool_use"),
        RESPONSES: done(0, type="function_call", call_id="c", name="patch", arguments=arguments)
        + completed(),
    }
    shown = translated(streams[source], source, target, PATCH)
    assert (b'"custom"' if target == CHAT else b'"custom_tool_call"') in shown
    assert HEARD[target](shown).calls == [("c", "patch", APPLIED)]


@pytest.mark.parametrize("arguments", ["{", '{"input":5}', '{"input":"a","b":"c"}', "[]"])
def test_broken_arguments_of_a_custom_tool_are_its_text(arguments: str) -> None:
    stream = chunk(call(0, arguments, name="patch", id="c")) + chunk({}, "tool_calls") + DONE
    assert hear(stream, CHAT, RESPONSES, PATCH).calls == [("c", "patch", arguments)]


def test_a_custom_call_that_the_client_offered_passes_as_it_is() -> None:
    item = {"type": "custom_tool_call", "call_id": "c", "name": "patch"}
    piece = "response.custom_tool_call_input.delta"
    stream = added(0, **item) + event(piece, output_index=0, delta=APPLIED)
    stream += done(0, **item, input=APPLIED) + completed()
    assert hear(stream, RESPONSES, CHAT, PATCH).calls == [("c", "patch", APPLIED)]
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "patch", "input": "a"}}
    more = {"index": 0, "custom": {"input": "b"}}
    stream = chunk({"tool_calls": [custom]}) + chunk({"tool_calls": [more]}) + chunk({}, "stop")
    assert hear(stream + DONE, CHAT, RESPONSES, PATCH).calls == [("c", "patch", "ab")]


@pytest.mark.parametrize("target", (CHAT, MESSAGES))
def test_a_custom_call_that_nobody_offered_is_shown_as_a_function(target: str) -> None:
    item = {"type": "custom_tool_call", "call_id": "c", "name": "patch"}
    stream = added(0, **item)
    for piece in (APPLIED[:5], APPLIED[5:]):
        stream += event("response.custom_tool_call_input.delta", output_index=0, delta=piece)
    heard = hear(stream + done(0, **item, input=APPLIED) + completed(), RESPONSES, target)
    ((_, _, arguments),) = heard.calls
    assert json.loads(arguments) == {"input": APPLIED}


def test_custom_calls_without_input_stay_empty() -> None:
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "patch"}}
    stream = chunk({"tool_calls": [custom]}) + chunk({}, "tool_calls") + DONE
    assert hear(stream, CHAT, RESPONSES, PATCH).calls == [("c", "patch", "")]


@pytest.mark.parametrize(
    "tools, names",
    [
        ([{"type": "custom", "name": "a"}, {"type": "function", "name": "b"}], {"a"}),
        ([{"type": "custom", "custom": {"name": "a"}}, {"type": "custom"}], {"a"}),
        ([{"type": "custom", "name": 5}], set()),
    ],
)
def test_which_tools_take_plain_text(tools: Any, names: set[str]) -> None:
    assert read_custom_tools(json.dumps(tools).encode()) == names


def test_more_custom_tools_than_can_be_remembered_are_refused() -> None:
    tools = [{"type": "custom", "name": f"n{number}"} for number in range(MOST_CUSTOM_TOOLS + 1)]
    assert len(read_custom_tools(json.dumps(tools[1:]).encode())) == MOST_CUSTOM_TOOLS
    with pytest.raises(BadRequest, match="more than 10000 custom tools"):
        read_custom_tools(json.dumps(tools).encode())
