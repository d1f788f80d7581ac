"""Routing directives over several requests, with two or three upstreams."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.wire import get, request
from tests.run import Running, in_process
from tests.sessions.talk import (
    GO_ON,
    JSON,
    SESSION,
    assistant,
    document,
    forget,
    kept,
    look,
    model,
    talk,
    text_of,
    told,
    user,
)
from tests.wire.fake import answering, once, sized

DOWN = answering(sized(b"{}", JSON, status="503 Hm"))


async def asks(gate: Running, text: str = "hi", *headers: str) -> str:
    """Ask, as a message that was never sent before; say who answered, and for which model."""
    number = len(gate.requests)
    history = [user("x"), assistant("y")] * number
    answer = await gate.ask(talk(*history, text), *(headers or (SESSION,)))
    assert answer.status == 200, bytes(answer.body)
    name = answer.headers["x-holdgate-upstream"]
    fake = gate.fakes["abc".index(name)]
    return f"{name}/{json.loads(fake.requests[-1].body)['model']}"


async def in_force(gate: Running, session: str = "s") -> list[str]:
    found: list[str] = (await look(gate, session)).json["directives"]
    return found


async def test_allow_only() -> None:
    async with in_process(model(), model(), model()) as gate:
        assert await asks(gate) == "a/m"
        assert await asks(gate, "<**!b**> hi") == "b/m"
        assert await asks(gate) == "b/m"
        assert await asks(gate, "hi", "x-session-id: t") == "a/m"
        assert await asks(gate, "<**!C, b**>") == "b/m"
        assert await in_force(gate) == ["<**!c,b**>"]
        assert await asks(gate, "<**!c**>") == "c/m"
        assert await asks(gate, "<**clear**>") == "a/m"
        assert await in_force(gate) == []


async def test_the_only_one_allowed_is_not_replaced_when_it_fails() -> None:
    async with in_process(model(), DOWN) as gate:
        answer = await gate.ask(talk("<**!b**>"), SESSION)
        assert (answer.status, told(answer)) == (503, "set")
        assert not gate.fakes[0].requests


async def test_exclude_and_take_back() -> None:
    async with in_process(model(), model(), model()) as gate:
        assert await asks(gate, "<**#a**>") == "b/m"
        assert await asks(gate) == "b/m"
        assert await asks(gate, "<**#b**>") == "a/m"
        assert await asks(gate, "<**#a,b**>") == "c/m"
        assert await in_force(gate) == ["<**#a,b**>"]
        assert await asks(gate, "<**@b**>") == "b/m"
        assert await in_force(gate) == ["<**#a**>"]
        assert await asks(gate, "<**@a**>") == "a/m"
        assert await in_force(gate) == []


async def test_exclude_a_model_of_an_upstream() -> None:
    async with in_process(model(), model()) as gate:
        assert await asks(gate, "<**#a.other**>") == "a/m"
        assert await asks(gate, "<**#a.m**>") == "b/m"
        assert await in_force(gate) == ["<**#a.m**>"]
        assert await asks(gate, "<**@a**>") == "a/m"


async def test_prefer_a_route_and_ask_others_when_it_fails() -> None:
    async with in_process(model(), model()) as gate:
        assert await asks(gate, "<**!b.big**>") == "b/big"
        assert await asks(gate) == "b/big"
        assert await in_force(gate) == ["<**!b.big**>"]
    async with in_process(model(), DOWN) as gate:
        assert await asks(gate, "<**!b.big**>") == "a/m"
        assert json.loads(gate.fakes[1].requests[0].body)["model"] == "big"


async def test_force_a_route_for_one_request() -> None:
    async with in_process(model(), model()) as gate:
        assert await asks(gate, "<**b.some/other-1.5**> hi") == "b/some/other-1.5"
        assert await asks(gate) == "a/m"
        assert (await look(gate)).status == 404


async def test_a_forced_route_stays_with_its_message() -> None:
    """It acts whenever its message is the newest: all through a tool loop, and in a retry."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    loop: list[Any] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]
    async with in_process(model(), model()) as gate:
        for history in ([], [], loop, loop * 2):
            answer = await gate.ask(talk("<**b.m2**> hi", *history), SESSION)
            assert (answer.headers["x-holdgate-upstream"], told(answer)) == ("b", "set")
        later = talk("<**b.m2**> hi", *loop, assistant("ok"), "and?")
        assert (await gate.ask(later, SESSION)).headers["x-holdgate-upstream"] == "a"


async def test_a_forced_route_needs_no_session_and_has_no_substitute() -> None:
    async with in_process(model(), DOWN) as gate:
        answer = await gate.ask(talk("<**b.m**> hi"))
        assert (answer.status, told(answer)) == (503, "set")
        assert (await gate.ask(talk("<**a.m**> hi"))).status == 200
        assert len(gate.fakes[1].requests) == 1


async def test_a_forced_route_overrides_what_is_in_force() -> None:
    async with in_process(model(), model()) as gate:
        assert await asks(gate, "<**#a**>") == "b/m"
        assert await asks(gate, "<**a.m**>") == "a/m"
        assert await asks(gate) == "b/m"


async def test_follow_ups_go_the_same_way() -> None:
    async with in_process(model(), model()) as gate:
        answer = await gate.ask(talk(f"<**!b.big**>{GO_ON} hi"), SESSION)
        assert text_of(answer).count("answer") == 4
        assert not gate.fakes[0].requests
        assert {json.loads(r.body)["model"] for r in gate.requests} == {"big"}


async def test_a_follow_up_of_a_forced_route_is_forced_too() -> None:
    async with in_process(model(), model()) as gate:
        await gate.ask(talk(f"<**b.big**>{GO_ON} hi"), SESSION)
        assert {json.loads(r.body)["model"] for r in gate.fakes[1].requests} == {"big"}
        assert len(gate.fakes[1].requests) == 4


async def test_clear_forgets_all_of_it(tmp_path: Path) -> None:
    async with in_process(model(("a", "length")), model(), **kept(tmp_path)) as gate:
        await asks(gate, f"<**!a**><**!a.m**><**#b**>{GO_ON}")
        shown = (await look(gate)).json
        assert shown["directives"] == ["<**!a**>", "<**!a.m**>", "<**#b**>"]
        assert shown["stopMessage"]["armed"] is True
        await asks(gate, "<**clear**>")
        shown = (await look(gate)).json
        assert (shown["directives"], shown["stopMessage"]) == ([], None)
    assert document(tmp_path).keys() & {"routing", "stopMessageText"} == set()


async def test_stop_message_clear_leaves_the_routing() -> None:
    async with in_process(model(("a", "length")), model()) as gate:
        await asks(gate, f"<**!a**>{GO_ON}")
        await asks(gate, "<**stopMessage:clear**>")
        shown = (await look(gate)).json
    assert (shown["directives"], shown["stopMessage"]) == (["<**!a**>"], None)


async def test_routing_is_kept_over_a_restart(tmp_path: Path) -> None:
    async with in_process(model(), model(), model(), **kept(tmp_path)) as gate:
        assert await asks(gate, "<**!b,c**><**!c.big**><**#b**>") == "c/big"
    async with in_process(model(), model(), model(), **kept(tmp_path)) as gate:
        assert await asks(gate) == "c/big"
        assert await in_force(gate) == ["<**!b,c**>", "<**!c.big**>", "<**#b**>"]


EMPTY = {
    "<**#a,b**>": ["<**#a,b**>"],
    "<**!a**><**#a**>": ["<**!a**>", "<**#a**>"],
    "<**!a**><**#a.m**>": ["<**!a**>", "<**#a.m**>"],
    "<**!b**><**#b**><**!a.m**>": ["<**!b**>", "<**!a.m**>", "<**#b**>"],
}


@pytest.mark.parametrize("text", EMPTY)
async def test_no_route_left_is_a_bad_request_that_names_the_cause(text: str) -> None:
    async with in_process(model(), model()) as gate:
        answer = await gate.ask(talk(text), SESSION)
        assert (answer.status, answer.error["code"]) == (400, "no_route")
        assert told(answer) == "set"
        for directive in EMPTY[text]:
            assert directive in answer.error["message"]
        assert not gate.requests
        assert (await gate.ask(talk("hi"), SESSION)).error["code"] == "no_route"
        assert await in_force(gate) == EMPTY[text]
        assert await asks(gate, "<**clear**>") == "a/m"


async def test_no_route_of_this_model_alone() -> None:
    names = {"models": [{"name": n, "routes": [f"{n}/{n}"]} for n in ("a", "b")]}
    async with in_process(model(), model(), tables=names) as gate:
        await gate.ask(talk("<**!b**>", model="b"), SESSION)
        refused = await gate.ask(talk("hi", model="a"), SESSION)
        assert "'a'" in refused.error["message"]
        assert (await gate.ask(talk("hi", model="b"), SESSION)).status == 200


@pytest.mark.parametrize("text", ["<**!b**>", "<**#a**>", "<**@a**>", "<**clear**>", "<**!b.m**>"])
async def test_what_needs_a_session_is_ignored_without_one(text: str) -> None:
    async with in_process(model(), model()) as gate:
        answer = await gate.ask(talk(f"{text}hi"))
        assert told(answer).startswith('ignored; reason="this needs a session id')
        assert answer.headers["x-holdgate-upstream"] == "a"
        assert b"<**" not in gate.requests[0].body


UNREADABLE = {
    "<**!nobody**>": "no upstream is called 'nobody'",
    "<**#**>": "no upstream is named",
    "<**!a.m,b**>": "use a list of upstreams, or one upstream.model",
    '<**stopMessage:"x" y**>': "the quote or file name is not closed",
    "<**clock:soon**>": "use clear, or a JSON object",
    "<**clock:clear**>": "switched off (clock.enabled)",
    "<**!bé“x**>": "no upstream is called 'b??x'",
}


@pytest.mark.parametrize("text", UNREADABLE)
async def test_what_cannot_be_read_is_taken_out_and_reported(text: str) -> None:
    async with in_process(model(), model()) as gate:
        for _ in range(2):
            answer = await gate.ask(talk(f"hi {text}"), SESSION)
            assert told(answer).startswith('ignored; reason="')
            assert told(answer).endswith('"')
            assert UNREADABLE[text] in told(answer)
        assert b"<**" not in gate.requests[0].body
        assert "directive_ignored" in gate.log


async def test_several_outcomes_are_told_in_order() -> None:
    async with in_process(model(("a", "length")), model()) as gate:
        answer = await gate.ask(talk(f"<**!nobody**>{GO_ON}<**#b**><**#**>"), SESSION)
        first, second, third = told(answer).split(", ")
    assert "nobody" in first
    assert second == "set"
    assert "no upstream is named" in third


KEYS = {"alice": "key-a", "bob": "key-b"}
OWNERS = {
    "keys": [
        {"owner": owner, "key_sha256": hashlib.sha256(key.encode()).hexdigest()}
        for owner, key in KEYS.items()
    ]
}
ALICE, BOB = (f"authorization: Bearer {key}" for key in KEYS.values())


async def test_somebody_elses_session_is_like_an_unknown_one(tmp_path: Path) -> None:
    async with in_process(model(), model(), tables=OWNERS, **kept(tmp_path)) as gate:
        assert await asks(gate, "<**!b**>", SESSION, ALICE) == "b/m"
        assert await asks(gate, "hi", SESSION, BOB) == "a/m"
        hers, his, nobodys = [
            await look(gate, name, key) for name, key in (("s", ALICE), ("s", BOB), ("t", BOB))
        ]
        assert hers.json["directives"] == ["<**!b**>"]
        assert his.status == nobodys.status == 404
        assert bytes(his.body) == bytes(nobodys.body).replace(b"'t'", b"'s'")
        assert (await forget(gate, "s", BOB)).status == 404
        assert (await gate.fetch(get("/api/sessions", BOB))).json["sessions"] == []
        assert await asks(gate, "hi", SESSION, ALICE) == "b/m"
        assert (await look(gate)).status == 401
        assert (await forget(gate)).status == 401
        assert (await gate.fetch(get("/api/sessions"))).status == 401


async def test_a_session_is_not_named_by_the_text_of_its_url_alone() -> None:
    async with in_process(model(), model()) as gate:
        await gate.ask(talk("<**#b**>"), "x-session-id: a/b?c=%2F#d")
        assert (await look(gate, "a/b?c=%2F#d")).json["directives"] == ["<**#b**>"]
        assert (await look(gate, "a/b")).status == 404
        assert (await gate.fetch(get("/api/sessions/"))).status == 404
        posted = await gate.fetch(request("POST", "/api/sessions/s", JSON, body=b"{}"))
        assert posted.status == 405


async def test_a_listing_in_pages(tmp_path: Path) -> None:
    async with in_process(model(), once(), **kept(tmp_path)) as gate:
        for number in range(5):
            await gate.ask(talk("<**#b**>"), f"x-session-id: s:{number}")
        seen: list[str] = []
        after = ""
        while after is not None:
            page = (await gate.fetch(get(f"/api/sessions?limit=2&after={after}"))).json
            seen += [item["sessionId"] for item in page["sessions"]]
            after = page["next"]
        assert seen == [f"s:{number}" for number in (4, 3, 2, 1, 0)]
        for query in ("limit=0", "limit=x", "after=soon", f"after={2**63}:s", f"after={10**90}:"):
            assert (await gate.fetch(get(f"/api/sessions?{query}"))).status == 400


async def test_a_page_is_never_longer_than_the_longest_and_says_what_follows(
    tmp_path: Path,
) -> None:
    """The sessions are files that somebody wrote by hand."""
    tmp_path.joinpath("session").mkdir()
    for number in range(503):
        state = {"version": 1, "sessionId": f"s{number}", "updatedAtMs": number}
        tmp_path.joinpath("session", f"s{number}.json").write_text(json.dumps(state))
    async with in_process(model(), **kept(tmp_path)) as gate:
        page = (await gate.fetch(get("/api/sessions?limit=1000"))).json
        assert len(page["sessions"]) == 500
        rest = (await gate.fetch(get(f"/api/sessions?limit=1000&after={page['next']}"))).json
        assert [item["sessionId"] for item in rest["sessions"]] == ["s2", "s1", "s0"]
        assert rest["next"] is None
