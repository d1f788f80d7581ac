"""Requests through the canonical form: what a dialect can carry comes back as it went in."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.canonical import Conversation
from gateway.dialects.profiles import NONE, PROFILES, Profile
from gateway.dialects.translate.json_node import Losses
from gateway.dialects.translate.requests import READERS, WRITERS, translate_request
from gateway.errors import BadRequest
from tests.dialects.conversations import conversations

DIALECTS = sorted(READERS)
PAIRS = [(a, b) for a in DIALECTS for b in DIALECTS if a != b]
FORBIDDEN = {"tool_use", "tool_call", "tool_result"}


def write(dialect: str, said: Conversation, profile: Profile = NONE) -> bytes | None:
    """Write a conversation; nothing where that is refused."""
    try:
        return WRITERS[dialect](said, profile, Losses()).write()
    except BadRequest:
        return None


def types_in(value: Any) -> set[Any]:
    if isinstance(value, list):
        return set().union(*map(types_in, value))
    if not isinstance(value, dict):
        return set()
    return {value.get("type")}.union(*map(types_in, value.values()))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=50)
@given(st.data())
def test_what_a_dialect_can_carry_is_carried(dialect: str, data: st.DataObject) -> None:
    said, losses = data.draw(conversations(dialect)), Losses()
    written = WRITERS[dialect](said, NONE, losses).write()
    assert msgspec.structs.replace(READERS[dialect](written), lost=()) == said
    assert losses.names == ()


@settings(max_examples=50)
@given(conversations(""))
def test_what_was_carried_once_is_carried_ever_after(said: Conversation) -> None:
    for dialect in DIALECTS:
        written = write(dialect, said)
        if written is not None:
            again = write(dialect, READERS[dialect](written))
            assert again is not None
            assert again == write(dialect, READERS[dialect](again))


@pytest.mark.parametrize("client, upstream", PAIRS)
@settings(max_examples=20)
@given(st.data())
def test_any_client_can_ask_any_upstream(client: str, upstream: str, data: st.DataObject) -> None:
    said = data.draw(conversations(client))
    asked = WRITERS[client](said, NONE, Losses()).write()
    try:
        translated = translate_request(asked, client, upstream)
    except BadRequest:
        return
    read = READERS[upstream](translated.body)
    assert (read.model, read.stream) == (said.model, said.stream)
    assert {tool.name for tool in read.tools} == {tool.name for tool in said.tools}


@settings(max_examples=50)
@given(conversations(""), st.sampled_from(list(PROFILES.values())))
def test_no_part_of_another_dialect_reaches_a_chat_upstream(
    said: Conversation, profile: Profile
) -> None:
    written = write("openai-chat", said, profile)
    messages = json.loads(written)["messages"] if written else []
    assert not FORBIDDEN & types_in([message.get("content") for message in messages])
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            assert isinstance(message["content"], str)
        else:
            assert waiting == []
        waiting += [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


def test_the_same_dialect_passes_as_it_is() -> None:
    body = b"whatever"
    assert translate_request(body, "openai-chat", "openai-chat").body is body


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def spoiled(draw: st.DrawFn, dialect: str) -> bytes:
    """A request in which something somewhere is not what it should be."""
    request = json.loads(WRITERS[dialect](draw(conversations(dialect)), NONE, Losses()).write())
    holder, key = request, draw(st.sampled_from(sorted(request)))
    while isinstance(holder[key], dict | list) and holder[key] and draw(st.integers(0, 4)):
        holder = holder[key]
        keys = sorted(holder) if isinstance(holder, dict) else range(len(holder))
        key = draw(st.sampled_from(list(keys)))
    holder[key] = draw(junk)
    return json.dumps(request).encode()


@pytest.mark.parametrize("client, upstream", PAIRS)
@settings(max_examples=30)
@given(st.data())
def test_a_spoiled_request_is_refused_or_understood(
    client: str, upstream: str, data: st.DataObject
) -> None:
    body = data.draw(spoiled(client))
    try:
        translated = translate_request(body, client, upstream)
    except BadRequest:
        return
    assert READERS[upstream](translated.body).model == json.loads(body)["model"]


@given(st.binary(max_size=30))
def test_what_is_no_request_is_refused(body: bytes) -> None:
    for read in READERS.values():
        with pytest.raises(BadRequest):
            read(body)
