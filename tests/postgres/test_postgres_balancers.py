"""Gateways behind HAProxy and nginx, as deploy/ configures these, and what a rolling restart shows."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import anyio
import pytest

from gateway.timestamps import iso
from tests.gateway.client import Client
from tests.gateway.wire import DONE, ask_of, chat, get, request, streaming, text, turn
from tests.wire.fake import fake_upstream

from .balancers import HAPROXY, NGINX, BalancedGateways, balanced

JSON = "content-type: application/json"
FAR_MS = 300_000


@pytest.fixture(params=[16, pytest.param(500, marks=pytest.mark.long)])
def crowd(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.mark.parametrize(
    "file, restarts", [(HAPROXY, 2), (NGINX, 1), pytest.param(NGINX, 2, marks=pytest.mark.long)]
)
async def test_a_rolling_restart_breaks_no_stream(
    file: str, restarts: int, crowd: int, tmp_path: Path
) -> None:
    """Held answers end as they should, new requests go elsewhere, and reminders stay."""
    async with fake_upstream(streaming(turn("hi"))) as fake:
        async with balanced(file, tmp_path, fake.port) as gates:
            await gates.wait_for(2)
            held = [await hold(gates, number) for number in range(crowd)]
            await gates.wait_until_held(crowd)
            statuses: list[int] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask_again_and_again, gates, statuses)
                for gateway in gates.gateways[:restarts]:
                    before = len(statuses)
                    assert await gateway.terminate() == 0
                    await gateway.start_again()
                    await gates.wait_for(2)
                    assert len(statuses) > before
                tasks.cancel_scope.cancel()
            # Who waits at the others is told to leave now; who waited at these has been.
            for gateway in gates.gateways[restarts:]:
                gateway.signal(signal.SIGTERM)
            # Who had begun to wait got a proper end, and nobody was turned away.
            for client in held:
                answer = await client.answer()
                assert answer.ending == "whole"
                assert answer.body.endswith(DONE)
                assert not answer.failed
                client.leave()
            assert set(statuses) == {200}
            for number in range(crowd):
                kept = await gates.fetch(get(f"/api/sessions/s{number}/reminders"))
                assert len(kept.json["items"]) == 1


async def hold(gates: BalancedGateways, number: int) -> Client:
    """Set a reminder that is due much later, and ask for an answer, which then waits for it."""
    due = {"dueAt": iso(time.time_ns() // 1_000_000 + FAR_MS), "task": "tea"}
    path = f"/api/sessions/s{number}/reminders"
    posted = await gates.fetch(request("POST", path, JSON, body=json.dumps(due).encode()))
    assert posted.status == 201, bytes(posted.body)
    client = await gates.send(ask_of(chat(), f"x-session-id: s{number}"))
    await client.saw(text("hi"))
    return client


async def ask_again_and_again(gates: BalancedGateways, statuses: list[int]) -> None:
    while True:
        answer = await gates.fetch(ask_of(chat()))
        statuses.append(answer.status)
        assert answer.body.endswith(DONE), bytes(answer.body)
