"""Where the empty line stands that sets a later turn's text apart."""

from __future__ import annotations

from gateway.dialects.anthropic_messages.turn import unroll_block
from gateway.dialects.openai_responses.gap import set_apart
from tests.dialects.responses_wire import Client, Json, call, message, run, splice, turn


def two_texts(ident: str, first: str, second: str) -> Json:
    item = message(ident, first)
    return {**item, "content": [*item["content"], *message(ident, second)["content"]]}


def test_only_the_first_text_of_a_turn_begins_with_it_wherever_it_is_told() -> None:
    answer = splice()
    first, _ = run(answer, turn(message("m", "One."), ident="a"))
    later = turn(two_texts("n", "Two.", "Three."), message("o", "Four."), ident="b")
    more, tap = run(answer, later)
    response = Client().read(first + more + answer.tail(neutral_finish=False))
    texts = [part["text"] for item in response["output"] for part in item["content"]]
    assert texts == ["One.", "\n\nTwo.", "Three.", "Four."]
    # The model's own words stay as they are.
    assert tap.text() == "Two.Three.\n\nFour."


def test_items_without_text_stay_as_they_are() -> None:
    silent = [call("c", "look"), message("m", ""), {"type": "message", "content": None}]
    assert set_apart(silent) == silent
    texts = set_apart([*silent, message("n", "x"), message("o", "y")])
    assert texts == [*silent, message("n", "\n\nx"), message("o", "y")]


def test_an_empty_block_has_no_pieces() -> None:
    begun, ended = unroll_block({"type": "text", "text": ""}, 0)
    assert (begun["type"], ended["type"]) == ("content_block_start", "content_block_stop")
