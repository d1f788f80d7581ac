"""The fast paths of requests and of translated answers give what their general forms give.

Those of the taps are in test_taps_twins.py, those of whole bodies in the test of each dialect.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.base_dialect import BaseDialect
from gateway.dialects.canonical import Began, Event, Text
from gateway.dialects.openai_chat import rebuild as chat_rebuild
from gateway.dialects.raw_json import (
    drop_duplicates,
    fields_of,
    quote_names,
    raws_in,
    read_last,
    readable,
)
from gateway.dialects.seals import SIGNATURE, UNPROVEN
from gateway.dialects.text_editor import SpokenMessage
from gateway.dialects.translate.answer_context import (
    AnswerContext,
    ByteBudget,
    read_context,
    read_custom_tools,
)
from gateway.dialects.translate.answers import StreamTranslator
from gateway.dialects.translate.chat_answer_reader import ChatAnswerReader
from gateway.dialects.translate.chat_answer_writer import ChatAnswerWriter
from gateway.dialects.translate.event_data import extract_data
from gateway.dialects.translate.messages_answer_reader import MessagesAnswerReader
from gateway.dialects.translate.messages_answer_writer import MessagesAnswerWriter
from gateway.dialects.translate.responses_answer_reader import ResponsesAnswerReader
from gateway.errors import UpstreamBroke
from gateway.exchange.additions import Addition, ToolDeclaration, UserText
from gateway.exchange.model import ModelRequest
from gateway.wire.sse import Framer, data_of, split

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic-messages", "openai-responses"
CONTEXT = AnswerContext("m", "seed")
READER = msgspec.json.Decoder(SpokenMessage)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def budget() -> ByteBudget:
    return ByteBudget(10**6)


LINES = st.sampled_from(
    [
        b"data: {}",
        b"data:{}",
        b"data",
        b"data: ",
        b": note",
        b"event: x",
        b"event:x",
        b"id: 1",
        b"odd",
    ]
)
FRAMES = st.lists(st.lists(LINES, min_size=1, max_size=4), max_size=4)


@given(FRAMES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.binary(max_size=3))
def test_data_of_usual_frames_is_that_of_any(
    frames: list[list[bytes]], end: bytes, rest: bytes
) -> None:
    stream = b"".join(end.join(lines) + end + end for lines in frames) + rest
    framer = Framer()
    for batch in (framer.batch(stream), framer.flush()):
        expected = [data for frame in split(batch) if (data := data_of(frame))]
        assert extract_data(batch) == expected


class GeneralChatReader(ChatAnswerReader):
    """Reads every delta member by member."""

    __slots__ = ()

    def _is_plain(self, delta: Any) -> bool:
        return False


def heard(reader: ChatAnswerReader, chunk: bytes) -> list[Event] | str:
    try:
        return [*reader.read(chunk)]
    except UpstreamBroke as error:
        return error.message


DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.none() | TEXTS | st.just([{"text": "a"}, {"thinking": "b"}]),
        "reasoning_content": st.none() | TEXTS,
        "reasoning": st.none() | TEXTS,
        "refusal": st.none() | TEXTS,
        "tool_calls": st.none()
        | st.just([{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]),
    },
)


@given(st.lists(DELTAS, max_size=6))
def test_a_plain_chat_delta_is_read_as_any_other(deltas: list[dict[str, Any]]) -> None:
    chunks = [
        json.dumps({"id": "a", "model": "m", "choices": [{"delta": delta}]}).encode()
        for delta in deltas
    ]
    fast, general = ChatAnswerReader(CONTEXT, budget()), GeneralChatReader(CONTEXT, budget())
    for chunk in (*chunks, b"[DONE]") if chunks else ():
        assert heard(fast, chunk) == heard(general, chunk)


def messages_delta(index: int, text: object, typed: bool) -> bytes:
    kind = {"type": "text_delta"} if typed else {}
    return json.dumps(
        {"type": "content_block_delta", "index": index, "delta": {**kind, "text": text}}
    ).encode()


@given(st.lists(st.tuples(st.integers(0, 2), TEXTS | st.none() | st.integers()), max_size=6))
def test_a_text_delta_of_messages_is_read_as_any_other(deltas: list[tuple[int, object]]) -> None:
    fast, general = (MessagesAnswerReader(CONTEXT, budget()) for _ in range(2))
    for index, text in deltas:
        # Without its type, a delta is read by what is in it.
        told = [*fast.read(messages_delta(index, text, typed=True))]
        assert told == [*general.read(messages_delta(index, text, typed=False))]


PLACES = st.sampled_from([{"output_index": 0}, {"output_index": 1}, {"item_id": "m"}, {}])
NEWS = st.sampled_from(["response.output_text.delta", "response.refusal.delta"])


@given(st.lists(st.tuples(NEWS, PLACES, TEXTS | st.none()), max_size=8))
def test_a_text_of_responses_that_goes_on_is_read_as_any_other(
    news: list[tuple[str, dict[str, object], object]],
) -> None:
    fast, general = (ResponsesAnswerReader(CONTEXT, budget()) for _ in range(2))
    for kind, place, delta in news:
        data = json.dumps({"type": kind, **place, "delta": delta}).encode()
        general._speaking = None
        assert [*fast.read(data)] == [*general.read(data)]


@given(st.lists(TEXTS, min_size=2, max_size=4))
def test_a_piece_of_text_is_written_as_any_other_piece(texts: list[str]) -> None:
    chat = ChatAnswerWriter(CONTEXT, budget())
    chat.write(Began("a", "m"))
    assert [chat.say(text) for text in texts] == [chat._delta({"content": text}) for text in texts]
    fast, general = (MessagesAnswerWriter(CONTEXT, budget()) for _ in range(2))
    assert [fast.say(text) for text in texts] == [general._add(Text(text)) for text in texts]


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES])
@given(st.lists(TEXTS, max_size=5))
def test_texts_that_skip_the_converter_are_what_it_would_return(
    target: str, texts: list[str]
) -> None:
    fast, general = (StreamTranslator(CHAT, target, CONTEXT, 10**6) for _ in range(2))
    choices = [{"delta": {"content": text}} for text in texts]
    ends = {"delta": {}, "finish_reason": "stop"}
    for choice in (*choices, ends):
        data = json.dumps({"id": "a", "choices": [choice]}).encode()
        events: list[Event] = [*general._read(data)]
        written = b"".join([general._write(event) for event in events])
        assert fast.feed(b"data: " + data + b"\n\n") == written


MEMBERS = st.lists(
    st.tuples(st.sampled_from(["model", "stream", "x"]), st.sampled_from(["1", '"model"', "null"])),
    max_size=5,
)


@given(MEMBERS, st.sampled_from(["", " "]))
def test_members_are_as_they_were_read_whether_they_came_twice(
    members: list[tuple[str, str]], space: str
) -> None:
    pairs = (f'"{name}":{space}{value}' for name, value in members)
    body = ("{" + f",{space}".join(pairs) + "}").encode()
    once = drop_duplicates(body, quote_names("model", "stream"))
    assert fields_of(once) == fields_of(body)
    names = [name for name, _ in json.loads(once, object_pairs_hook=list)]
    assert all(names.count(name) <= 1 for name in ("model", "stream"))
    if (
        len({name for name, _ in members}) == len(members)
        and '"model"' not in dict(members).values()
    ):
        assert once is body


PIECES = st.sampled_from(
    ["model", ",", ":", "[", "]", '"', "\\", ' "model":"b"', "{", "}", "messages"]
)
HOSTILE = st.recursive(
    st.lists(PIECES, max_size=4).map("".join),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=2),
    max_leaves=8,
)


@given(
    st.lists(st.tuples(st.sampled_from(["model", "messages", "x"]), HOSTILE), max_size=6),
    st.lists(HOSTILE, max_size=3),
)
def test_no_member_hides_in_the_history(members: list[tuple[str, Any]], history: list[Any]) -> None:
    """A name is not looked for in the history; whatever stands there hides none beside it."""
    every = [*members, ("messages", history)]
    written = [f"{json.dumps(name)}:{dump_closely(value)}" for name, value in every]
    body = f"{{{','.join(written)}}}".encode()
    once = drop_duplicates(body, quote_names("model", "messages"), dump_closely(history).encode())
    names = [name for name, _ in json.loads(once, object_pairs_hook=list)]
    assert all(names.count(name) <= 1 for name in ("model", "messages"))
    assert fields_of(once) == fields_of(body)


def test_the_history_is_not_searched() -> None:
    history = b'[{"model":"a"},{"model":"b"}]'
    body = b'{"model":"m","messages":%b}' % history
    assert drop_duplicates(body, quote_names("model"), history) is body


def dump_closely(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


SPOKEN = st.fixed_dictionaries(
    {}, optional={"role": st.sampled_from(["user", "tool", "system"]) | HOSTILE, "content": HOSTILE}
)
SPEECH = st.lists(SPOKEN | HOSTILE, max_size=3)
ADDED = (
    ToolDeclaration("clock", "tells the time", "{}"),
    UserText('{"role":'),
    UserText("the time", fleeting=True),
)
ADDITIONS = st.lists(st.sampled_from(ADDED), max_size=3).map(tuple)
LISTS = {CHAT: "messages", RESPONSES: "input"}


@pytest.mark.parametrize("name", LISTS)
@given(
    SPEECH,
    st.lists(st.tuples(st.sampled_from(["x", "tool_choice", "conversation"]), HOSTILE), max_size=3),
    st.booleans(),
    ADDITIONS,
    st.booleans(),
    st.booleans(),
)
def test_additions_are_put_in_as_the_request_would_be_written_with_them(
    name: str,
    speech: list[Any],
    others: list[tuple[str, Any]],
    comes_first: bool,
    additions: tuple[Addition, ...],
    is_close: bool,
    is_nested: bool,
) -> None:
    dialect, member = DIALECTS[name], LISTS[name]
    # The same list may stand deeper, too: the one that is meant is the request's own.
    nested = dict(others) | {"metadata": {member: speech}} if is_nested else dict(others)
    asked = {member: speech, **nested} if comes_first else {**nested, member: speech}
    write = dump_closely if is_close else json.dumps
    body = write({"model": "m", **asked}).encode()
    read = dialect.read(body, 64)
    put_in = dialect.add(body, additions, read.history_end)
    written = dialect.add(body, additions)
    assert json.loads(put_in, object_pairs_hook=list) == json.loads(written, object_pairs_hook=list)
    if is_close:
        assert put_in == written


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("members", ['"a":1', '"tools":[]', '"tools":null', '"a":"\\\\"'])
def test_additions_are_put_in_where_it_is_sure_where(name: str, members: str) -> None:
    member = LISTS[name]
    body = f'{{"model":"m","{member}":[{{"role":"user","content":"a"}}],{members}}}'.encode()
    asked = DIALECTS[name].read(body, 64)
    assert asked.history_end == (body.index(b"]") + 1 if members == '"a":1' else 0)
    assert asked.with_body(b"{}").history_end == 0


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("additions", [ADDED, ADDED[:1], ADDED[1:], ()])
def test_additions_that_are_put_in_stand_at_the_end(
    name: str, additions: tuple[Addition, ...]
) -> None:
    dialect, member = DIALECTS[name], LISTS[name]
    body = f'{{"model":"m","{member}":[{{"role":"user","content":"a"}}],"a":1}}'.encode()
    end = dialect.read(body, 64).history_end
    assert end
    assert dialect.add(body, additions, end) == dialect.add(body, additions)


@given(SPEECH, st.booleans())
def test_the_last_item_is_the_one_that_all_items_end_with(speech: list[Any], close: bool) -> None:
    text = (dump_closely if close else json.dumps)(speech)
    items = raws_in(msgspec.Raw(text.encode())) or []
    last = read_last(READER, msgspec.Raw(text.encode()), b'{"role":')
    assert last is None or last == readable(READER, items[-1])


NAMES = st.sampled_from(["clock", "clocks", "cloc", "schedule_task"])
DECLARED: dict[str, Callable[[str], dict[str, object]]] = {
    CHAT: lambda name: {"type": "function", "function": {"name": name}},
    MESSAGES: lambda name: {"name": name, "description": "clock"},
    RESPONSES: lambda name: {"type": "function", "name": name},
}


@pytest.mark.parametrize("dialect", DECLARED)
@given(st.lists(NAMES, max_size=3), NAMES, st.booleans())
def test_a_declared_tool_is_found_however_its_name_is_written(
    dialect: str, declared: list[str], name: str, escapes: bool
) -> None:
    tools = json.dumps([DECLARED[dialect](other) for other in declared]).encode()
    if escapes:
        tools = tools.replace(b"cl", b"\\u0063l")
    assert DIALECTS[dialect].declares(tools, name) == (name in declared)


PROOFS = st.none() | st.sampled_from(["own", UNPROVEN, f"{SIGNATURE}x", "no holdgate:"])


@given(st.lists(st.tuples(PROOFS, TEXTS), max_size=4))
def test_foreign_reasoning_is_found_whether_it_is_searched_for(
    turns: list[tuple[str | None, str]],
) -> None:
    blocks = [
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": text, "signature": proof}],
        }
        for proof, text in turns
    ]
    items = [{"type": "reasoning", "encrypted_content": proof} for proof, _ in turns]
    for name, body in ((MESSAGES, {"messages": blocks}), (RESPONSES, {"input": items})):
        dialect, data = DIALECTS[name], json.dumps(body).encode()
        assert isinstance(dialect, BaseDialect)
        assert dialect.strip_foreign_reasoning(data) == dialect.strip_reasoning(data)


HISTORIES = st.lists(st.lists(st.sampled_from(["a", "b", ""]), max_size=2), max_size=3)


@given(HISTORIES)
def test_calls_are_found_whether_they_are_searched_for(turns: list[list[str]]) -> None:
    chat = [
        {"role": "assistant", **({"tool_calls": [{"id": call} for call in calls]} if calls else {})}
        for calls in turns
    ]
    data = json.dumps({"messages": chat}).encode()
    assert DIALECTS[CHAT].find_call_ids(data) == chat_rebuild.find_call_ids(data)
    blocks = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": call} for call in calls]}
        for calls in turns
    ]
    items = [{"type": "function_call", "call_id": call} for calls in turns for call in calls]
    for name, body in ((MESSAGES, {"messages": blocks}), (RESPONSES, {"input": items})):
        # With these words somewhere in it, every request is parsed.
        searched = json.dumps({**body, "x": ["tool_use", "call_id"]}).encode()
        found = DIALECTS[name].find_call_ids(json.dumps(body).encode())
        assert found == DIALECTS[name].find_call_ids(searched)


OFFERED = st.sampled_from(
    [
        {"type": "custom", "name": "a"},
        {"type": "custom", "custom": {"name": "b"}},
        {"type": "function", "name": "custom"},
        {"type": "function", "name": "c"},
    ]
)


@given(st.lists(OFFERED, max_size=3))
def test_tools_that_take_text_are_found_whether_they_are_searched_for(
    offered: list[dict[str, object]],
) -> None:
    tools = json.dumps(offered).encode()
    asked = ModelRequest(model="m", body=b"{}", tools=tools)
    assert read_context(asked, RESPONSES, "seed", 0).custom == read_custom_tools(tools)
