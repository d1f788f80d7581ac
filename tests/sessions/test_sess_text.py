"""Where directives act and where they are text; and that all else goes upstream as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.run import in_process
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    Message,
    assistant,
    look,
    messages,
    model,
    system,
    talk,
    text_of,
    told,
    user,
)

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FENCED = f"see\n```\n{GO_ON}\n```\nthat"
ELSEWHERE: dict[str, list[Message]] = {
    "an assistant's text": [user("hi"), assistant(GO_ON), user("go")],
    "the last text, an assistant's": [user("hi"), assistant(GO_ON)],
    "a system text": [system(GO_ON), user("hi")],
    "a developer's text": [{"role": "developer", "content": GO_ON}, user("hi")],
    "a tool's result": [
        user("hi"),
        CALLED,
        {"role": "tool", "tool_call_id": "c", "content": GO_ON},
    ],
    "a fenced block": [user(FENCED)],
    "a fence of tildes": [user(f"~~~ text\n{GO_ON}\n~~~")],
    "a fence that never ends": [user(f"```\n{GO_ON}")],
    "inline code": [user(f"what is `{GO_ON}`?")],
    "two backticks": [user(f"what is ``{GO_ON} ` ``?")],
    "a quote": [user(f"he wrote:\n> {GO_ON}\nwhy?")],
    "a text part's code": [user([{"type": "text", "text": FENCED}])],
    "a name": [{**user("hi"), "name": "<**clear**>"}],
    "a part that is no text": [user([{"type": "image_url", "image_url": {"url": GO_ON}}])],
    "a fence in the middle of a line": [user(f"see ```\n\n{GO_ON}\n\n``` that")],
    "indented code": [user(f"see:\n\n    {GO_ON}\n\nthat")],
    "nothing closed": [user("<**stopMessage:go on")],
    "two lines of an unknown mark": [user("2 <** 3\n4 **> 5")],
    "an unknown mark that is too long": [user(f"<**{'x' * 8192}**>")],
}


@pytest.mark.parametrize("name", ELSEWHERE)
async def test_nothing_acts_and_nothing_is_changed_in(name: str) -> None:
    body = talk(*ELSEWHERE[name], unknown=[1.10, {"b": 1, "a": 2}])
    async with in_process(model()) as gate:
        answer = await gate.ask(body, SESSION)
        assert text_of(answer) == "answer 1"
        assert not told(answer)
        (request,) = gate.requests
        assert request.body == body
        assert (await look(gate)).status == 404


UNKNOWN: dict[str, tuple[str, str]] = {
    '<**stopmesage:"go",3**>hi': ("hi", "did you mean <**stopMessage:text**>?"),
    "<**nobody.model**>hi": ("hi", "known directives: stopMessage:text, "),
    "2<**3**>4": ("24", "known directives: stopMessage:text, "),
    "<**A**>": (".", "did you mean <**!a**>?"),
}


@pytest.mark.parametrize("said", UNKNOWN)
async def test_an_unknown_mark_is_removed_and_reported(said: str) -> None:
    expected, hint = UNKNOWN[said]
    async with in_process(model(), model()) as gate:
        answer = await gate.ask(talk(said), SESSION)
        assert text_of(answer) == "answer 1"
        assert told(answer).startswith('ignored; reason="unknown: no directive is called ')
        assert hint in told(answer)
        assert (await look(gate)).status == 404
        later = await gate.ask(talk(said, assistant("x"), "and now?"), SESSION)
        assert not told(later)
        assert [messages(r)[0] for r in gate.requests] == [user(expected)] * 2


@pytest.mark.parametrize("said", UNKNOWN)
async def test_unknown_marks_stay_where_the_operator_wants_them(said: str) -> None:
    async with in_process(model(), directives__keep_unknown=True) as gate:
        answer = await gate.ask(talk(said + "<**#b**>"), SESSION)
        assert told(answer).startswith('ignored; reason="#: no upstream is called')
        assert messages(gate.requests[0]) == [user(said)]


TOO_MUCH = {
    "a text with more than 1000 marks": "<**clear**>" * 1001,
    "a text of more than 1048576 bytes": "x" * 1024**2 + "<**clear**>",
}


@pytest.mark.parametrize("name", TOO_MUCH)
async def test_a_text_that_is_too_much_is_left_as_it_is(name: str) -> None:
    said = TOO_MUCH[name]
    async with in_process(model()) as gate:
        answer = await gate.ask(talk(said), SESSION)
        assert text_of(answer) == "answer 1"
        assert told(answer) == f'ignored; reason="directives: {name} is not searched"'
        assert messages(gate.requests[0]) == [user(said)]
        assert (await look(gate)).status == 404


async def test_a_full_width_sign_excludes() -> None:
    async with in_process(model("a"), model("b")) as gate:
        answer = await gate.ask(talk("<**＃a**> hi"), SESSION)
        assert (text_of(answer), told(answer)) == ("b", "set")


OLDER: dict[str, tuple[Any, Any]] = {
    "a stop message": (f"{GO_ON} do it", " do it"),
    "routing": ("<**!a**>do <**#a**>it<**@a**>", "do it"),
    "a route": ("<**a.other**>do it", "do it"),
    "a clear": ("<**clear**>", "."),
    "unreadable": ('<**stopMessage:"a" b**>do <**!nobody**>it', "do it"),
    "parts": (
        [{"type": "text", "text": GO_ON}, {"type": "text", "text": f"a{GO_ON}"}],
        [{"type": "text", "text": "a"}],
    ),
    "nothing but parts": ([{"type": "text", "text": GO_ON}], [{"type": "text", "text": "."}]),
}


@pytest.mark.parametrize("name", OLDER)
async def test_older_directives_do_not_act_and_are_taken_out(name: str) -> None:
    said, expected = OLDER[name]
    async with in_process(model()) as gate:
        answer = await gate.ask(talk(user(said), assistant("done"), "and now?"), SESSION)
        assert not told(answer)
        (request,) = gate.requests
        assert messages(request) == [user(expected), assistant("done"), user("and now?")]
        assert json.loads(request.body)["model"] == "m"
        assert (await look(gate)).status == 404


async def test_what_was_newest_is_sent_the_same_when_it_is_old() -> None:
    """Else the upstream's prompt cache would be of no use."""
    said = f"\n{GO_ON} one `{GO_ON}` <**#b**> two\n"
    async with in_process(model(), model()) as gate:
        await gate.ask(talk(said), SESSION)
        first = messages(gate.requests[0])
        await gate.ask(talk(said, assistant("answer 1"), "next"), SESSION)
        later = messages(gate.fakes[0].requests[4])
    assert first == later[:1] == [user(f"\n one `{GO_ON}`  two\n")]


EXACT = (
    b'{"role" : "user","content": "<b> \\u00e9\\u2028 \\/ \xc3\xa9", "n":1.10,"x":1e400}',
    b'{"role":"assistant","content":"\\u003c**clear**> ok","refusal":null}',
    b'{ "role":"tool", "tool_call_id":"c", "content":[{"type":"text","text":"<**clear**>"}] }',
    b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":1.0}}]}',
    b'{"role":"user","content":"` <**clear**> `"}',
    b'{"content":null,"role":"user"}',
    b"17",
    b'{"role":7,"content":"<**clear**>"}',
)
CHANGED = b'{"role":"user", "content":"<**stopMessage:x,1**>  hi\\n", "big":1e400, "f":1.10}'
PARTS = b'[{"type":"text","text":"<**clear**> a","k":12345678901234567890123, "z":1e400}, 5]'


async def test_messages_without_directives_are_passed_on_byte_for_byte() -> None:
    body = b'{"model":"m", "seed": 1.0,"messages":[' + b" ,\n".join((*EXACT, CHANGED))
    body += b'],"stream":true,"z":[1.50]}'
    async with in_process(model()) as gate:
        assert told(await gate.ask(body, SESSION)) == "set"
        sent = gate.requests[0].body
    for message in EXACT:
        assert message.strip() in sent
    assert b'"  hi\\n"' in sent
    assert b'"big":1e400,"f":1.10' in sent
    assert b'"seed":1.0' in sent
    assert b'"z":[1.50]' in sent
    assert b"stopMessage" not in sent


async def test_beside_a_changed_text_its_part_stays_as_it_was() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":' + PARTS + b'}],"stream":true}'
    async with in_process(model()) as gate:
        assert told(await gate.ask(body, SESSION)) == "set"
        sent = gate.requests[0].body
    part = b'[{"type":"text","text":" a","k":12345678901234567890123,"z":1e400},5]'
    assert b'"content":' + part in sent


ODD: dict[str, tuple[str, str]] = {
    "zero-width characters first": ("\u200b\ufeff<**\u200bclear**>x", "\u200b\ufeffx"),
    "written with escapes": ("<**clear**>", "."),
    "letter case and blanks": ("<** Clear\n**> x", " x"),
    "one that comes about": ("<**cl<**clear**>ear**> x", " x"),
    "the end in quotes": ('<**stopMessage:"a **> b",1**> x', " x"),
    "Chinese marks": ("<**stopMessage：“继续”，1**>开始", "开始"),
    "a model in quotes after it": ('<**stopMessage:"a",1**> "b" **>', ' "b" **>'),
}


@pytest.mark.parametrize("name", ODD)
async def test_directives_in_odd_spellings(name: str) -> None:
    said, expected = ODD[name]
    body = talk(said)
    if name == "written with escapes":
        body = body.replace(b"<**", b"\\u003C\\u002a*")
    async with in_process(model()) as gate:
        assert told(await gate.ask(body, SESSION)) == "set"
        assert messages(gate.requests[0]) == [user(expected)]


async def test_the_newest_user_message_acts_though_others_follow_it() -> None:
    said = [user(GO_ON + "hi"), CALLED, {"role": "tool", "tool_call_id": "c", "content": "ok"}]
    async with in_process(model()) as gate:
        assert told(await gate.ask(talk(*said), SESSION)) == "set"
        assert len(gate.requests) == 4
