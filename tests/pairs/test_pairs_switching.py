"""A conversation that one upstream began and another goes on with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire.fake import once

from .gate import CHAT, MESSAGES, RESPONSES, gate, telling
from .messages import SIGNATURE
from .neutral import Answer, Ask, Tongue

THOUGHT = Answer("Forty-two.", thought="Six times seven.")
CLIENTS = pytest.mark.parametrize("client", [MESSAGES, RESPONSES], ids=["messages", "responses"])


def going_on(client: Tongue, sent: Any) -> bytes:
    """Ask on, with all that was answered, as the vendor's SDK would send it back."""
    if client is MESSAGES:
        said = {"role": "assistant", "content": sent["content"]}
        turns = [{"role": "user", "content": "6 × 7?"}, said, {"role": "user", "content": "Sure?"}]
        return json.dumps({"model": "m", "max_tokens": 9, "messages": turns}).encode()
    asked = {"role": "user", "content": "6 × 7?"}
    items = [asked, *sent["output"], {"role": "user", "content": "Sure?"}]
    return json.dumps({"model": "m", "input": items, "store": False}).encode()


@CLIENTS
async def test_what_only_another_upstream_can_prove_is_not_told(client: Tongue) -> None:
    other = telling(CHAT, THOUGHT, stream=False)
    async with gate((client, once()), (CHAT, other)) as between:
        first = await between.ask(client, Ask(), stream=False)
        assert client.read_whole(bytes(first.body)) == THOUGHT
        assert b"holdgate:unproven" in first.body
    asked = going_on(client, json.loads(first.body))
    async with gate((client, telling(client, Answer("Yes."), stream=False))) as between:
        assert (await between.send(client, asked)).status == 200
        assert b"Forty-two." in between.told
        assert b"holdgate:" not in between.told
        assert b"Six times seven." not in between.told


@CLIENTS
async def test_and_to_who_proved_it_it_comes_back(client: Tongue) -> None:
    """What proves a thought goes through a client of the other dialect and back."""
    home = RESPONSES if client is MESSAGES else MESSAGES
    proof = b'"encrypted_content":"e"' if home is RESPONSES else SIGNATURE.encode()
    async with gate((home, telling(home, THOUGHT, stream=False))) as between:
        first = await between.ask(client, Ask(), stream=False)
        asked = going_on(client, json.loads(first.body))
        assert (await between.send(client, asked)).status == 200
        assert proof in between.told
        assert b"holdgate:" not in between.told
