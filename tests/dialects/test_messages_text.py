"""Who said what in a Messages request, and changing only what users said."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.anthropic_messages import DIALECT


def body(*messages: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


def says(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def edited(*messages: Any, edit: Callable[[str], str] = str.upper) -> Any:
    return json.loads(DIALECT.edit_user_texts(body(*messages), edit))["messages"]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def result(content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "c", "content": content}


IMAGE = {"type": "image", "source": {"type": "url", "url": "u"}}
CACHE = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "messages, expected",
    [
        ([says("user", "a"), says("user", [result("b")])], (1, ("a",))),
        ([says("user", "a"), says("user", [result("b"), result([text("c")])])], (1, ("a",))),
        ([says("user", "a"), says("user", [result("b"), text("c")])], (2, ("c",))),
        ([says("user", "a"), says("user", [result("b"), IMAGE])], (2, ())),
        ([says("user", [])], (1, ())),
        ([says("user", '"tool_result"')], (1, ('"tool_result"',))),
        ([says("user", "a"), says("system", "b")], (1, ("a",))),
    ],
)
def test_the_newest_user_message(messages: list[Any], expected: Any) -> None:
    assert DIALECT.newest_user(body(*messages)) == expected


@pytest.mark.parametrize(
    "system, told",
    [
        ("a", ("a",)),
        ([text("a", **CACHE), text("b"), IMAGE, 7], ("a", "b")),
        (None, ()),
        ({"text": "a"}, ()),
    ],
)
def test_system_texts(system: Any, told: tuple[str, ...]) -> None:
    messages = (says("user", "x"), says("system", "c"), says("system", [text("d")]))
    assert DIALECT.system_texts(body(*messages, system=system)) == (*told, "c", "d")
    assert DIALECT.system_texts(body()) == ()


def test_only_users_texts_that_may_hold_a_directive_are_changed() -> None:
    others = [
        says("system", "a <**"),
        says("assistant", "b <**", name="<**"),
        says("user", [result("c <**"), result([text("d <**")])]),
        says("user", "d"),
        says("user", [text("e")]),
        7,
        {"role": ["user"], "content": "f <**"},
    ]
    assert edited(*others, says("user", "g <**")) == [*others, says("user", "G <**")]


def test_all_users_texts_are_changed_old_and_new() -> None:
    old = says("user", [result("<**"), text("a <**", **CACHE), IMAGE, text("b")], name="n")
    assert edited(old, says("assistant", "c"), says("user", "d <**")) == [
        says("user", [result("<**"), text("A <**", **CACHE), IMAGE, text("B")], name="n"),
        says("assistant", "c"),
        says("user", "D <**"),
    ]


def nothing(_: str) -> str:
    return ""


@pytest.mark.parametrize(
    "content, expected",
    [
        ([result("r"), text("<**x")], [result("r")]),
        ([IMAGE, text("<**x", **CACHE), text("y")], [IMAGE, text(".", **CACHE)]),
    ],
)
def test_what_becomes_empty(content: Any, expected: Any) -> None:
    """A block is dropped unless it ends a cached prefix, a message becomes a dot."""
    assert edited(says("user", content, mark="<**"), edit=nothing) == [
        says("user", expected, mark="<**")
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
BLOCKS = st.lists(
    st.builds(text, st.text() | st.just("<** x")) | st.builds(result, st.text()) | JSON, max_size=4
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant"]) | JSON},
        optional={"content": JSON | BLOCKS | st.text().map("<**".__add__), "name": JSON},
    )
    | JSON,
    max_size=5,
)


@given(MESSAGES)
def test_whatever_the_messages_are_only_users_texts_change(messages: list[Any]) -> None:
    sent = body(*messages)
    DIALECT.newest_user(sent)
    DIALECT.system_texts(sent)
    DIALECT.find_call_ids(sent)
    assert DIALECT.read(sent, 128).last_role != "system"
    marked = edited(*messages, edit=lambda words: words + "!")
    for before, changed in zip(messages, marked, strict=True):
        if changed != before:
            assert before["role"] == "user"
            assert {**changed, "content": 0} == {**before, "content": 0}
            assert len(changed["content"]) >= len(before["content"])
