"""A reminder counts as delivered with the first content of the answer, in every pair of dialects."""

from __future__ import annotations

import pytest

from gateway.clock import ManualClock
from tests.clock.reminding import NO_HOLD, listed, remind
from tests.gateway.wire import hanging, in_turn, request
from tests.wire.fake import CHUNKED, LAST, Story, chunk, once

from .gate import JSON, each_pair, gate
from .neutral import Answer, Ask, Call, Tongue, halves

NOW = 1_770_067_358_229
DUE = b"scheduled tasks are due"
TEXT, THOUGHT, CALL_ID = "teatime it is", "hmm the kettle", "call_kettle7"
ANSWERS = {
    "text": Answer(TEXT),
    "thought": Answer(TEXT, THOUGHT),
    "call": Answer(calls=(Call(CALL_ID, "boil", '{"cups": 2}'),), stop="tools"),
}
# What only content has in it, whichever dialect it is in.
CONTENT = [half.encode() for half in (halves(TEXT)[0], halves(THOUGHT)[0], CALL_ID)]


def frames_of(upstream: Tongue, answer: Answer) -> list[bytes]:
    """Return an answer frame by frame."""
    stream = b"".join(upstream.stream(answer))
    return [frame + b"\n\n" for frame in stream.split(b"\n\n") if frame]


def cut_off(frames: list[bytes]) -> Story:
    """Send these frames and hang up."""
    return once(CHUNKED, chunk(b"".join(frames)))


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@each_pair
async def test_a_reminder_cut_off_before_the_first_content_comes_again(
    client: Tongue, upstream: Tongue, answer: Answer
) -> None:
    frames = frames_of(upstream, answer)
    whole = once(CHUNKED, *map(chunk, frames), LAST)
    cuts = range(1, len(frames) - 2)
    stories = [story for kept in cuts for story in (cut_off(frames[:kept]), whole)]
    shown: list[bool] = []
    async with gate((upstream, in_turn(*stories)), clock=ManualClock(NOW)) as between:
        for kept in cuts:
            session = f"s{kept}"
            await remind(between.running, "tea", NOW, session)
            headers = (f"x-session-id: {session}", NO_HOLD)
            body = client.ask(Ask(tools=("boil",)), True)
            cut = await between.send(client, body, *headers)
            shown.append(any(mark in cut.body for mark in CONTENT))
            await between.send(client, body, *headers)
            first, second = (asked.body for asked in between.running.requests[-2:])
            assert DUE in first
            assert (DUE in second) is not shown[-1], kept
            (task,) = (await listed(between.running, session))["items"]
            assert task["deliveryCount"] == 1
    assert True in shown
    assert False in shown


@each_pair
async def test_a_reminder_stays_where_the_client_leaves_before_the_first_content(
    client: Tongue, upstream: Tongue
) -> None:
    """It has seen that an answer begins, and nothing of it."""
    frames = frames_of(upstream, Answer(TEXT))
    whole = once(CHUNKED, *map(chunk, frames), LAST)
    story = in_turn(hanging(CHUNKED, chunk(frames[0])), whole)
    async with gate((upstream, story), clock=ManualClock(NOW)) as between:
        await remind(between.running, "tea", NOW)
        headers = ("x-session-id: s", NO_HOLD)
        asking = request("POST", client.PATH, JSON, *headers, body=client.ask(Ask(), True))
        leaving = await between.running.send(asking)
        await leaving.head()
        leaving.leave()
        await between.running.quiet()
        await between.send(client, client.ask(Ask(), True), *headers)
        first, second = (asked.body for asked in between.running.requests)
    assert DUE in first
    assert DUE in second
