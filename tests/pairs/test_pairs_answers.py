"""Answers of any upstream, as a client of any dialect reads them on the wire."""

from __future__ import annotations

from .gate import MESSAGES, both_ways, each_pair, gate, read, telling, telling_all
from .neutral import Answer, Ask, Call, Tokens, Tongue

PARIS = Call("call_1", "get_weather", '{"city":"Paris","days":[1,2]}')
NEWS = Call("call_2", "get_news", '{"about":"☃"}')
ANSWERS = {
    "text": Answer("It rains. Es regnet – 雨。"),
    "reasoning": Answer("It rains.", thought="Let me think."),
    "a call": Answer(calls=(PARIS,), stop="tools"),
    "text and a call": Answer("Let me see.", calls=(PARIS,), stop="tools"),
    "parallel calls": Answer("Both.", calls=(PARIS, NEWS), stop="tools"),
    "reasoning and calls": Answer(thought="Hm.", calls=(PARIS, NEWS), stop="tools"),
    "length": Answer("It rai", stop="length"),
    "much usage": Answer("x", tokens=Tokens(1_000_000, 70_000, 900_000, 60_000)),
}


@both_ways
@each_pair
async def test_an_answer_says_the_same(client: Tongue, upstream: Tongue, stream: bool) -> None:
    story = telling_all(upstream, ANSWERS.values(), stream)
    async with gate((upstream, story)) as between:
        for name, answer in ANSWERS.items():
            sent = await between.ask(client, Ask(tools=("get_weather", "get_news")), stream)
            if client is upstream:
                # What passes is not put in order: it is shown as it came.
                came = b"".join(upstream.stream(answer)) if stream else upstream.whole(answer)
                assert (name, bytes(sent.body)) == (name, came)
            else:
                assert (name, read(client, sent, stream)) == (name, answer)
            assert sent.headers["x-holdgate-upstream"] == "a"


REFUSED = Answer(refusal="I cannot say that.", stop="filter")
FILTERED = Answer("I cannot", stop="filter")


@both_ways
@each_pair
async def test_a_refusal_is_one_everywhere(client: Tongue, upstream: Tongue, stream: bool) -> None:
    story = telling_all(upstream, [REFUSED, FILTERED], stream)
    async with gate((upstream, story)) as between:
        refused = read(client, await between.ask(client, Ask(), stream), stream)
        filtered = read(client, await between.ask(client, Ask(), stream), stream)
    assert (refused.stop, filtered.stop) == ("filter", "filter")
    assert refused.text + refused.refusal == REFUSED.refusal
    assert filtered.text + filtered.refusal == FILTERED.text
    # Messages has no place of its own for the words of a refusal.
    assert bool(refused.refusal) is (upstream is not MESSAGES or client is MESSAGES)


@each_pair
async def test_a_stream_comes_piece_by_piece(client: Tongue, upstream: Tongue) -> None:
    answer = Answer("It rains in Paris.")
    async with gate((upstream, telling(upstream, answer, True))) as between:
        sent = await between.ask(client, Ask(), True)
    # Each half of the text is in a frame of its own.
    assert b"It rains " in sent.body
    assert b"in Paris." in sent.body
