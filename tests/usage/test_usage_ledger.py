"""Four owners, 400 requests of all kinds: what is stored is the upstream's own ledger."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import anyio

from gateway.exchange.model import Usage
from gateway.usage.model import PICOS, make_price
from tests.gateway.client import Answer, Client
from tests.gateway.wire import request
from tests.jobs.words import key, seen
from tests.run import as_process
from tests.sessions.talk import JSON
from tests.wire.fake import fake_upstream

from .ledger import (
    INCURIOUS,
    OWNERS,
    PRICES,
    SPARE,
    TONGUES,
    LedgerUpstream,
    asking,
    fetch,
    read_stored,
    settings,
    show_ledger,
    show_usage,
)

AT_ONCE = 16
STOP_MESSAGE = '<**stopMessage:"go on do:say",2**>'

Deed = Callable[[int], Awaitable[str]]
"""Does something at a gateway; returns which model was asked."""


def deeds_of(owner: str) -> Iterator[Deed]:
    """Yield the hundred deeds of an owner."""
    pairs = list(product(TONGUES, TONGUES, (True, False)))
    for dialect, model, stream in pairs * 3:
        yield do(owner, model, dialect, "say", stream=stream)
    for dialect, _, stream in pairs[:8]:
        yield do(owner, SPARE, dialect, "say", stream=stream)
    for number, (dialect, model, stream) in enumerate(pairs[::2] + pairs[1:2]):
        session = f"x-session-id: stop-{number}"
        yield do(owner, model, dialect, "say", session, stream=stream, text=STOP_MESSAGE)
    for number, (dialect, model, stream) in enumerate(pairs[1::2][:8]):
        yield do(owner, model, dialect, "hold", f"x-session-id: hold-{number}", stream=stream)
    for stream in (True, False) * 3:
        yield do(owner, "chat", "chat", "mute", stream=stream)
    for dialect, model in [*product(TONGUES, TONGUES)][:6]:
        yield leave(owner, model, dialect)
    for dialect in (*TONGUES, "chat"):
        yield do(owner, "chat", dialect, "cut", stream=True, ends=200)
    for stream in (True, False):
        yield do(owner, "msgs", "msgs", "refuse", stream=stream, ends=400)
    yield from [run_job(owner, name) for name in ("one", "two")]


def do(
    owner: str,
    model: str,
    dialect: str,
    deed: str,
    *headers: str,
    stream: bool,
    text: str = "",
    ends: int = 200,
) -> Deed:
    """Ask for something, and read the answer to its end."""

    async def act(port: int) -> str:
        data = asking(owner, model, dialect, deed, *headers, stream=stream, text=text)
        answer = await fetch(port, data)
        assert answer.status == ends, bytes(answer.body)
        if stream and dialect == "chat" and owner in INCURIOUS:
            assert b'"usage"' not in answer.body
        return model

    return act


def leave(owner: str, model: str, dialect: str) -> Deed:
    """Ask for a stream, and leave in the middle of it."""

    async def act(port: int) -> str:
        client = await Client.connected(port)
        await client.send(asking(owner, model, dialect, "hang", stream=True))
        await client.saw(b"\n\n")
        client.leave()
        return model

    return act


def run_job(owner: str, name: str) -> Deed:
    """Make a job of the owner's agent, and run it."""

    async def act(port: int) -> str:
        wish = {"message": "do:say", "schedule_text": "daily at 9am", "name": name}
        made = await call(port, owner, "add", {**wish, "agent_id": f"agent-{owner}"})
        job_id = made["job"]["job_id"]
        assert (await call(port, owner, "run", {"job_id": job_id}))["queued"]

        async def runs() -> list[str]:
            found = await call(port, owner, f"runs?job_id={job_id}")
            return [run["status"] for run in found["runs"]]

        await seen(runs, lambda found: found == ["ok"], patience=30)
        return "resp"

    return act


async def call(port: int, owner: str, action: str, body: Any = None) -> Any:
    method, data = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    answer: Answer = await fetch(
        port, request(method, f"/api/cron/{action}", JSON, key(owner), body=data)
    )
    assert answer.status == 200, bytes(answer.body)
    return answer.json["data"]


async def do_all(port: int, random: Random) -> Counter[tuple[str, str]]:
    """Do all deeds of all owners, many at once; return how often each asked each model."""
    deeds = [(owner, deed) for owner in OWNERS for deed in deeds_of(owner)]
    assert len(deeds) == 400
    random.shuffle(deeds)
    asked: Counter[tuple[str, str]] = Counter()

    async def work() -> None:
        while deeds:
            owner, deed = deeds.pop()
            asked[owner, f"{owner}.{await deed(port)}"] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(work)
    return asked


def costs_of(ledger: LedgerUpstream) -> dict[tuple[str, str], float | None]:
    """Work out what owners have to pay for models, from the ledger alone."""
    picos: Counter[tuple[str, str]] = Counter()
    models = {(owner, model) for owner, model, _ in ledger.sum_up()}
    for entry in ledger.entries:
        owner, model, _ = entry.key
        if dollars := PRICES[model.partition(".")[2]]:
            price = make_price({name: Decimal(str(value)) for name, value in dollars.items()})
            counts = entry.counts
            usage = Usage(counts.input, counts.output, counts.cached)
            picos[owner, model] += price.cost_picos(usage)
    return {one: picos[one] // PICOS / 1_000_000 if one in picos else None for one in models}


async def test_what_is_stored_is_the_upstreams_own_ledger(tmp_path: Path) -> None:
    random = Random("ledger")
    ledger = LedgerUpstream(random)
    async with fake_upstream(ledger.story) as upstream:
        environment = settings(upstream.port)
        async with as_process(tmp_path, environment) as gate:
            asked = await do_all(gate.port, random)

            async def exchanges() -> int:
                found: int = (await show_usage(gate.port))[0]["exchanges"]
                return found

            # Of those who left, the gateway hears a moment later.
            await seen(exchanges, lambda found: found == 400)
            told = ledger.sum_up()
            assert await show_ledger(gate.port) == told
            turns = sum(counts.turns for counts in told.values())
            # Holds and stop messages have three turns each; a refusal has none.
            assert turns == 400 + 4 * (2 * 10 + 2 * 8) - 4 * 2
            by_model = await show_usage(gate.port, query="group_by=owner,model")
            assert {(one["owner"], one["model"]): one["exchanges"] for one in by_model} == asked
            paid = {(one["owner"], one["model"]): one["cost_usd"] for one in by_model}
            assert paid == costs_of(ledger)
            for owner in OWNERS:
                (own,) = await show_usage(gate.port, owner)
                whole = sum(c.input for (name, *_), c in told.items() if name == owner)
                assert own["input_tokens"] == whole
            assert await gate.terminate() == 0
        assert read_stored(tmp_path) == told
        async with as_process(tmp_path, environment) as gate:
            assert await show_ledger(gate.port) == told
            await fetch(gate.port, asking("ann", "chat", "chat", "say", stream=True))
            assert await show_ledger(gate.port) == ledger.sum_up()
            assert await gate.terminate() == 0
    assert read_stored(tmp_path) == ledger.sum_up()
