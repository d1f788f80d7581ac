"""Odd upstreams of Messages: what a client of another dialect hears of them."""

from typing import Any

import pytest

from gateway.errors import UpstreamBroke
from tests.dialects.answers_wire import (
    CHAT,
    MESSAGES,
    RESPONSES,
    block,
    delta,
    end,
    event,
    hear,
    start,
    stop,
    translated,
)


def test_arguments_that_come_with_the_beginning_of_a_call() -> None:
    given: list[tuple[Any, str]] = [
        ({"a": 1}, '{"a": 1}'),
        ({}, "{}"),
        (None, "{}"),
        ("broken {", "broken {"),
    ]
    for value, arguments in given:
        stream = start() + block(0, type="tool_use", id="t", name="f", input=value) + stop(0)
        assert hear(stream + end("tool_use"), MESSAGES, CHAT).calls == [("t", "f", arguments)]


def test_a_call_without_id_gets_one_and_one_that_is_left_open_ends() -> None:
    stream = start() + block(0, type="tool_use", name="f") + delta(0, partial_json="{")
    heard = hear(stream + end("tool_use"), MESSAGES, RESPONSES)
    ((ident, name, arguments),) = heard.calls
    assert (name, arguments) == ("f", "{")
    assert ident.startswith("call_")


def test_blocks_that_only_messages_has_are_left_out() -> None:
    stream = (
        start()
        + block(0, type="server_tool_use", id="s", name="web_search", input={})
        + delta(0, type="input_json_delta", partial_json='{"q":1}')
        + stop(0)
        + block(1, type="text", text="Hi")
        + delta(1, type="citations_delta", citation={})
        + delta(1, type="text_delta", text="")
        + delta(1, type="text_delta", text=5)
        + stop(1)
    )
    heard = hear(stream + end(), MESSAGES, CHAT)
    assert (heard.text, heard.calls, heard.stop) == ("Hi", [], "stop")


def test_redacted_thinking_travels_sealed() -> None:
    stream = start() + block(0, type="redacted_thinking", data="xyz") + stop(0)
    stream += block(1, type="thinking", thinking="Hm.", signature="s1") + stop(1)
    stream += block(2, type="thinking", signature="") + delta(2, signature="s2")
    heard = hear(stream + end(), MESSAGES, RESPONSES)
    assert heard.thought == "Hm."
    assert heard.proofs == [
        "holdgate:redacted:xyz",
        "holdgate:signature:s1",
        "holdgate:signature:s2",
    ]


@pytest.mark.parametrize(
    "reason, shown",
    [
        ("stop_sequence", "stop"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "pause_turn"),
        (None, "stop"),
    ],
)
def test_reasons_of_messages(reason: str | None, shown: str) -> None:
    stream = start() + block(0, type="text", text="Hi") + end(reason, stop_sequence="#")
    assert hear(stream, MESSAGES, CHAT).stop == shown


def test_calls_without_a_reason_are_the_reason() -> None:
    stream = start() + block(0, type="tool_use", id="t", name="f") + stop(0) + end(None)
    assert hear(stream, MESSAGES, CHAT).stop == "tool_calls"


def test_a_message_may_begin_with_anything_and_end_without_its_last_event() -> None:
    told = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
    starts = (
        block(0, type="text", text="Hi"),
        delta(0, type="text_delta", text="Hi"),
        delta(0, thinking="Hm.") + block(1, type="text", text="Hi"),
    )
    for first in starts:
        heard = hear(first + told, MESSAGES, CHAT)
        assert (heard.text, heard.stop) == ("Hi", "stop")
        assert heard.usage is not None
        assert heard.usage["completion_tokens"] == 3
    assert hear(told + start() + event("message_stop"), MESSAGES, CHAT).stop == "stop"
    assert hear(event("message_start") + end(), MESSAGES, CHAT).usage is None
    with pytest.raises(UpstreamBroke):
        translated(event("message_stop"), MESSAGES, CHAT)


def test_odd_events_of_messages_say_nothing() -> None:
    odd = event("content_block_start") + event("content_block_delta") + stop(7)
    assert hear(start() + odd + end(), MESSAGES, CHAT).text == ""


def test_the_number_of_calls_of_messages_is_bounded() -> None:
    many = b"".join(block(at, type="tool_use", id=f"t{at}", name="f") for at in range(1001))
    heard = hear(start() + many, MESSAGES, CHAT)
    assert heard.error is not None
    assert "more than 1000 tools" in heard.error["message"]


def test_text_after_something_else_stands_apart_for_a_chat_client() -> None:
    stream = start() + block(0, type="text", text="One.") + stop(0)
    stream += block(1, type="thinking", thinking="Hm.", signature="s") + stop(1)
    stream += block(2, type="text", text="Two.") + delta(2, type="text_delta", text=" Three.")
    assert hear(stream + end(), MESSAGES, CHAT).text == "One.\n\nTwo. Three."
    joined = start() + block(0, type="text", text="One,") + block(1, type="text", text=" two.")
    assert hear(joined + end(), MESSAGES, CHAT).text == "One, two."


def test_a_call_is_ended_by_the_next_one_of_its_number() -> None:
    stream = start()
    for ident in ("a", "b"):
        stream += block(0, type="tool_use", id=ident, name="f") + delta(0, partial_json='{"n":1}')
    for target in (CHAT, RESPONSES):
        heard = hear(stream + end("tool_use"), MESSAGES, target)
        assert heard.calls == [("a", "f", '{"n":1}'), ("b", "f", '{"n":1}')]
