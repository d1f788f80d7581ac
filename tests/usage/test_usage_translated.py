"""Tokens of translated streams are counted, also for clients that did not ask for them."""

from __future__ import annotations

import pytest

from gateway.usage.model import UsageCounts, UsageQuery
from tests.pairs.gate import CHAT, MESSAGES, RESPONSES, Gate, gate, telling
from tests.pairs.neutral import Answer, Ask, Tokens, Tongue

TOKENS = Tokens(20, 7, 4, 3)
COUNTED = UsageCounts(1, 1, 1, 20, 4, 7, 3)


async def counts_of(gateway: Gate) -> UsageCounts:
    await gateway.running.quiet()
    found = await gateway.running.gateway.parts.usage.read(UsageQuery(0, 2**63 - 1))
    (counts,) = found.values()
    return counts


@pytest.mark.parametrize("asks", [True, False], ids=["asks", "does not ask"])
@pytest.mark.parametrize(
    ("upstream", "streams"),
    [
        pytest.param(RESPONSES, True, id="responses"),
        pytest.param(MESSAGES, True, id="messages"),
        pytest.param(MESSAGES, False, id="messages, in one piece"),
        pytest.param(CHAT, False, id="chat, in one piece"),
    ],
)
async def test_a_stream_of_a_chat_client(upstream: Tongue, streams: bool, asks: bool) -> None:
    story = telling(upstream, Answer("Hi.", tokens=TOKENS), streams)
    async with gate((upstream, story), upstream={"ask_usage": False}) as gateway:
        options = {} if asks else {"stream_options": None}
        answer = await gateway.send(CHAT, CHAT.ask(Ask(), True, **options))
        assert answer.text == "Hi."
        assert (b'"usage"' in answer.body) is asks
        assert answer.datas[-1] == b"[DONE]"
        assert await counts_of(gateway) == COUNTED


@pytest.mark.parametrize("client", [RESPONSES, MESSAGES], ids=["responses", "messages"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_thinking_is_counted_as_reasoning(client: Tongue, stream: bool) -> None:
    story = telling(MESSAGES, Answer("Hi.", tokens=TOKENS), stream)
    async with gate((MESSAGES, story)) as gateway:
        await gateway.ask(client, Ask(), stream)
        assert await counts_of(gateway) == COUNTED
