"""Who said what in a Responses request, and changing only what users said."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.openai_responses import DIALECT


def body(asked: Any, **more: Any) -> bytes:
    return json.dumps({"model": "m", "input": asked, "seed": 1, **more}).encode()


def says(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def typed(role: str, content: Any) -> dict[str, Any]:
    return says(role, content, type="message")


def edited(asked: Any, edit: Callable[[str], str] = str.upper) -> Any:
    return json.loads(DIALECT.edit_user_texts(body(asked), edit))["input"]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "input_text", "text": words, **more}


IMAGE = {"type": "input_image", "image_url": "u"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "x <**"}


@pytest.mark.parametrize(
    "asked, role",
    [
        ("hello", "user"),
        ("", "user"),
        ([says("user", "x")], "user"),
        ([typed("developer", "x")], "developer"),
        ([says("user", "x"), typed("assistant", [])], "assistant"),
        ([CALL], "assistant"),
        ([{"type": "reasoning", "id": "r", "summary": []}], "assistant"),
        ([{"type": "web_search_call", "id": "w"}], "assistant"),
        ([CALL, RESULT], "tool"),
        ([{"type": "computer_call_output", "call_id": "c", "output": {}}], "tool"),
        ([{"type": "mcp_approval_response", "approve": True}], "tool"),
        ([{"type": "item_reference", "id": "x"}], ""),
        ([{"role": 7}], ""),
        ([7], ""),
        ([], ""),
        (None, ""),
    ],
)
def test_who_spoke_last(asked: Any, role: str) -> None:
    assert DIALECT.read(body(asked), 128).last_role == role


@pytest.mark.parametrize(
    "asked, expected",
    [
        ("a", (1, ("a",))),
        ([typed("assistant", "a")], (0, ())),
        ([says("user", "a"), CALL, typed("user", [text("b"), IMAGE, text("c")])], (2, ("b", "c"))),
        ([says("user", "a"), CALL, RESULT], (1, ("a",))),
        ([says("user", "a", type="other")], (0, ())),
    ],
)
def test_the_newest_user_message(asked: Any, expected: Any) -> None:
    assert DIALECT.newest_user(body(asked)) == expected


def test_system_texts() -> None:
    items = [
        says("system", "b"),
        says("user", "x"),
        typed("developer", [text("c"), IMAGE, text("d")]),
    ]
    assert DIALECT.system_texts(body(items, instructions="a")) == ("a", "b", "c", "d")
    assert DIALECT.system_texts(body("x", instructions=None)) == ()
    assert DIALECT.system_texts(b'{"model":"m"}') == ()


def test_only_users_texts_that_may_hold_a_directive_are_changed() -> None:
    others = [
        says("system", "a <**"),
        typed("assistant", [{"type": "output_text", "text": "b <**"}]),
        RESULT,
        says("user", "d"),
        says("user", "e <**", type="other"),
        7,
    ]
    assert edited([*others, says("user", "g <**")]) == [*others, says("user", "G <**")]


def test_all_users_texts_are_changed_old_and_new() -> None:
    old = typed("user", [text("a <**", id=1), IMAGE, text("b")])
    assert edited([old, typed("assistant", "c"), says("user", "d <**")]) == [
        typed("user", [text("A <**", id=1), IMAGE, text("B")]),
        typed("assistant", "c"),
        says("user", "D <**"),
    ]
    assert edited("one <**x**>") == "ONE <**X**>"


def nothing(_: str) -> str:
    return ""


def test_a_text_that_becomes_empty() -> None:
    assert edited("<**x**>", nothing) == "."


def test_a_body_in_which_nothing_changes_stays_as_it_is() -> None:
    for asked in (b'"<** \\u0041"', b"7"):
        sent = b'{ "input" : %b,"model":"m","x":1.10}' % asked
        assert DIALECT.edit_user_texts(sent, lambda words: words) is sent


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("<**clear**>"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
PARTS = st.lists(
    st.fixed_dictionaries({"type": st.just("input_text"), "text": st.text() | st.just("<** x")})
    | JSON,
    max_size=4,
)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant"]) | JSON},
        optional={
            "type": st.sampled_from(["message", "function_call_output"]) | JSON,
            "content": JSON | PARTS | st.text().map("<**".__add__),
            "call_id": JSON,
        },
    )
    | JSON,
    max_size=5,
)


@given(ITEMS)
def test_whatever_the_items_are_only_users_texts_change(items: list[Any]) -> None:
    sent = body(items)
    DIALECT.newest_user(sent)
    DIALECT.system_texts(sent)
    DIALECT.read(sent, 128)
    DIALECT.find_call_ids(sent)
    for before, changed in zip(items, edited(items, lambda words: words + "!"), strict=True):
        if changed != before:
            assert before["role"] == "user"
            assert {**changed, "content": 0} == {**before, "content": 0}
            assert len(changed["content"]) >= len(before["content"])
