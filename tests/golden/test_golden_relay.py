"""Exchanges that clients bring: what each leaves, byte for byte."""

from __future__ import annotations

import hashlib

import pytest

from tests.gateway.wire import request
from tests.golden.conftest import Record
from tests.golden.models import CLOCK, JOBS, MINUTE, SECOND, calls, clock, plan, reminder
from tests.golden.record import asking, held
from tests.pairs.gate import CHAT, MESSAGES, RESPONSES, TONGUES, each_tongue, telling, telling_all
from tests.pairs.neutral import Answer, Ask, Call, Tongue, Turn
from tests.sessions.talk import JSON, SESSION
from tests.wire.fake import CHUNKED, LAST, answering, chunk, once, sized

ASK = Ask(system="Be brief.", tools=("look",))
HI = Answer("Hi there.", "A greeting.")
DOWN = answering(sized(b'{"error":{"message":"down"}}', JSON, status="503 Service Unavailable"))


def says(*texts: str) -> Ask:
    """Write a conversation in which every text but the last was answered."""
    turns = [Turn("user", text) for text in texts[:1]]
    for text in texts[1:]:
        turns += [Turn("assistant", "I see."), Turn("user", text)]
    return Ask(tuple(turns))


def speaks(tongue: Tongue) -> dict[str, str]:
    return {"dialect": tongue.NAME}


def beats_twice(body: bytes) -> bool:
    """Tell whether a stream ends with two frames that are the same."""
    *_, first, second, rest = [b"", b"-", *body.split(b"\n\n")]
    return first == second and not rest


# Without anything of the gateway's own.


@each_tongue
async def test_stream(record: Record, tongue: Tongue) -> None:
    async with record(telling(tongue, HI, True), upstream=speaks(tongue)) as stage:
        await stage.ask(tongue, ASK)


@each_tongue
async def test_whole(record: Record, tongue: Tongue) -> None:
    async with record(telling(tongue, HI, False), upstream=speaks(tongue)) as stage:
        await stage.ask(tongue, ASK, stream=False)


@each_tongue
async def test_a_session_with_nothing_in_force(record: Record, tongue: Tongue) -> None:
    headers = ("x-request-id: mine", "authorization: Bearer nobody", "x-stainless-os: Linux")
    async with record(telling(tongue, HI, True), upstream=speaks(tongue)) as stage:
        await stage.ask(tongue, ASK, *headers, session=True)


@pytest.mark.parametrize(
    "client, upstream",
    [(CHAT, MESSAGES), (MESSAGES, RESPONSES), (RESPONSES, CHAT)],
    ids=["chat-messages", "messages-responses", "responses-chat"],
)
async def test_translated(record: Record, client: Tongue, upstream: Tongue) -> None:
    look = calls(Call("call_1", "look", '{"at":"it"}'), text="Let me look.")
    stories = telling(upstream, look, True), telling(upstream, HI, False)
    models = [{"name": name, "routes": [f"{at}/real-m"]} for name, at in (("m", "a"), ("n", "b"))]
    async with record(*stories, upstream=speaks(upstream), tables={"models": models}) as stage:
        await stage.ask(client, ASK)
        await stage.ask(client, Ask(model="n", temperature=0.5), stream=False)


# Directives.


async def test_a_route_chosen_in_the_text(record: Record) -> None:
    async with record(telling(CHAT, HI, True), telling(CHAT, Answer("B."), True)) as stage:
        await stage.ask(CHAT, says("<**!b**> hi"), session=True)
        await stage.ask(CHAT, says("<**!b**> hi", "again"), session=True)
        await stage.ask(CHAT, says("<**a.special**> hi"), session=True)
        await stage.ask(CHAT, says("x", "<**#b**> hi"), session=True)
        await stage.ask(CHAT, says("x", "y", "<**clear**> hi"), session=True)


async def test_a_route_that_is_not_offered(record: Record) -> None:
    keys = {"models": ["m", "n"]}
    stories = telling(CHAT, HI, True), telling(CHAT, Answer("B."), True)
    async with record(*stories, upstream=keys) as stage:
        await stage.ask(CHAT, says("<**a.secret**> hi"))
        await stage.ask(CHAT, says("<**!b.secret**> hi"), session=True)
        await stage.ask(CHAT, says("x", "<**!c**> hi"), session=True)
        await stage.ask(CHAT, says("x", "y", "<**b.n**> hi"), session=True)
        await stage.ask(CHAT, says("x", "y", "z", "hi"), session=True)


async def test_routes_all_taken_away(record: Record) -> None:
    async with record(telling(CHAT, HI, True)) as stage:
        await stage.ask(CHAT, says("<**#a**> hi"), session=True)


@each_tongue
async def test_a_stop_message_that_fires_twice(record: Record, tongue: Tongue) -> None:
    texts = "One.", "Two.", "Three.", "Four."
    story = telling_all(tongue, [Answer(text) for text in texts], True)
    async with record(story, upstream=speaks(tongue)) as stage:
        await stage.ask(tongue, says('hi <**stopMessage:"Go on.",2**>'), session=True)
        await stage.ask(tongue, says("hi", "and?"), session=True)


async def test_a_stop_message_in_a_whole_answer_and_without_a_session(record: Record) -> None:
    story = telling_all(CHAT, [Answer("One."), Answer("Two.")], False)
    async with record(story) as stage:
        await stage.ask(CHAT, says('<**stopMessage:"Go on.",1**>'), stream=False)


async def test_a_stop_message_that_is_cleared(record: Record) -> None:
    story = telling_all(CHAT, [Answer("One."), Answer("Two."), Answer("Three.")], True)
    async with record(story) as stage:
        await stage.ask(CHAT, says('<**stopMessage:"Go on.",1**>'), session=True)
        stage.look("while it is set")
        await stage.ask(CHAT, says("x", "<**stopMessage:clear**> hi"), session=True)
        await stage.fetch(request("GET", "/api/sessions/s"))


# The clock.


@each_tongue
async def test_clock_calls(record: Record, tongue: Tongue) -> None:
    answers = [
        calls(clock("get"), text="Let me see."),
        calls(clock("schedule", reminder(2 * 3600 * SECOND), ident="call_2")),
        calls(clock("list", ident="call_3")),
        calls(clock("cancel", task_id="unknown", ident="call_4")),
        calls(clock("clear", ident="call_5")),
        Answer("It is set."),
    ]
    story = telling_all(tongue, answers, True)
    async with record(story, upstream=speaks(tongue), settings=CLOCK) as stage:
        await stage.ask(tongue, Ask(), session=True)


@each_tongue
async def test_a_hold_and_its_wake(record: Record, tongue: Tongue) -> None:
    answers = [
        calls(clock("schedule", reminder(30 * SECOND))),
        Answer("I wait."),
        Answer("Tea!"),
    ]
    story = telling_all(tongue, answers, True)
    async with record(story, upstream=speaks(tongue), settings=CLOCK) as stage:
        visitor = await stage.begin(asking(tongue, Ask(), session=True))
        await held(stage)
        stage.look("while it is held")
        stage.clock.advance(30 * SECOND)
        await visitor.answer()
        visitor.leave()


@each_tongue
async def test_a_hold_of_a_whole_answer(record: Record, tongue: Tongue) -> None:
    answers = [calls(clock("schedule", reminder(30 * SECOND))), Answer("I wait."), Answer("Tea!")]
    story = telling_all(tongue, answers, False)
    async with record(story, upstream=speaks(tongue), settings=CLOCK) as stage:
        visitor = await stage.begin(asking(tongue, Ask(), stream=False, session=True))
        await held(stage)
        stage.clock.advance(30 * SECOND)
        await visitor.answer()
        visitor.leave()


@each_tongue
async def test_notes_and_heartbeats_of_a_hold(record: Record, tongue: Tongue) -> None:
    answers = [calls(clock("schedule", reminder(30 * SECOND))), Answer("I wait."), Answer("Tea!")]
    settings = {**CLOCK, "server__keepalive_ms": 300}
    story = telling_all(tongue, answers, True)
    async with record(story, upstream=speaks(tongue), settings=settings, beating=True) as stage:
        asked = asking(tongue, Ask(), "x-holdgate-notes: 1", session=True)
        visitor = await stage.begin(asked)
        await held(stage)
        while not beats_twice(bytes((await visitor.more()).body)):
            pass
        stage.clock.advance(30 * SECOND)
        await visitor.answer()
        visitor.leave()


async def test_a_reminder_beyond_the_hold_limit(record: Record) -> None:
    answers = [calls(clock("schedule", reminder(2 * MINUTE))), Answer("I will tell you.")]
    async with record(telling_all(CHAT, answers, True), settings=CLOCK) as stage:
        await stage.ask(CHAT, Ask(), session=True)


async def test_a_hold_that_is_given_up(record: Record) -> None:
    """The clock stands still, as if it were wrong: how long was held is measured apart from it."""
    answers = [calls(clock("schedule", reminder(200))), Answer("I wait.")]
    settings = {**CLOCK, "clock__hold_max_ms": 300}
    async with record(telling_all(CHAT, answers, True), settings=settings) as stage:
        await stage.ask(CHAT, Ask(), session=True)


async def test_a_hold_that_a_newer_request_takes_over(record: Record) -> None:
    answers = [
        calls(clock("schedule", reminder(30 * SECOND))),
        Answer("I wait."),
        Answer("Not I."),
        Answer("Tea!"),
    ]
    async with record(telling_all(CHAT, answers, True), settings=CLOCK) as stage:
        visitor = await stage.begin(asking(CHAT, Ask(), session=True))
        await held(stage)
        other = await stage.begin(asking(CHAT, says("Hello!", "and you?"), session=True))
        await visitor.answer()
        visitor.leave()
        await held(stage)
        stage.clock.advance(30 * SECOND)
        await other.answer()
        other.leave()


@each_tongue
async def test_a_reminder_in_the_next_request(record: Record, tongue: Tongue) -> None:
    answers = [
        calls(clock("schedule", reminder(2 * MINUTE))),
        Answer("I will tell you."),
        Answer("Tea!"),
        Answer("Bye."),
    ]
    story = telling_all(tongue, answers, True)
    async with record(story, upstream=speaks(tongue), settings=CLOCK) as stage:
        await stage.ask(tongue, Ask(), session=True)
        stage.clock.advance(2 * MINUTE)
        await stage.ask(tongue, says("Hello!", "and?"), session=True)
        await stage.ask(tongue, says("Hello!", "and?", "bye"), session=True)
        await stage.fetch(request("GET", "/api/sessions/s/reminders"))


async def test_a_client_that_leaves_during_a_hold(record: Record) -> None:
    answers = [calls(clock("schedule", reminder(30 * SECOND))), Answer("I wait."), Answer("Tea!")]
    async with record(telling_all(CHAT, answers, True), settings=CLOCK) as stage:
        visitor = await stage.begin(asking(CHAT, Ask(), session=True))
        await held(stage)
        await visitor.saw(b"it.")
        visitor.leave()
        await stage.gate.quiet()
        stage.clock.advance(30 * SECOND)
        await stage.ask(CHAT, says("Hello!", "are you there?"), session=True)


async def test_a_session_removed_during_a_hold(record: Record) -> None:
    answers = [calls(clock("schedule", reminder(30 * SECOND))), Answer("I wait.")]
    async with record(telling_all(CHAT, answers, True), settings=CLOCK) as stage:
        visitor = await stage.begin(asking(CHAT, Ask(), session=True))
        await held(stage)
        removal = await stage.begin(request("DELETE", "/api/sessions/s"))
        await removal.answer()
        removal.leave()
        await visitor.answer()
        visitor.leave()


async def test_a_clock_directive(record: Record) -> None:
    story = telling_all(CHAT, [Answer("Fine."), Answer("Tea!")], True)
    text = '<**clock:{"time":"2030-03-17T17:47:00Z","message":"drink tea"}**> hi'
    async with record(story, settings=CLOCK) as stage:
        visitor = await stage.begin(asking(CHAT, says(text), session=True))
        await held(stage)
        stage.clock.advance(20 * SECOND)
        await visitor.answer()
        visitor.leave()


@each_tongue
async def test_a_tool_of_the_client_beside_the_clock(record: Record, tongue: Tongue) -> None:
    look = Call("call_2", "look", "{}")
    answers = [calls(clock("schedule", reminder(2 * MINUTE)), look), Answer("A cat.")]
    story = telling_all(tongue, answers, True)
    async with record(story, upstream=speaks(tongue), settings=CLOCK) as stage:
        await stage.ask(tongue, ASK, session=True)
        stage.look("between the turns")
        await stage.ask(tongue, says("Hello!", "go on"), session=True)


@each_tongue
async def test_schedule_task(record: Record, tongue: Tongue) -> None:
    wish = {"schedule_text": "every hour", "message": "what is new?", "name": "news"}
    answers = [calls(plan("add", **wish)), calls(plan("list", "call_2")), Answer("Done.")]
    story = telling_all(tongue, answers, True)
    async with record(story, upstream=speaks(tongue), settings=JOBS) as stage:
        await stage.ask(tongue, Ask(), session=True)


# What goes wrong.


@each_tongue
async def test_the_second_route(record: Record, tongue: Tongue) -> None:
    story = telling(tongue, HI, True)
    async with record(DOWN, None, story, upstream=speaks(tongue)) as stage:
        await stage.ask(tongue, ASK)


@each_tongue
async def test_an_error_before_bytes(record: Record, tongue: Tongue) -> None:
    down = answering(sized(tongue.error("no luck"), JSON, status="500 Internal Server Error"))
    async with record(down, upstream=speaks(tongue), settings=CLOCK) as stage:
        await stage.ask(tongue, ASK, session=True)
        await stage.ask(tongue, ASK, stream=False)


@each_tongue
async def test_an_error_after_bytes(record: Record, tongue: Tongue) -> None:
    frames = tongue.broken("Half of it", "no luck")
    told = answering(CHUNKED, *map(chunk, frames), LAST)
    async with record(told, upstream=speaks(tongue)) as stage:
        await stage.ask(tongue, ASK)


@each_tongue
async def test_an_upstream_that_hangs_up(record: Record, tongue: Tongue) -> None:
    frames = tongue.stream(HI)
    cut = once(CHUNKED, chunk(b"".join(frames[: len(frames) // 2])))
    async with record(cut, upstream=speaks(tongue)) as stage:
        await stage.ask(tongue, ASK)


@each_tongue
async def test_a_follow_up_that_fails(record: Record, tongue: Tongue) -> None:
    good = [CHUNKED, *map(chunk, tongue.stream(calls(clock("get"), text="One moment."))), LAST]
    bad = sized(tongue.error("no luck"), JSON, status="500 Internal Server Error")
    pieces = iter([good, [bad]])

    async def story(peer: object) -> None:
        while True:
            await peer.request()  # type: ignore[attr-defined]
            await peer.send(*next(pieces))  # type: ignore[attr-defined]

    async with record(story, upstream=speaks(tongue), settings=CLOCK) as stage:
        await stage.ask(tongue, Ask(), session=True)


async def test_refused(record: Record) -> None:
    key = {"owner": "ann", "key_sha256": hashlib.sha256(b"key-ann").hexdigest(), "admin": False}
    allowed = "authorization: Bearer key-ann"
    async with record(telling(CHAT, HI, True), tables={"keys": [key]}) as stage:
        for tongue in TONGUES:
            await stage.ask(tongue, Ask())
            await stage.ask(tongue, Ask(), "authorization: Bearer key-bob", session=True)
            await stage.ask(tongue, Ask(model="unknown"), allowed, session=True)
            for body in (b'{"model":', b"[]", b'{"model":"m"}'):
                await stage.fetch(request("POST", tongue.PATH, JSON, SESSION, allowed, body=body))
