"""Odd upstreams of Responses, and what Responses clients are told."""

import json
from typing import Any

import pytest

from gateway.dialects.translate.answer_context import AnswerContext
from tests.dialects.answers_wire import (
    CHAT,
    HEARD,
    MESSAGES,
    RESPONSES,
    added,
    chunk,
    completed,
    created,
    done,
    event,
    fixture,
    frames,
    hear,
    translated,
)


def test_an_upstream_that_tells_all_only_at_the_end() -> None:
    output = [
        {"type": "reasoning", "summary": [{"text": "One."}, {"text": "Two."}]},
        {"type": "web_search_call"},
        {"type": "message", "content": [{"text": "Hi"}, 5, {"refusal": "No."}]},
        {"type": "function_call", "call_id": "c", "name": "f"},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": ""},
        {"type": "function_call", "call_id": "e"},
    ]
    heard = hear(
        completed(output=output), RESPONSES, CHAT, AnswerContext("m", "s", custom=frozenset("g"))
    )
    assert (heard.thought, heard.text, heard.refusal) == ("One.\n\nTwo.", "Hi", "No.")
    assert heard.calls == [("c", "f", "{}"), ("d", "g", "")]
    assert heard.stop == "tool_calls"


def test_an_upstream_that_tells_items_only_when_they_are_done() -> None:
    stream = (
        done(0, type="reasoning", content=[{"text": "Hm."}])
        + done(1, type="message", content=[{"text": "One."}])
        + done(1, type="message", content=[{"text": "One."}])
        + done(2, type="message", content=[{"text": "Two."}])
        + done(3, type="function_call", call_id="c", name="f", arguments='{"a":1}')
        + event("response.function_call_arguments.delta", output_index=3, delta="late")
        + completed()
    )
    heard = hear(stream, RESPONSES, CHAT)
    assert (heard.thought, heard.text) == ("Hm.", "One.\n\nTwo.")
    assert heard.calls == [("c", "f", '{"a":1}')]


def test_an_upstream_that_numbers_no_items() -> None:
    stream = created()
    for ident in ("one", "two"):
        stream += added(None, type="message", id=ident)
        stream += event("response.output_text.delta", item_id=ident, delta=ident)
        stream += done(None, type="message", id=ident, content=[{"text": ident}])
    for ident in ("a", "b"):
        call = {"type": "function_call", "id": ident, "call_id": ident, "name": "f"}
        stream += added(None, **call)
        stream += event("response.function_call_arguments.delta", item_id=ident, delta="{}")
        stream += done(None, **call, arguments="{}")
    for target in (CHAT, MESSAGES):
        heard = hear(stream + completed(), RESPONSES, target)
        assert heard.text == "one\n\ntwo"
        assert heard.calls == [("a", "f", "{}"), ("b", "f", "{}")]


def test_items_of_no_known_kind_say_nothing() -> None:
    odd: list[Any] = [["function_call"], {}, 5]
    stream = created() + b"".join(added(at, type=kind, name="f") for at, kind in enumerate(odd))
    assert hear(stream + completed(), RESPONSES, CHAT).calls == []


def test_messages_beside_each_other_stand_apart_and_summaries_do() -> None:
    part = "response.reasoning_summary_part.added"
    text, thought = "response.output_text.delta", "response.reasoning_summary_text.delta"
    stream = (
        created()
        + event(part, output_index=0, summary_index=0)
        + event(thought, output_index=0, delta="One.")
        + event(part, output_index=0, summary_index=1)
        + event(thought, output_index=0, delta="Two.")
        + event(thought, output_index=0, delta="")
        + event(text, output_index=1, delta="")
        + event(text, output_index=1, delta="A")
        + event(text, output_index=1, delta=["odd"])
        + event(text, output_index=1, delta="a")
        + event(text, output_index=2, delta="B")
        + event(text, item_id="x", delta="C")
        + completed()
    )
    heard = hear(stream, RESPONSES, MESSAGES)
    assert (heard.thought, heard.text) == ("One.\n\nTwo.", "Aa\n\nB\n\nC")


def test_calls_that_are_named_late_or_left_open() -> None:
    argued = "response.function_call_arguments.delta"
    stream = (
        created()
        + added(0, type="function_call", call_id="c")
        + event(argued, output_index=0, delta='{"a"')
        + done(0, type="function_call", call_id="c", name="f", arguments='{"a":1}')
        + added(1, type="function_call", name="g")
        + event(argued, output_index=1, delta="")
        + event(argued, output_index=1, delta="{")
        + event("response.output_item.added", output_index=2)
        + event("response.output_item.done", output_index=2)
        + completed()
    )
    heard = hear(stream, RESPONSES, MESSAGES)
    assert heard.calls[0] == ("c", "f", '{"a":1}')
    assert heard.calls[1][1:] == ("g", "{")
    assert heard.calls[1][0].startswith("call_")


def test_items_that_are_never_done_are_taken_from_the_end() -> None:
    output: list[dict[str, Any]] = [
        {"type": "message", "id": "m", "content": [{"text": "Hi"}]},
        {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "[1]"},
        {"type": "message", "id": "n", "content": [{"text": "twice"}]},
        {"type": "web_search_call", "id": "w"},
    ]
    stream = created() + added(0, type="message") + added(None, **{**output[1], "arguments": ""})
    said = event("response.output_text.delta", output_index=2, delta="once")
    for target in (CHAT, MESSAGES):
        heard = hear(stream + said + completed(output=output), RESPONSES, target)
        assert sorted(heard.text.split()) == ["Hi", "once"]
        assert heard.calls == [("c", "f", "[1]")]


@pytest.mark.parametrize(
    "details, shown",
    [
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "content_filter"}, "content_filter"),
        ({"reason": "max_tool_calls"}, "max_tool_calls"),
        (None, "incomplete"),
    ],
)
def test_answers_that_are_incomplete(details: Any, shown: str) -> None:
    stream = created() + event("response.incomplete", response={"incomplete_details": details})
    assert hear(stream, RESPONSES, CHAT).stop == shown


def test_refusals_of_responses() -> None:
    refused = event("response.refusal.delta", output_index=0, delta="No.")
    refused += event("response.refusal.delta", output_index=0, delta="")
    heard = hear(refused + completed(), RESPONSES, MESSAGES)
    assert (heard.text, heard.stop) == ("No.", "refusal")
    heard = hear(refused + completed(), RESPONSES, CHAT)
    assert (heard.refusal, heard.stop) == ("No.", "stop")


def test_a_response_that_ends_in_another_state_has_failed() -> None:
    heard = hear(created() + completed(status="cancelled"), RESPONSES, CHAT)
    assert heard.error is not None
    assert heard.error["message"] == "The upstream reported an error."
    failed = event("response.failed", response={"status": "failed", "error": None})
    assert hear(created() + failed, RESPONSES, CHAT).error == heard.error
    assert hear(event("response.completed"), RESPONSES, CHAT).stop == "stop"


def test_the_number_of_items_is_bounded() -> None:
    many = b"".join(added(at, type="message") for at in range(10_001))
    heard = hear(created() + many, RESPONSES, CHAT)
    assert heard.error is not None
    assert "more than 10000 items" in heard.error["message"]


def test_a_response_that_is_too_long_to_end_fails() -> None:
    stream = chunk({"content": "x" * 150}) + chunk({"content": "y" * 150})
    heard = HEARD[RESPONSES](translated(stream, CHAT, RESPONSES, limit=290))
    assert heard.error is not None
    assert "More than 290 bytes" in heard.error["message"]


def test_a_response_repeats_small_members_of_its_request() -> None:
    request = {"model": "m", "input": "x", "metadata": {"a": "b"}, "temperature": 0.5}
    wanted = AnswerContext("m", "s", request=json.dumps(request).encode())
    shown = translated(fixture(CHAT, "text"), CHAT, RESPONSES, wanted)
    response = json.loads(frames(shown)[-1][1])["response"]
    assert (response["metadata"], response["temperature"]) == ({"a": "b"}, 0.5)
    assert (response["tool_choice"], response["tools"]) == ("auto", [])
    assert "input" not in response
