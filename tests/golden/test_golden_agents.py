"""Exchanges with agents: what each leaves, byte for byte."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.wire import Cue, hanging, request
from tests.golden.conftest import Record
from tests.golden.models import CLOCK, MINUTE, SECOND, calls, clock, plan, reminder
from tests.golden.record import held
from tests.pairs.gate import CHAT, each_tongue, telling, telling_all
from tests.pairs.neutral import Answer, Call, Tongue
from tests.sessions.talk import JSON
from tests.wire.fake import CHUNKED, LAST, Peer, answering, chunk, sized


def says(message: str, *headers: str, agent: str = "helper", **more: Any) -> bytes:
    """Write a message to an agent."""
    body = json.dumps({"message": message, "agentId": agent, **more}).encode()
    return request("POST", "/api/chat", JSON, *headers, body=body)


def speaks(tongue: Tongue) -> dict[str, str]:
    return {"dialect": tongue.NAME}


@each_tongue
async def test_a_conversation(record: Record, tongue: Tongue) -> None:
    answers = [Answer("Hi.", "A greeting."), Answer("Fine.")]
    story = telling_all(tongue, answers, True)
    async with record(story, upstream=speaks(tongue)) as stage:
        await stage.fetch(says("hello"))
        await stage.fetch(says("how are you?"))
        await stage.fetch(request("GET", "/api/sessions/helper"))


async def test_a_session_of_its_own(record: Record) -> None:
    async with record(telling(CHAT, Answer("Hi."), True)) as stage:
        await stage.fetch(says("hello", sessionId="mine"))
        await stage.fetch(says("hello", agent="unknown"))
        await stage.fetch(request("POST", "/api/chat", JSON, body=b'{"message":'))
        await stage.fetch(request("GET", "/api/sessions"))


async def test_a_hold_and_its_wake(record: Record) -> None:
    answers = [calls(clock("schedule", reminder(30 * SECOND))), Answer("I wait."), Answer("Tea!")]
    async with record(telling_all(CHAT, answers, True), settings=CLOCK) as stage:
        visitor = await stage.begin(says("remind me"))
        await held(stage)
        stage.look("while it is held")
        stage.clock.advance(30 * SECOND)
        await visitor.answer()
        visitor.leave()


async def test_a_client_that_leaves_during_a_hold(record: Record) -> None:
    answers = [
        calls(clock("schedule", reminder(30 * SECOND))),
        Answer("I wait."),
        Answer("Tea!"),
    ]
    async with record(telling_all(CHAT, answers, True), settings=CLOCK) as stage:
        visitor = await stage.begin(says("remind me"))
        await held(stage)
        await visitor.saw(b"it.")
        visitor.leave()
        await stage.gate.quiet()
        stage.clock.advance(MINUTE)
        await stage.fetch(says("are you there?"))


async def test_directives(record: Record) -> None:
    keys = {"models": ["m", "n"]}
    stories = telling(CHAT, Answer("A."), True), telling(CHAT, Answer("B."), True)
    async with record(*stories, upstream=keys) as stage:
        await stage.fetch(says("<**!b**> hi"))
        await stage.fetch(says("hi again"))
        await stage.fetch(says("<**a.secret**> hi"))
        await stage.fetch(says("<**!a.secret**> hi"))
        await stage.fetch(says("<**a.n**> hi"))
        await stage.fetch(says("<**clear**>"))
        await stage.fetch(says("<**#a,b**> hi"))


async def test_a_stop_message(record: Record) -> None:
    answers = [Answer("One."), Answer("Two."), Answer("Three.")]
    async with record(telling_all(CHAT, answers, True)) as stage:
        await stage.fetch(says('count <**stopMessage:"Go on.",2**>'))


async def test_an_error_before_bytes(record: Record) -> None:
    down = answering(sized(CHAT.error("no luck"), JSON, status="500 Internal Server Error"))
    async with record(down) as stage:
        await stage.fetch(says("hello"))


@each_tongue
async def test_an_error_after_bytes(record: Record, tongue: Tongue) -> None:
    frames = tongue.broken("Half of it", "no luck")
    story = answering(CHUNKED, *map(chunk, frames), LAST)
    async with record(story, upstream=speaks(tongue)) as stage:
        await stage.fetch(says("hello"))


async def test_the_second_route(record: Record) -> None:
    down = answering(sized(b"{}", JSON, status="503 Service Unavailable"))
    async with record(down, telling(CHAT, Answer("Hi."), True)) as stage:
        await stage.fetch(says("hello"))


async def test_a_busy_agent(record: Record) -> None:
    cue = Cue()

    async def story(peer: Peer) -> None:
        await peer.request()
        await cue.wait()
        await peer.send(CHUNKED, *map(chunk, CHAT.stream(Answer("At last."))), LAST)

    async with record(story) as stage:
        first = await stage.begin(says("hello"))
        await first.saw(b"event: start\n")
        second = await stage.begin(says("are you there?"))
        await second.answer()
        second.leave()
        stage.look("while it is busy")
        cue.give()
        await first.answer()
        first.leave()


async def test_a_session_removed_during_an_answer(record: Record) -> None:
    story = hanging(CHUNKED, *map(chunk, CHAT.stream(Answer("At last."))[:3]))
    async with record(story) as stage:
        visitor = await stage.begin(says("hello"))
        await visitor.saw(b"ast.")
        removal = await stage.begin(request("DELETE", "/api/sessions/helper"))
        await removal.answer()
        removal.leave()
        await visitor.answer()
        visitor.leave()


async def test_schedule_task(record: Record) -> None:
    wish = {"schedule_text": "every hour", "message": "what is new?", "name": "news"}
    answers = [
        calls(plan("add", **wish), text="I plan it."),
        calls(plan("list", "call_2")),
        Answer("Done."),
    ]
    async with record(telling_all(CHAT, answers, True)) as stage:
        await stage.fetch(says("plan it", agent="planner"))


async def test_a_tool_that_nobody_has(record: Record) -> None:
    answers = [calls(Call("call_1", "look", "{}")), Answer("I can not.")]
    async with record(telling_all(CHAT, answers, True)) as stage:
        await stage.fetch(says("look!"))


async def test_a_route_that_is_not_offered(record: Record) -> None:
    async with record(telling(CHAT, Answer("A."), True), upstream={"models": ["m"]}) as stage:
        await stage.fetch(says("<**a.secret**> hi"))
        await stage.fetch(says("<**!a.secret**> hi"))
        await stage.fetch(says("<**!c**> hi"))
