"""Requests in which anything may be anything: refused with a reason, or understood."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES
from gateway.dialects.translate.answer_context import read_context
from gateway.dialects.translate.requests import READERS, translate_request
from gateway.errors import BadRequest
from gateway.exchange.additions import ToolDeclaration, ToolResult, UserText
from gateway.sessions.identity import identify
from tests.dialects.samples import SAMPLES, Json
from tests.dialects.test_translate_round_trips import DIALECTS as NAMES
from tests.dialects.test_translate_round_trips import FORBIDDEN, PAIRS, types_in
from tests.dialects.translation import CHAT, MESSAGES, lost, told

Path = tuple[Any, ...]

DEPTH = 128
CLOCK = ToolDeclaration("clock", "tells the time", '{"type":"object"}', strict=False)
# What stands in the way of most changes: without them, others are looked at.
OPTIONAL = ("tool_choice", "functions", "function_call", "response_format", "text", "thinking")
PLAIN = (None, True, 0, -1, 1.5, 10**30, "", "x", "<**x**>", "{}", "\ud800", "\x00")
DEEPER: tuple[Any, ...] = (
    [],
    {},
    [[]],
    [None],
    [{}],
    [1, "a"],
    {"type": []},
    {"name": {}},
    {"\ud800": 1},
)
JUNK = st.sampled_from([*PLAIN, *DEEPER])


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Return where things stand inside of a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def inside(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def change(draw: st.DrawFn, request: Json) -> None:
    """Put something else somewhere: nothing, junk, or what stands elsewhere."""
    found = list(places(request))
    *way, key = draw(st.sampled_from(found))
    holder = inside(request, tuple(way))
    match draw(st.sampled_from("-=#")):
        case "-":
            del holder[key]
        case "=":
            holder[key] = deepcopy(inside(request, draw(st.sampled_from(found))))
        case _:
            holder[key] = deepcopy(draw(JUNK))


@st.composite
def changed(draw: st.DrawFn, dialect: str) -> bytes:
    request = deepcopy(SAMPLES[dialect])
    for name in draw(st.lists(st.sampled_from(OPTIONAL), unique=True)):
        request.pop(name, None)
    for _ in range(draw(st.integers(0, 4))):
        if request:
            change(draw, request)
    return json.dumps(request, separators=(",", ":")).encode()


@pytest.mark.parametrize("client, upstream", PAIRS)
@settings(max_examples=60)
@given(st.data())
def test_a_changed_request_is_refused_or_told(
    client: str, upstream: str, data: st.DataObject
) -> None:
    body = data.draw(changed(client))
    profile = data.draw(st.sampled_from(list(PROFILES.values())))
    try:
        sent = translate_request(body, client, upstream, profile).body
    except BadRequest:
        return
    assert READERS[upstream](sent).model == json.loads(body)["model"]
    if upstream == CHAT:
        said = [message["content"] for message in json.loads(sent)["messages"]]
        assert not FORBIDDEN & types_in(said)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150)
@given(st.data())
def test_a_changed_request_is_refused_or_stays_as_it_is(name: str, data: st.DataObject) -> None:
    dialect, body = DIALECTS[name], data.draw(changed(name))
    try:
        asked = dialect.read(body, DEPTH)
        identify((), asked.identity)
    except BadRequest:
        return
    assert asked.body == body
    read_context(asked, name, "s", 0)
    dialect.declares(asked.tools, "clock")
    dialect.find_call_ids(body)
    dialect.newest_user(body)
    dialect.system_texts(body)
    before = json.loads(body)
    for after in (
        dialect.rewrite(body, "other", True),
        dialect.add(body, (CLOCK,)),
        dialect.add(body, (dialect.make_assistant_turn("So."), UserText("Well?"))),
        dialect.add(body, (ToolResult("a", "one"),)),
        dialect.edit_user_texts(body, lambda text: text.replace("<**x**>", "")),
    ):
        _stays(before, json.loads(after))
    json.loads(dialect.strip_tools(body))


def _stays(before: Json, after: Json) -> None:
    """Whatever may not change is the same, and all of it in its order."""
    ours = ("model", "stream", "messages", "input", "tools", "tool_choice")
    assert [key for key in after if key in before] == [key for key in before if key in after]
    assert before.keys() - after.keys() <= {"tool_choice"}
    for key in before.keys() - set(ours):
        assert after[key] == before[key]


@pytest.mark.parametrize("client, upstream", PAIRS)
def test_the_samples_are_told(client: str, upstream: str) -> None:
    sample = deepcopy(SAMPLES[client])
    if client != MESSAGES:
        speaker = sample["messages"][2] if client == CHAT else sample["input"][1]
        # Only who gave a file its id knows it.
        speaker["content"].pop()
    assert told(client, upstream, **sample)["model"] == "m"
    assert "x_unknown" in lost(client, upstream, **sample)
