"""Odd bytes and errors, in every dialect."""

import json

import pytest

from gateway.dialects.translate.answers import StreamTranslator
from gateway.errors import UpstreamAnswered, UpstreamBroke
from tests.dialects.answers_wire import (
    CHAT,
    HEARD,
    MESSAGES,
    PAIRS,
    RESPONSES,
    WANTED,
    data,
    event,
    fixture,
    translated,
)


@pytest.mark.parametrize("source, target", PAIRS)
def test_what_is_no_character_is_replaced(source: str, target: str) -> None:
    stream = fixture(source, "text").replace("上海".encode(), b"\xff", 1)
    assert "�" in HEARD[target](translated(stream, source, target)).text
    halves = fixture(source, "text").replace("上海".encode(), rb"\ud83d", 1)
    assert "�" in HEARD[target](translated(halves, source, target)).text


@pytest.mark.parametrize("source, target", PAIRS)
def test_an_event_that_cannot_be_read_ends_the_answer(source: str, target: str) -> None:
    with pytest.raises(UpstreamBroke):
        translated(b"data: {nonsense\n\n", source, target)
    begun = fixture(source, "error")
    begun = begun[: begun.find(b"Well,")]
    begun = begun[: begun.rfind(b"\n\n") + 2]
    heard = HEARD[target](translated(begun + b"data: {nonsense\n\n", source, target))
    assert heard.error is not None
    assert heard.error["message"] == "The upstream sent an event that cannot be read."


@pytest.mark.parametrize("source, target", PAIRS)
def test_events_of_no_known_kind_or_shape_say_nothing(source: str, target: str) -> None:
    odd = [
        b": comment\n\n",
        b"data:\n\n",
        b"event: x\nid: 1\ndata: 5\n\n",
        b"event: ping\n\n",
        data([1]),
        event("something.new", value=1),
        event("content_block_start", index="a"),
        event("response.output_item.added", output_index="a"),
    ]
    events = [frame + b"\n\n" for frame in fixture(source, "text").split(b"\n\n") if frame]
    mixed = b"".join(odd) + b"".join(frame + b"".join(odd) for frame in events)
    if source != CHAT:
        mixed = mixed.replace(b"data: [DONE]\n\n", b"")
    assert translated(mixed, source, target) == translated(b"".join(events), source, target)


@pytest.mark.parametrize("source, target", PAIRS)
def test_data_may_stand_on_several_lines(source: str, target: str) -> None:
    spread = fixture(source, "text").replace(b'data: {"', b'data: {\ndata: "')
    assert translated(spread, source, target) == translated(fixture(source, "text"), source, target)


def test_an_event_that_is_too_long_is_broken() -> None:
    passage = StreamTranslator(CHAT, MESSAGES, WANTED, 100)
    with pytest.raises(UpstreamBroke):
        passage.feed(b"data: " + b"x" * 200)


ERROR_FIRST = {
    CHAT: data({"error": {"message": "No.", "type": "invalid_request_error", "code": 400}}),
    MESSAGES: event("error", error={"type": "invalid_request_error", "message": "No."}),
    RESPONSES: event("error", code="invalid_prompt", message="No.", param=None),
}


@pytest.mark.parametrize("source, target", PAIRS)
def test_an_error_that_comes_first_is_an_answer_of_its_own(source: str, target: str) -> None:
    with pytest.raises(UpstreamAnswered) as caught:
        translated(ERROR_FIRST[source], source, target)
    assert caught.value.status == 400
    error = json.loads(caught.value.body)["error"]
    assert (error["type"], error["message"]) == ("invalid_request_error", "No.")
