"""`auth = "client"`: the client's own key goes to that one upstream, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.wire import PATH, chat, get, request, streaming, turn
from tests.jobs.words import add, ran, run_now
from tests.pairs.gate import JSON, MESSAGES, telling
from tests.pairs.neutral import Answer, Ask
from tests.run import Running, in_process
from tests.sessions.talk import SESSION
from tests.wire.fake import Story, answering, fake_upstream, sized

CANARY = "canary-own-login"
MINE = f"authorization: Bearer {CANARY}"
GATEWAY_KEY = "key-of-the-gateway"
NAMED = f"x-holdgate-key: {GATEWAY_KEY}"
KEYS = [{"owner": "alice", "key": GATEWAY_KEY}]
GOOD = streaming(turn("one"))
BUSY = answering(sized(b'{"error": {"message": "busy"}}', JSON, status="503 Full"))


@asynccontextmanager
async def gateway(
    *stories: Story, auth: tuple[str, ...] = ("client",), **options: Any
) -> AsyncIterator[Running]:
    """Run a gateway whose model `m` leads to upstreams with these kinds of `auth`."""
    async with AsyncExitStack() as stack:
        fakes = [await stack.enter_async_context(fake_upstream(story)) for story in stories]
        upstreams = [
            {"id": name, "base_url": f"http://127.0.0.1:{fake.port}/v1", "auth": kind}
            for name, fake, kind in zip("abc", fakes, auth, strict=False)
        ]
        models = [{"name": "m", "routes": [f"{one['id']}/m" for one in upstreams]}]
        tables = {"upstreams": upstreams, "models": models, **options.pop("tables", {})}
        gate = await stack.enter_async_context(in_process(tables=tables, **options))
        gate.fakes += fakes
        yield gate


def keys_sent(gate: Running, number: int = 0) -> list[dict[str, str]]:
    """Return the headers that may carry a key, of each request to an upstream."""
    names = (b"authorization", b"x-api-key", b"x-holdgate-key", b"chatgpt-account-id")
    return [
        {name.decode(): asked.headers[name].decode() for name in names if name in asked.headers}
        for asked in gate.fakes[number].requests
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"authorization": f"Bearer {CANARY}"},
        {"x-api-key": CANARY},
        {"authorization": f"Bearer {CANARY}", "chatgpt-account-id": "acc-1"},
    ],
)
@pytest.mark.parametrize("keys", [[], KEYS], ids=["no keys", "keys"])
async def test_it_goes_up_as_it_came(given: dict[str, str], keys: list[Any]) -> None:
    headers = [f"{name}: {value}" for name, value in given.items()]
    headers += [NAMED] if keys else []
    async with gateway(GOOD, tables={"keys": keys}) as gate:
        assert (await gate.ask(chat(), *headers)).text == "one"
        assert keys_sent(gate) == [given]


@pytest.mark.parametrize(
    "headers",
    [
        (f"authorization: Bearer {GATEWAY_KEY}",),
        (f"x-api-key: {GATEWAY_KEY}",),
        (NAMED,),
        (NAMED, f"authorization: Bearer {GATEWAY_KEY}"),
        (f"authorization: Bearer {GATEWAY_KEY}", "x-api-key: canary-own-login"),
    ],
)
async def test_without_it_the_route_is_skipped(headers: tuple[str, ...]) -> None:
    async with gateway(GOOD, tables={"keys": KEYS}) as gate:
        answer = await gate.ask(chat(), *headers)
        assert answer.status == 401
        assert "x-holdgate-key" in answer.error["message"]
        assert gate.requests == []
    async with gateway(GOOD, GOOD, auth=("client", "none"), tables={"keys": KEYS}) as gate:
        answer = await gate.ask(chat(), *headers)
        assert answer.headers["x-holdgate-upstream"] == "b"
        assert keys_sent(gate, 1) == [{}]


async def test_a_wrong_gateway_key_lets_nobody_in() -> None:
    async with gateway(GOOD, tables={"keys": KEYS}) as gate:
        assert (await gate.ask(chat(), "x-holdgate-key: wrong", MINE)).status == 401
        assert (await gate.ask(chat(), MINE)).status == 401
        assert gate.requests == []


async def test_no_other_route_gets_it() -> None:
    """Not one with a key of the operator's, and not another that wants a client's key."""
    async with gateway(BUSY, GOOD, GOOD, auth=("client", "client", "none")) as gate:
        answer = await gate.ask(chat(), MINE)
        assert answer.headers["x-holdgate-upstream"] == "c"
        assert keys_sent(gate, 0) == [{"authorization": f"Bearer {CANARY}"}]
        assert keys_sent(gate, 1) == []
        assert keys_sent(gate, 2) == [{}]


async def test_tokens_are_counted_with_it_or_estimated() -> None:
    story = answering(sized(b'{"input_tokens": 7}', JSON))
    body, path = MESSAGES.ask(Ask(), False), "/v1/messages/count_tokens"
    upstream = {"auth": "client", "dialect": "anthropic-messages"}
    async with in_process(story, upstream=upstream) as gate:
        for headers, asked in (((), 0), ((f"x-api-key: {CANARY}",), 1)):
            answer = await gate.fetch(request("POST", path, JSON, *headers, body=body))
            assert answer.status == 200
            assert len(gate.requests) == asked
        assert keys_sent(gate) == [{"x-api-key": CANARY}]


async def test_it_is_not_stored_logged_or_used_by_a_job(tmp_path: Path) -> None:
    """Canary: an exchange, and a job that would go on from it."""
    settings = {"store__url": "", "server__session_dir": str(tmp_path)}
    async with gateway(GOOD, settings=settings) as gate:
        asked = request("POST", PATH, JSON, SESSION, MINE, body=chat())
        job = await add(gate, agent="")
        assert (await gate.fetch(asked)).status == 200
        await run_now(gate, job)
        (run,) = await ran(gate, job, "error")
        assert "asked with the client's own key" in run["error"]
        assert len(gate.requests) == 1
        pages = [
            bytes((await gate.fetch(get(path))).body)
            for path in ("/api/status", "/metrics", "/v1/models", "/api/sessions")
        ]
        await gate.quiet()
        log = gate.log
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [1 for text in (*files, *pages, log.encode()) if CANARY.encode() in text]


async def test_an_error_that_repeats_it_is_masked() -> None:
    error = f'{{"error": {{"message": "Who is {CANARY}?"}}}}'.encode()
    async with gateway(answering(sized(error, JSON, status="401 No"))) as gate:
        answer = await gate.ask(chat(), MINE)
    assert answer.status == 401
    assert answer.error["message"] == "Who is ***?"


async def test_it_works_across_dialects() -> None:
    story = telling(MESSAGES, Answer("Hello."), stream=True)
    upstream = {"auth": "client", "dialect": "anthropic-messages"}
    async with in_process(story, upstream=upstream) as gate:
        assert (await gate.ask(chat(), MINE)).text == "Hello."
        assert keys_sent(gate) == [{"authorization": f"Bearer {CANARY}"}]
