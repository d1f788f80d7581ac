"""Limits of requests, of answers at once and of models: who is refused, when, and how it is said."""

from __future__ import annotations

import json
import time
from functools import partial

import anyio
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.clock.words import play, says
from tests.gateway.wire import Cue, get, request, streaming, turn
from tests.jobs.models import cued
from tests.jobs.words import HOUR, add, every, key, keys, run_now, runs_of, seen
from tests.run import Running, until
from tests.sessions.talk import JSON
from tests.usage.words import MovableClock, ask, limited, start
from tests.wire.fake import answering, sized

HI = streaming(turn("Hi"))


async def test_the_request_beyond_the_limit_of_a_minute() -> None:
    clock = MovableClock()
    async with limited(HI, clock=clock, rpm=3) as gate:
        for left in (2, 1, 0):
            answer = await ask(gate)
            assert answer.status == 200
            assert answer.headers["x-ratelimit-limit-requests"] == "3"
            assert answer.headers["x-ratelimit-remaining-requests"] == str(left)
            assert answer.headers["x-ratelimit-reset-requests"].endswith("s")
        refused = await ask(gate)
        assert refused.status == 429
        error = refused.json["error"]
        assert (error["code"], error["type"]) == ("rate_limit_exceeded", "rate_limit_error")
        assert error["message"].startswith("More than 3 requests in a minute; try again in ")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        assert len(gate.requests) == 3
        # Others are not touched, and hear of no limits.
        other = await ask(gate, "bob")
        assert other.status == 200
        assert not any("ratelimit" in name for name in other.headers)
        clock.move(int(refused.headers["retry-after"]))
        assert (await ask(gate)).status == 200


async def test_messages_and_responses_say_it_in_their_own_form() -> None:
    async with limited(HI, rpm=1) as gate:
        await ask(gate)
        body = json.dumps({"model": "m", "max_tokens": 9, "messages": []}).encode()
        messages = await gate.fetch(request("POST", "/v1/messages", JSON, key("ann"), body=body))
        assert messages.status == 429
        assert messages.json["type"] == "error"
        assert messages.json["error"]["type"] == "rate_limit_error"
        assert messages.headers["anthropic-ratelimit-requests-limit"] == "1"
        assert messages.headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert messages.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
        body = json.dumps({"model": "m", "input": "hi"}).encode()
        responses = await gate.fetch(request("POST", "/v1/responses", JSON, key("ann"), body=body))
        assert responses.status == 429
        assert responses.json["error"]["code"] == "rate_limit_exceeded"
        assert "retry-after" in responses.headers


async def test_an_upstreams_own_limits_are_hidden_only_from_limited_owners() -> None:
    limits = ("x-ratelimit-limit-requests: 99", "x-ratelimit-limit-tokens: 7")
    limiting = answering(sized(turn("Hi"), "content-type: text/event-stream", *limits))

    async with limited(limiting, rpm=5) as gate:
        own = await ask(gate)
        assert own.headers["x-ratelimit-limit-requests"] == "5"
        assert "x-ratelimit-limit-tokens" not in own.headers
        other = await ask(gate, "bob")
        assert other.headers["x-ratelimit-limit-requests"] == "99"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_real_clients_wait_and_succeed(kind: str) -> None:
    clock = MovableClock()
    async with limited(play(says("Hi")), clock=clock, rpm=2) as gate:
        url, secret = f"http://127.0.0.1:{gate.port}", "key-ann"
        async with (
            AsyncOpenAI(base_url=f"{url}/v1", api_key=secret, max_retries=1) as openai,
            AsyncAnthropic(base_url=url, api_key=secret, max_retries=1) as anthropic,
        ):

            async def say_hi() -> str | None:
                if kind == "openai":
                    said = await openai.chat.completions.create(
                        model="m", messages=[{"role": "user", "content": "hello"}]
                    )
                    return said.choices[0].message.content
                told = await anthropic.messages.create(
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "hello"}]
                )
                return told.content[0].text if told.content[0].type == "text" else None

            assert await say_hi() == await say_hi() == "Hi"
            # Two of the sixty seconds are left: the library is told, waits, and tries again.
            clock.move(58)
            begun = time.monotonic()
            assert await say_hi() == "Hi"
            assert time.monotonic() - begun >= 1
        assert [line["event"] for line in _refusals(gate)] == ["refused"]
        assert len(gate.requests) == 3


def _refusals(gate: Running) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in gate.log.splitlines()]
    return [line for line in lines if line["event"] == "refused"]


async def test_answers_at_the_same_time() -> None:
    cue = Cue()
    async with limited(cued(cue, "Hi"), concurrent=2) as gate:
        running = [await start(gate) for _ in range(2)]
        await until(lambda: len(gate.requests) == 2)
        refused = await ask(gate)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "2 answers at the same time" in refused.json["error"]["message"]
        for _ in range(2):
            cue.give()
        for client in running:
            assert (await client.answer()).status == 200
        cue.give()
        assert (await ask(gate)).status == 200


async def test_a_client_that_leaves_makes_room() -> None:
    cue = Cue()
    async with limited(cued(cue, "Hi"), concurrent=1) as gate:
        client = await start(gate)
        await until(lambda: len(gate.requests) == 1)
        client.leave()
        await gate.quiet()
        cue.give()
        cue.give()
        assert (await ask(gate)).status == 200


async def test_follow_ups_count_and_a_refused_one_ends_the_answer_normally() -> None:
    directive = 'hello <**stopMessage:"Go on.",9**>'
    async with limited(streaming(turn("Hi")), rpm=3) as gate:
        answer = await ask(gate, "ann", "x-session-id: s", text=directive)
        assert answer.status == 200
        assert len(gate.requests) == 3
        assert bytes(answer.body).endswith(b"data: [DONE]\n\n")
        assert b'"finish_reason":"stop"' in bytes(answer.body)
        assert b"error" not in bytes(answer.body)
        await gate.quiet()
        (line,) = gate.exchanges
        assert (line["state"], line["code"], line["turns"]) == ("done", "rate_limit_exceeded", 4)


async def test_a_refused_run_is_skipped_and_does_not_disable_its_job() -> None:
    async with limited(HI, rpm=1) as gate:
        await ask(gate)
        job_id = await add(gate, "news?", key("ann"), schedule=every(HOUR))
        await run_now(gate, job_id, key("ann"))
        runs = partial(runs_of, gate, job_id, key("ann"))
        (run,) = await seen(runs, lambda found: [one["status"] for one in found] == ["skipped"])
        assert run["error"].startswith("More than 1 requests in a minute")
        assert len(gate.requests) == 1


async def test_models_of_an_owner() -> None:
    tables = {
        "models": [{"name": "m", "routes": ["a/m"]}, {"name": "dear", "routes": ["a/dear"]}],
        "agents": [{"id": "helper", "model": "dear"}],
    }
    async with limited(HI, tables=tables, models=["m"]) as gate:
        assert (await ask(gate)).status == 200
        refused = await ask(gate, model="dear")
        assert (refused.status, refused.json["error"]["code"]) == (404, "model_not_found")
        assert (await ask(gate, "bob", model="dear")).status == 200
        listed = await gate.fetch(get("/v1/models", key("ann")))
        assert [one["id"] for one in listed.json["data"]] == ["m"]
        assert (await gate.fetch(get("/v1/models/dear", key("ann")))).status == 404
        # Directives, agents and jobs lead nowhere else.
        forced = await ask(gate, text="hello <**a.dear**>")
        assert (forced.status, forced.json["error"]["code"]) == (400, "no_route")
        body = json.dumps({"agentId": "helper", "message": "hi"}).encode()
        chatted = await gate.fetch(request("POST", "/api/chat", JSON, key("ann"), body=body))
        assert chatted.status == 404
        job = {"session_id": "s", "message": "hi", "model": "dear", "schedule": every(HOUR)}
        added = await gate.fetch(
            request("POST", "/api/cron/add", JSON, key("ann"), body=json.dumps(job).encode())
        )
        assert added.status == 400
        assert {json.loads(one.body)["model"] for one in gate.requests} == {"m", "dear"}
        assert len(gate.requests) == 2


async def test_a_refused_request_acts_on_nothing() -> None:
    async with limited(HI, rpm=1) as gate:
        await ask(gate)
        refused = await ask(gate, "ann", "x-session-id: s", text="hi <**!a**>")
        assert refused.status == 429
        shown = await gate.fetch(get("/api/sessions/s", key("ann")))
        assert shown.status == 404


async def test_many_at_once_are_counted_exactly() -> None:
    async with limited(HI, rpm=5) as gate:
        statuses: list[int] = []

        async def one() -> None:
            statuses.append((await ask(gate)).status)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(one)
        assert sorted(statuses) == [200] * 5 + [429] * 15
        assert len(gate.requests) == 5


async def test_a_reload_changes_limits_and_forgets_no_count() -> None:
    async with limited(HI, rpm=5) as gate:
        assert (await ask(gate)).status == (await ask(gate)).status == 200
        owners = keys("ann", "bob", "root", admin="root")
        owners[0]["rpm"] = 2
        await gate.reload(keys=owners)
        assert (await ask(gate)).status == 429
        del owners[0]["rpm"]
        await gate.reload(keys=owners)
        assert (await ask(gate)).status == 200
        owners[1]["concurrent"] = 1
        await gate.reload(keys=owners)
        assert (await ask(gate, "bob")).status == 200
