"""Who said what in a Chat Completions request, and changing only what users said."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.openai_chat import DIALECT


def body(*messages: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages, "seed": 1}).encode()


def says(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def edited(*messages: Any, edit: Callable[[str], str] = str.upper) -> Any:
    return json.loads(DIALECT.edit_user_texts(body(*messages), edit))["messages"]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


IMAGE = {"type": "image_url", "image_url": {"url": "u"}}


@pytest.mark.parametrize(
    "messages, expected",
    [
        ([says("user", "a"), says("assistant", "b"), says("tool", "c")], (1, ("a",))),
        ([says("user", ""), says("user", "")], (2, ("",))),
    ],
)
def test_the_newest_user_message(messages: list[Any], expected: Any) -> None:
    assert DIALECT.newest_user(body(*messages)) == expected


def test_system_texts() -> None:
    messages = (
        says("system", "a"),
        says("user", "b"),
        says("developer", [text("c"), IMAGE, text("d")]),
        says("system", None),
        says("assistant", "e"),
        says("system", "f"),
    )
    assert DIALECT.system_texts(body(*messages)) == ("a", "c", "d", "f")
    assert DIALECT.system_texts(body()) == ()


def test_only_users_texts_that_may_hold_a_directive_are_changed() -> None:
    others = [
        says("system", "a <**"),
        says("assistant", "b <**", name="<**"),
        says("tool", [text("c <**")]),
        says("user", "d"),
        says("user", [text("e")]),
        7,
        {"role": ["user"], "content": "f <**"},
    ]
    assert edited(*others, says("user", "g <**")) == [*others, says("user", "G <**")]


def test_all_users_texts_are_changed_old_and_new() -> None:
    old = says("user", [text("a <**", id=1), IMAGE, text("b")], name="n")
    assert edited(old, says("assistant", "c"), says("user", "d <**")) == [
        says("user", [text("A <**", id=1), IMAGE, text("B")], name="n"),
        says("assistant", "c"),
        says("user", "D <**"),
    ]


def nothing(_: str) -> str:
    return ""


@pytest.mark.parametrize(
    "content, expected",
    [
        ([IMAGE, text("<**x"), text("y")], [IMAGE]),
    ],
)
def test_what_becomes_empty(content: Any, expected: Any) -> None:
    """A part is dropped, a message becomes a dot."""
    assert edited(says("user", content, mark="<**"), edit=nothing) == [
        says("user", expected, mark="<**")
    ]


def test_what_was_empty_stays_empty() -> None:
    """Only what we made empty is ours to mend."""
    messages = [says("user", "", name="<**"), says("user", [text(""), text("a <**")])]
    assert edited(*messages, edit=lambda words: words.removesuffix(" <**")) == [
        says("user", "", name="<**"),
        says("user", [text(""), text("a")]),
    ]


@pytest.mark.parametrize("escaped", ["\\u003c**", "<\\u002A*", "\\u003C\\u002a*"])
def test_marks_written_with_escapes_are_found(escaped: str) -> None:
    sent = body(says("user", "MARK a")).replace(b"MARK", escaped.encode())
    assert json.loads(DIALECT.edit_user_texts(sent, str.upper))["messages"] == [
        says("user", "<** A")
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.just("<**clear**>"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
PARTS = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text() | st.just("<** x")}) | JSON,
    max_size=4,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", "tool"]) | JSON},
        optional={"content": JSON | PARTS | st.text().map("<**".__add__), "name": JSON},
    )
    | JSON,
    max_size=5,
)


@given(MESSAGES)
def test_whatever_the_messages_are_only_users_texts_change(messages: list[Any]) -> None:
    sent = body(*messages)
    DIALECT.newest_user(sent)
    DIALECT.system_texts(sent)
    marked = edited(*messages, edit=lambda words: words + "!")
    for before, changed in zip(messages, marked, strict=True):
        if changed != before:
            assert before["role"] == "user"
            assert {**changed, "content": 0} == {**before, "content": 0}
            assert len(changed["content"]) >= len(before["content"])
