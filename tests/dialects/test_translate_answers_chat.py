"""Odd upstreams of Chat Completions: what a client of another dialect hears of them."""

import json

import pytest

from gateway.dialects.translate.answers import StreamTranslator
from gateway.errors import UpstreamBroke
from tests.dialects.answers_wire import (
    CHAT,
    DONE,
    HEARD,
    MESSAGES,
    RESPONSES,
    WANTED,
    call,
    chunk,
    data,
    frames,
    hear,
    translated,
)


def test_what_an_upstream_does_not_say_of_itself_is_as_the_client_asked() -> None:
    heard = hear(chunk({"content": "Hi"}, "stop") + DONE, CHAT, MESSAGES)
    assert (heard.model, heard.text, heard.stop) == ("my-model", "Hi", "end_turn")
    assert heard.id.startswith("msg_")
    created = translated(chunk({"content": "Hi"}, "stop") + DONE, CHAT, RESPONSES)
    assert json.loads(frames(created)[0][1])["response"]["created_at"] == WANTED.created


def test_the_names_of_a_calls_tool_may_come_in_pieces_and_its_id_not_at_all() -> None:
    stream = (
        chunk(call(0, name="get_"))
        + chunk(call(0, name="weather"))
        + chunk(call(0, '{"a":'))
        + chunk(call(0, "1}"))
        + chunk({}, "tool_calls")
    )
    heard = hear(stream + DONE, CHAT, MESSAGES)
    ((ident, name, arguments),) = heard.calls
    assert (name, arguments) == ("get_weather", '{"a":1}')
    assert ident.startswith("call_")
    assert heard == hear(stream + DONE, CHAT, MESSAGES)


def test_a_call_without_arguments_has_empty_ones() -> None:
    stream = chunk(call(0, name="now", id="c1")) + chunk({}, "tool_calls") + DONE
    for target in (MESSAGES, RESPONSES):
        assert hear(stream, CHAT, target).calls == [("c1", "now", "{}")]


def test_a_call_that_nobody_names_is_none() -> None:
    stream = chunk({"content": "Hi"}) + chunk(call(0, "{}")) + chunk({}, "stop") + DONE
    heard = hear(stream, CHAT, MESSAGES)
    assert (heard.text, heard.calls, heard.stop) == ("Hi", [], "end_turn")


def test_arguments_may_come_before_the_name() -> None:
    stream = chunk(call(0, '{"a"')) + chunk(call(0, ":1}", name="f", id="c")) + chunk({}, "stop")
    assert hear(stream + DONE, CHAT, MESSAGES).calls[0][1:] == ("f", '{"a":1}')


def test_a_stop_after_calls_is_a_stop_for_calls() -> None:
    stream = chunk(call(0, "{}", name="f", id="c")) + chunk({}, "stop") + DONE
    assert hear(stream, CHAT, MESSAGES).stop == "tool_use"


def test_one_call_after_the_other_is_shown_as_it_comes() -> None:
    passage = StreamTranslator(CHAT, MESSAGES, WANTED, 10**6)
    passage.feed(chunk(call(0, '{"a":1}', name="f", id="c")))
    shown = passage.feed(chunk(call(1, '{"b"', name="g", id="d")))
    kinds = [name for name, _ in frames(shown)]
    assert kinds == ["content_block_stop", "content_block_start", "content_block_delta"]


def test_mixed_calls_wait_for_the_first_to_end_and_text_keeps_its_place() -> None:
    passage = StreamTranslator(CHAT, MESSAGES, WANTED, 10**6)
    passage.feed(chunk(call(0, '{"a"', name="f", id="c")))
    assert passage.feed(chunk(call(1, '{"b"', name="g", id="d"))) == b""
    assert passage.feed(chunk({"content": "by"})) == b""
    assert passage.feed(chunk({"content": " the way"})) == b""
    assert b":1}" in passage.feed(chunk(call(0, ":1}")))
    assert passage.feed(chunk(call(1, ":2}"))) == b""
    shown = passage.feed(chunk({}, "tool_calls"))
    texts = [json.loads(data) for name, data in frames(shown) if name == "content_block_start"]
    assert [start["content_block"]["type"] for start in texts] == ["tool_use", "text"]


def test_text_after_a_whole_call_is_shown_at_once() -> None:
    passage = StreamTranslator(CHAT, RESPONSES, WANTED, 10**6)
    passage.feed(chunk(call(0, "{}", name="f", id="c")))
    assert b'"delta":"So"' in passage.feed(chunk({"content": "So"}))


def test_a_call_that_goes_on_after_it_was_whole_fails() -> None:
    stream = (
        chunk(call(0, "{}", name="f", id="c"))
        + chunk(call(1, "{}", name="g", id="d"))
        + chunk(call(0, " \n"))
    )
    ends = chunk({}, "tool_calls") + DONE
    assert len(hear(stream + ends, CHAT, MESSAGES).calls) == 2
    heard = hear(stream + chunk(call(0, "x")) + ends, CHAT, MESSAGES)
    assert heard.error is not None
    assert "went on with a call" in heard.error["message"]


def test_waiting_pieces_are_bounded() -> None:
    stream = chunk(call(0, '{"a"', name="f", id="c")) + chunk(call(1, "x" * 9, name="g", id="d"))
    heard = HEARD[MESSAGES](translated(stream, CHAT, MESSAGES, limit=200))
    assert heard.error is not None
    assert "More than 200 bytes" in heard.error["message"]


def test_the_number_of_calls_is_bounded() -> None:
    many = b"".join(chunk(call(at, "{}", name="f", id=f"c{at}")) for at in range(1001))
    heard = hear(many, CHAT, RESPONSES)
    assert heard.error is not None
    assert "more than 1000 tools" in heard.error["message"]


def test_a_calls_end_that_is_marked_without_a_reason() -> None:
    assert hear(chunk({"content": "Hi"}) + DONE, CHAT, MESSAGES).stop == "end_turn"
    stream = chunk(call(0, "{}", name="f", id="c")) + DONE
    assert hear(stream, CHAT, MESSAGES).stop == "tool_use"


@pytest.mark.parametrize("target", (MESSAGES, RESPONSES))
def test_an_end_that_only_the_upstream_has_a_word_for_is_told_in_it(target: str) -> None:
    stream = chunk({"content": "Hi"}) + chunk({}, "insufficient_system_resource") + DONE
    assert hear(stream, CHAT, target).stop == "insufficient_system_resource"


def test_an_end_without_the_mark_counts_and_data_after_the_end_does_not() -> None:
    passage = StreamTranslator(CHAT, MESSAGES, WANTED, 10**6)
    passage.feed(chunk({"content": "Hi"}, "stop"))
    assert not passage.ended
    assert b"message_stop" in passage.close()
    assert passage.ended
    assert passage.feed(chunk({"content": "more"})) == b""
    assert passage.close() == b""


def test_a_last_frame_without_its_empty_line_counts() -> None:
    stream = chunk({"content": "Hi"}, "stop") + DONE.rstrip()
    passage = StreamTranslator(CHAT, MESSAGES, WANTED, 10**6)
    assert b"message_stop" in passage.feed(stream) + passage.close()


def test_data_after_the_end_in_the_same_read_does_not_count() -> None:
    stream = chunk({"content": "Hi"}, "stop") + DONE + chunk({"content": "more"}) + DONE
    assert hear(stream, CHAT, MESSAGES).text == "Hi"


def test_a_stop_sequence_that_is_known() -> None:
    stream = chunk({"content": "Hi"}, "stop", stop_reason="###") + DONE
    shown = translated(stream, CHAT, MESSAGES)
    assert b'"stop_reason":"stop_sequence","stop_sequence":"###"' in shown


def test_content_in_parts_and_reasoning_under_another_name() -> None:
    stream = (
        chunk({"reasoning": "Hm."})
        + chunk({"content": [{"type": "text", "text": "Hi"}, 1, {"type": "other"}]})
        + chunk({"content": 5, "refusal": ""})
        + chunk(None)
        + chunk({}, "stop")
    )
    heard = hear(stream + DONE, CHAT, RESPONSES)
    assert (heard.thought, heard.text) == ("Hm.", "Hi")


def test_other_choices_and_chunks_of_no_choice_say_nothing() -> None:
    other = data({"choices": [{"index": 1, "delta": {"content": "no"}}]})
    stream = data({"choices": []}) + chunk({"content": "Hi"}) + other + data({"choices": "odd"})
    assert hear(stream + chunk({}, "stop") + DONE, CHAT, MESSAGES).text == "Hi"


def test_odd_calls_say_nothing() -> None:
    stream = chunk({"content": "Hi", "tool_calls": [1]}) + chunk({"tool_calls": {"a": 1}})
    assert hear(stream + chunk({}, "stop") + DONE, CHAT, MESSAGES).calls == []


def test_usage_that_is_none() -> None:
    stream = chunk({"content": "Hi"}, "stop") + data({"usage": 5}) + DONE
    assert hear(stream, CHAT, RESPONSES).usage is None
    assert hear(stream, CHAT, MESSAGES).usage == {"input_tokens": 0, "output_tokens": 0}


@pytest.mark.parametrize("first", [DONE, data({"choices": []}) + DONE])
def test_an_end_before_the_beginning_is_broken(first: bytes) -> None:
    with pytest.raises(UpstreamBroke):
        translated(first, CHAT, MESSAGES)


def test_an_error_beside_choices_is_an_error() -> None:
    failing = data({"choices": [{"index": 0, "finish_reason": "error"}], "error": {"code": 503}})
    heard = hear(chunk({"content": "Hi"}) + failing, CHAT, MESSAGES)
    assert heard.error == {"type": "overloaded_error", "message": "The upstream answered 503."}


@pytest.mark.parametrize("word", ["", "null"])
def test_a_word_for_no_end_yet_ends_nothing(word: str) -> None:
    begun = chunk({"content": "Hi"}, word) + chunk(call(0, "{}", name="f", id="c1"), word)
    heard = hear(begun + chunk({}, "tool_calls") + DONE, CHAT, MESSAGES)
    assert (heard.text, heard.calls, heard.stop) == ("Hi", [("c1", "f", "{}")], "tool_use")
    assert hear(begun + chunk({}, "tool_calls") + DONE, CHAT, RESPONSES).stop == "completed"
    with pytest.raises(UpstreamBroke):
        translated(begun, CHAT, MESSAGES)
