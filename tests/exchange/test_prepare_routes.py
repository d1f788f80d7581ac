"""What a user writes can not choose a model or an upstream that the operator does not offer.

On all three ways into an exchange: `/v1/…`, `/api/chat`, and runs of jobs.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.talking import says
from tests.gateway.wire import request
from tests.jobs.words import HELPER, add, house, ran, run_now
from tests.pairs.gate import CHAT, each_tongue, telling
from tests.pairs.neutral import Answer, Ask, Tongue, Turn
from tests.run import Running
from tests.sessions.talk import JSON, SESSION
from tests.wire.fake import Story

OFFERED = {"models": ["m", "n"]}
# Forced for one request; preferred from now on; an upstream that there is not.
FORCED, PREFERRED, UNKNOWN = "<**a.secret**>", "<**!a.secret**>", "<**z.m**>"


def story(tongue: Tongue = CHAT) -> Story:
    return telling(tongue, Answer("Hello."), True)


def models(gate: Running) -> list[str]:
    """Return which models were asked for, of all upstreams."""
    return [json.loads(asked.body)["model"] for asked in gate.requests]


async def ask(gate: Running, tongue: Tongue, text: str) -> Any:
    body = tongue.ask(Ask((Turn("user", text),)), True)
    return await gate.fetch(request("POST", tongue.PATH, JSON, SESSION, body=body))


@each_tongue
async def test_of_a_relayed_request(tongue: Tongue) -> None:
    async with house(story(tongue), upstream=OFFERED | {"dialect": tongue.NAME}) as gate:
        refused = await ask(gate, tongue, f"{FORCED} hi")
        assert refused.status == 400, bytes(refused.body)
        assert b"No upstream offers a/secret" in bytes(refused.body)
        for text in (f"{PREFERRED} hi", "hi again", f"{UNKNOWN} hi"):
            assert (await ask(gate, tongue, text)).status == 200
        assert (await ask(gate, tongue, "<**a.n**> hi")).status == 200
        assert models(gate) == ["m", "m", "m", "n"]


async def test_of_a_message_to_an_agent() -> None:
    async with house(story(), upstream=OFFERED) as gate:
        refused = await gate.fetch(says(f"{FORCED} hi"))
        assert refused.status == 400, bytes(refused.body)
        assert b"No upstream offers a/secret" in bytes(refused.body)
        for text in (f"{PREFERRED} hi", "hi again", f"{UNKNOWN} hi", "<**a.n**> hi"):
            assert b"event: complete" in bytes((await gate.fetch(says(text))).body)
        assert models(gate) == ["m", "m", "m", "n"]


@pytest.mark.parametrize("agent", [HELPER["id"], ""])
@pytest.mark.parametrize("mode", ["main", "isolated"])
async def test_of_a_run(agent: str, mode: str) -> None:
    async with house(story(), upstream=OFFERED) as gate:
        if agent:
            await gate.fetch(says(f"{PREFERRED} hi", sessionId="s"))
        else:
            await ask(gate, CHAT, f"{PREFERRED} hi")
        message = f"{FORCED} {UNKNOWN} what is new?"
        job_id = await add(gate, agent=agent, session_id="s", message=message, session=mode)
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        assert len(models(gate)) >= 2
        assert set(models(gate)) == {"m"}
