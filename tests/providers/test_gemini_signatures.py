"""Gemini's thought signatures come back in every dialect, though no client here sends them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from gateway.timestamps import iso
from tests.agents.talking import room, said, text_of
from tests.clock.words import NOW
from tests.gateway.client import Client
from tests.gateway.wire import request
from tests.jobs.words import add, ran, run_now
from tests.pairs.gate import CHAT, JSON, MESSAGES, both_ways, each_tongue
from tests.pairs.gate import read as read_answer
from tests.pairs.neutral import Answer, Ask, Call, Result, Tongue, Turn
from tests.run import Running, in_process, until, upstreams_of
from tests.sessions.process import process
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, fake_upstream

from .gemini import CLOCK, PLACEHOLDER, StrictGemini, look

SESSION = "x-session-id: s"
QUESTION = Turn("user", "Where is the boat?")
FOUND = "At sea."
named = pytest.mark.parametrize("headers", [(SESSION,), ()], ids=["session", "no session"])


@asynccontextmanager
async def gate(gemini: StrictGemini, **options: Any) -> AsyncIterator[Running]:
    """Run a gateway whose model `m` is Gemini's."""
    upstream = {"profile": "gemini", **options.pop("upstream", {})}
    async with in_process(gemini.story, upstream=upstream, **options) as running:
        yield running


def write(
    client: Tongue, turns: list[Turn], stream: bool, *headers: str, system: str = ""
) -> bytes:
    """Write a request of a client that offers a tool."""
    body = client.ask(Ask(tuple(turns), system, ("look",)), stream)
    return request("POST", client.PATH, JSON, *headers, body=body)


async def ask(
    running: Running, client: Tongue, turns: list[Turn], stream: bool, *headers: str
) -> Answer:
    """Ask the next question, or tell the results of tools."""
    sent = await running.fetch(write(client, turns, stream, *headers))
    return read_answer(client, sent, stream)


def go_on(turns: list[Turn], answer: Answer) -> None:
    """Answer the calls of a turn, as clients do: without what they do not know."""
    turns.append(Turn("assistant", answer.text, calls=answer.calls))
    turns.append(Turn("user", results=tuple(Result(c.id, "water") for c in answer.calls)))


async def loop(running: Running, client: Tongue, stream: bool, *headers: str) -> list[Turn]:
    """Ask and call tools until the model says something."""
    turns = [QUESTION]
    while (answer := await ask(running, client, turns, stream, *headers)).calls:
        go_on(turns, answer)
    assert answer.text == FOUND
    return turns


@named
@both_ways
@each_tongue
async def test_a_tool_loop_keeps_them(
    tongue: Tongue, stream: bool, headers: tuple[str, ...]
) -> None:
    """One call, two at once, the clock alone, the clock before and after the client's tool."""
    gemini = StrictGemini(
        (look("port"),),
        (look("bow"), look("stern")),
        (CLOCK,),
        (CLOCK, look("sky")),
        (look("sea"), CLOCK),
        FOUND,
    )
    async with gate(gemini, clock=ManualClock(NOW)) as running:
        turns = await loop(running, tongue, stream, *headers)
        assert gemini.refused == []
        shown = [call.id for turn in turns for call in turn.calls]
        told = gemini.sent_signatures()
        assert {call: told[call] for call in shown} == {c: gemini.signatures[c] for c in shown}
        assert PLACEHOLDER not in json.dumps(gemini.asked)
        # The next question carries the same history.
        turns += [Turn("assistant", FOUND), Turn("user", "Sure?")]
        await ask(running, tongue, turns, stream, *headers)
        assert gemini.refused == []
    assert len(gemini.asked) == 7


@named
@each_tongue
async def test_they_outlive_the_gateway(
    tongue: Tongue, headers: tuple[str, ...], tmp_path: Path
) -> None:
    gemini = StrictGemini((look("bow"), look("stern")), (look("sea"),), FOUND)
    turns = [QUESTION]
    async with fake_upstream(gemini.story) as fake:
        tables = upstreams_of(fake.port, profile="gemini")
        settings = {f"HOLDGATE_{name.upper()}": json.dumps(rows) for name, rows in tables.items()}
        for calls in (2, 1, 0):
            async with process(tmp_path, settings) as killed:
                client = await Client.connected(killed.port)
                await client.send(write(tongue, turns, True, *headers))
                answer = read_answer(tongue, await client.answer(), True)
                client.leave()
            assert len(answer.calls) == calls
            go_on(turns, answer)
    assert answer.text == FOUND
    assert gemini.refused == []
    assert gemini.sent_signatures() == gemini.signatures


@named
@each_tongue
async def test_a_large_request_carries_them(tongue: Tongue, headers: tuple[str, ...]) -> None:
    """It is written in a helper process."""
    gemini = StrictGemini((look("bow"),), (CLOCK, look("sea")), FOUND)
    turns = [QUESTION]
    async with gate(gemini, clock=ManualClock(NOW)) as running:
        for calls in (1, 1, 0):
            sent = await running.fetch(
                write(tongue, turns, True, *headers, system="Be brief. " * 20_000)
            )
            answer = read_answer(tongue, sent, True)
            assert len(answer.calls) == calls
            go_on(turns, answer)
    assert gemini.refused == []
    assert gemini.sent_signatures() == gemini.signatures


@named
@each_tongue
async def test_a_hold_does_not_lose_them(tongue: Tongue, headers: tuple[str, ...]) -> None:
    """The answer waits for a reminder after the clock was called, and goes on."""
    remind = {"dueAt": iso(NOW + 5000), "task": "tea", "tool": "", "arguments": "{}"}
    schedule = ("clock", {"action": "schedule", "items": [remind], "taskId": ""})
    gemini, clock = StrictGemini((schedule,), "I wait."), ManualClock(NOW)
    settings = {"clock__due_window_ms": 0, "clock__hold_without_session": True}
    async with gate(gemini, clock=clock, settings=settings) as running:
        client = await running.send(write(tongue, [QUESTION], True, *headers))
        await until(lambda: running.states == ["holding"])
        gemini.steps = ((), "Tea time.")
        clock.advance(5000)
        sent = await client.answer()
        client.leave()
        assert b"Tea time." in sent.body
    assert gemini.refused == []
    assert len(gemini.asked) == 3
    assert gemini.sent_signatures() == gemini.signatures


@named
@each_tongue
async def test_unknown_calls_get_the_placeholder(tongue: Tongue, headers: tuple[str, ...]) -> None:
    """Of another model, or forgotten: all calls of the turn get it."""
    gemini, turns = StrictGemini(FOUND), [QUESTION]
    go_on(turns, Answer(calls=(Call("call_a", "look", "{}"), Call("call_b", "look", "{}"))))
    async with gate(gemini) as running:
        answer = await ask(running, tongue, turns, True, *headers)
    assert answer.text == FOUND
    assert gemini.sent_signatures() == {"call_a": PLACEHOLDER, "call_b": PLACEHOLDER}


async def test_another_owner_does_not_get_them() -> None:
    gemini, turns = StrictGemini((look("sea"),), FOUND), [QUESTION]
    tables = {"keys": [{"owner": name, "key": f"key-of-{name}"} for name in ("ann", "bob")]}
    async with fake_upstream(gemini.story) as fake:
        tables |= upstreams_of(fake.port, profile="gemini")
        async with in_process(tables=tables) as running:
            for owner in ("ann", "bob"):
                who = f"authorization: Bearer key-of-{owner}"
                sent = await running.fetch(write(MESSAGES, turns, True, who, SESSION))
                if owner == "ann":
                    go_on(turns, read_answer(MESSAGES, sent, True))
    assert sent.status == 400
    assert list(gemini.sent_signatures().values()) == [PLACEHOLDER]


async def test_what_a_client_sends_back_itself_stays_as_it_is() -> None:
    gemini = StrictGemini((look("bow"), look("stern")), FOUND)
    async with gate(gemini) as running:
        sent = await running.fetch(write(CHAT, [QUESTION], False, SESSION))
        message = {"refusal": None, **sent.json["choices"][0]["message"], "mine": [1.50]}
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "water"}
            for call in message["tool_calls"]
        ]
        told = [{"role": "user", "content": "hi"}, message, *results]
        body = json.dumps({"model": "m", "messages": told}).encode()
        assert (await running.ask(body, SESSION)).status == 200
        assert running.requests[-1].body == body
    assert gemini.refused == []


async def test_an_upstream_without_the_profile_is_asked_as_before(tmp_path: Path) -> None:
    """Nothing is read, written or kept for it, even if it signs its calls."""
    gemini, turns = StrictGemini((look("sea"),), FOUND), [QUESTION]
    settings = {"store__url": "", "server__session_dir": str(tmp_path)}
    async with gate(gemini, upstream={"profile": ""}, settings=settings) as running:
        go_on(turns, await ask(running, MESSAGES, turns, True, SESSION))
        assert (await running.fetch(write(MESSAGES, turns, True, SESSION))).status == 400
        assert gemini.sent_signatures() == dict.fromkeys(gemini.signatures, "")
    assert list((tmp_path / "signature").iterdir()) == []


async def test_a_fail_over_to_gemini_and_back_keeps_them() -> None:
    """Each upstream gets what it knows: Gemini its own signatures, the other one none."""
    gemini, turns = StrictGemini((look("sea"),), FOUND), [QUESTION]

    async def other(peer: Peer) -> None:
        while True:
            asked = json.loads((await peer.request()).body)
            assert "extra_content" not in json.dumps(asked)
            text = CHAT.stream(Answer("I do not know."))
            await peer.send(CHUNKED, *map(chunk, text), LAST)

    async with fake_upstream(gemini.story) as first, fake_upstream(other) as second:
        tables = upstreams_of(first.port, second.port)
        tables["upstreams"][0]["profile"] = "gemini"
        async with in_process(tables=tables) as running:
            go_on(turns, await ask(running, MESSAGES, turns, True, SESSION))
            gemini.is_down = True
            before = list(turns)
            assert (await ask(running, MESSAGES, before, True, SESSION)).text == "I do not know."
            gemini.is_down = False
            running.gateway.exchanges.services.health.troubles.clear()
            assert (await ask(running, MESSAGES, turns, True, SESSION)).text == FOUND
    assert gemini.refused == []


async def test_a_deleted_session_loses_them(tmp_path: Path) -> None:
    gemini, turns = StrictGemini((look("sea"),), FOUND), [QUESTION]
    settings = {"store__url": "", "server__session_dir": str(tmp_path)}
    async with gate(gemini, settings=settings) as running:
        go_on(turns, await ask(running, MESSAGES, turns, True, SESSION))
        (kept,) = (tmp_path / "signature").iterdir()
        assert kept.name == "s.json"
        for status in (200, 404):
            gone = await running.fetch(request("DELETE", "/api/sessions/s", JSON))
            assert gone.status == status
        assert list((tmp_path / "signature").iterdir()) == []


async def test_a_job_goes_on_from_a_session_that_called_tools() -> None:
    gemini, turns = StrictGemini((look("sea"),), FOUND), [QUESTION]
    async with gate(gemini, clock=ManualClock(NOW)) as running:
        go_on(turns, await ask(running, MESSAGES, turns, True, SESSION))
        assert (await ask(running, MESSAGES, turns, True, SESSION)).text == FOUND
        job = await add(running, agent="")
        await run_now(running, job)
        await ran(running, job, "ok")
    assert gemini.refused == []
    assert gemini.sent_signatures() == gemini.signatures


async def test_an_agent_keeps_them_in_its_conversation() -> None:
    gemini = StrictGemini((CLOCK,), (CLOCK,), FOUND)
    options: Any = {"clock": ManualClock(NOW), "upstream": {"profile": "gemini"}}
    async with room(gemini.story, **options) as running:
        assert text_of(await said(running, "Where is the boat?")) == FOUND
        assert text_of(await said(running, "Sure?")) == FOUND
    assert gemini.refused == []
    assert gemini.sent_signatures() == gemini.signatures
