"""`GET /api/usage`: who sees what, by time and by groups, and what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.api import usage as module
from gateway.clock import ManualClock
from gateway.timestamps import HOUR_MS, iso
from tests.gateway.client import Answer
from tests.gateway.wire import ask_of, chat, get, request
from tests.jobs.words import key, keys
from tests.run import Running, in_process
from tests.sessions.talk import JSON, SESSION, forget, kept, model
from tests.wire.fake import Peer, Story, answering, sized

NOW = 1_793_784_600_000
"""2026-11-04T09:30:00Z"""
MONTH, NEXT_HOUR = "2026-11-01T00:00:00.000Z", "2026-11-04T10:00:00.000Z"
MODELS = [
    {"name": "priced", "routes": ["a/m"], "price": {"input": 2, "cached": 0.5, "output": 10}},
    {"name": "free", "routes": ["a/m"]},
    {"name": "spare", "routes": ["b/m", "a/m"]},
]
NUMBERS = ("exchanges", "turns", "reported_turns", "input_tokens", "output_tokens", "cost_usd")


class Usage:
    """A gateway with owners, whose n-th answer costs 10 n and n tokens, and its clock."""

    def __init__(self, gate: Running, clock: ManualClock) -> None:
        self.gate = gate
        self.clock = clock

    async def use(self, owner: str, name: str = "free") -> None:
        answer = await self.gate.fetch(ask_of(chat(model=name), key(owner)))
        assert answer.status == 200, bytes(answer.body)
        await self.gate.quiet()

    async def ask(self, owner: str, query: str = "") -> Answer:
        return await self.gate.fetch(get(f"/api/usage?{query}", key(owner)))

    async def show(self, owner: str, query: str = "") -> list[list[Any]]:
        """Show what the groups are called, and their numbers."""
        answer = await self.ask(owner, query)
        assert answer.status == 200, bytes(answer.body)
        return [
            [
                value
                for name, value in group.items()
                if name in ("owner", "model", "upstream", "hour")
            ]
            + [group[name] for name in NUMBERS]
            for group in answer.json["data"]
        ]


async def down(peer: Peer) -> None:
    raise EOFError


def gateway(clock: ManualClock, story: Story | None = None, **options: Any) -> Any:
    tables = {"models": MODELS, "keys": keys("ann", "bob", "root", admin="root")}
    settings = {"clock__enabled": False, **options}
    return in_process(story or model(), down, tables=tables, clock=clock, settings=settings)


@pytest.fixture
async def usage() -> AsyncIterator[Usage]:
    clock = ManualClock(NOW)
    async with gateway(clock) as gate:
        yield Usage(gate, clock)


async def test_where_nothing_was_used(usage: Usage) -> None:
    answer = await usage.ask("ann")
    assert answer.json == {
        "data": [
            {
                "exchanges": 0,
                "turns": 0,
                "reported_turns": 0,
                "input_tokens": 0,
                "cached_tokens": 0,
                "output_tokens": 0,
                "reasoning_tokens": 0,
                "cost_usd": None,
            }
        ],
        "budget": None,
        "from": MONTH,
        "to": NEXT_HOUR,
    }
    assert await usage.show("ann", "group_by=model") == []


async def test_everybody_sees_their_own_and_an_admin_sees_all(usage: Usage) -> None:
    await usage.use("ann")
    await usage.use("ann", "priced")
    await usage.use("bob", "priced")
    # 20 × 2 + 2 × 10, and 30 × 2 + 3 × 10 millionths.
    assert await usage.show("ann") == [[2, 2, 2, 30, 3, 0.00006]]
    assert await usage.show("ann", "owner=ann") == [[2, 2, 2, 30, 3, 0.00006]]
    assert await usage.show("bob") == [[1, 1, 1, 30, 3, 0.00009]]
    assert await usage.show("root") == [[3, 3, 3, 60, 6, 0.00015]]
    assert await usage.show("root", "owner=bob") == [[1, 1, 1, 30, 3, 0.00009]]
    assert await usage.show("root", "owner=nobody") == [[0, 0, 0, 0, 0, None]]
    assert await usage.show("root", "group_by=owner,model") == [
        ["ann", "free", 1, 1, 1, 10, 1, None],
        ["ann", "priced", 1, 1, 1, 20, 2, 0.00006],
        ["bob", "priced", 1, 1, 1, 30, 3, 0.00009],
    ]
    assert await usage.show("bob", "group_by=owner") == [["bob", 1, 1, 1, 30, 3, 0.00009]]


async def test_the_usage_of_others_is_an_admins_to_ask_for(usage: Usage) -> None:
    for owner in ("ann", "nobody"):
        answer = await usage.ask("bob", f"owner={owner}")
        assert (answer.status, answer.error["code"]) == (403, "forbidden")


async def test_without_keys_there_is_one_owner_who_sees_all() -> None:
    async with in_process(model()) as gate:
        await gate.ask(chat())
        answer = await gate.fetch(get("/api/usage?group_by=owner"))
        assert [group["owner"] for group in answer.json["data"]] == ["local"]


async def test_hours_upstreams_and_time(usage: Usage) -> None:
    await usage.use("ann", "spare")
    usage.clock.advance(HOUR_MS)
    await usage.use("ann")
    nine, ten = iso(NOW - NOW % HOUR_MS), iso(NOW - NOW % HOUR_MS + HOUR_MS)
    assert await usage.show("ann", "group_by=hour,upstream") == [
        ["a", nine, 1, 1, 1, 10, 1, None],
        ["a", ten, 1, 1, 1, 20, 2, None],
    ]
    assert (await usage.show("ann", f"from={ten}"))[0][0] == 1
    assert (await usage.show("ann", f"to={ten}"))[0][3] == 10
    assert (await usage.show("ann", "to=2026-11-04"))[0][0] == 0
    assert (await usage.show("ann", "from=2026-11-04&to=2026-11-05"))[0][0] == 2
    # Rows are of full hours: what is asked for of one is all of it.
    answer = await usage.ask("ann", "from=2026-11-04T17:59:59%2B08:00&to=2026-11-04T09:00:01Z")
    assert (answer.json["from"], answer.json["to"]) == (nine, ten)
    assert answer.json["data"][0]["exchanges"] == 1


async def test_groups_are_sorted_in_the_order_they_are_named(usage: Usage) -> None:
    for owner, name in (("bob", "free"), ("ann", "priced"), ("ann", "free")):
        await usage.use(owner, name)
    found = await usage.show("root", "group_by=model,owner")
    # Whatever the order, they are shown alike.
    assert [row[:2] for row in found] == [["ann", "free"], ["bob", "free"], ["ann", "priced"]]
    found = await usage.show("root", "group_by=%20owner,,model,owner")
    assert [row[:2] for row in found] == [["ann", "free"], ["ann", "priced"], ["bob", "free"]]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("from=yesterday", "from"),
        ("from=2026-11-04T09:00:00", "from"),
        ("to=2026-13-01", "to"),
        ("from=2026-11-04&to=2026-11-04", "to"),
        ("from=2026-11-05", "to"),
        ("group_by=day", "group_by"),
        ("group_by=owner;model", "group_by"),
    ],
)
async def test_what_cannot_be_asked(usage: Usage, query: str, param: str) -> None:
    answer = await usage.ask("root", query)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert answer.error["message"].startswith(param)


async def test_more_groups_than_can_be_shown(usage: Usage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GROUPS", 2)
    for owner in ("ann", "bob"):
        await usage.use(owner)
        await usage.use(owner, "priced")
    answer = await usage.ask("root", "group_by=owner,model")
    assert (answer.status, answer.error["message"]) == (
        400,
        "There are more than 2 groups; choose a shorter time with from and to, or group by less.",
    )
    assert len(await usage.show("root", "group_by=owner")) == 2


async def test_a_deleted_session_was_used_all_the_same(usage: Usage) -> None:
    await usage.gate.fetch(ask_of(chat(model="free"), key("ann"), SESSION))
    await usage.gate.quiet()
    before = await usage.show("ann")
    await forget(usage.gate, "s", key("ann"))
    assert await usage.show("ann") == before != [[0, 0, 0, 0, 0, None]]


async def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    seen: list[list[list[Any]]] = []
    for _ in range(3):
        async with gateway(clock, **kept(tmp_path)) as gate:
            usage = Usage(gate, clock)
            seen.append(await usage.show("root", "group_by=owner,model,hour"))
            await usage.use("ann")
    hour = iso(NOW - NOW % HOUR_MS)
    assert seen == [
        [],
        [["ann", "free", hour, 1, 1, 1, 10, 1, None]],
        [["ann", "free", hour, 2, 2, 2, 20, 2, None]],
    ]


async def test_a_database_that_is_damaged_stops_no_model(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    tmp_path.joinpath("holdgate.sqlite3").write_bytes(b"not a database" * 1000)
    async with gateway(clock, **kept(tmp_path)) as gate:
        usage = Usage(gate, clock)
        await usage.use("ann")
        answer = await usage.ask("ann")
        assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        await gate.gateway.parts.usage.flush()
        await gate.gateway.parts.usage.flush()
        lines = [json.loads(line) for line in gate.log.splitlines()]
        (line,) = [line for line in lines if line["event"] == "usage_not_stored"]
        assert line["level"] == "error"
        assert "not a database" in line["why"]
        tmp_path.joinpath("holdgate.sqlite3").unlink()
        await gate.gateway.parts.usage.flush()
        assert (await usage.show("ann"))[0][0] == 1


async def test_a_new_price_holds_for_what_is_used_from_then_on(usage: Usage) -> None:
    await usage.use("ann", "free")
    price = {"input": 1, "output": 0}
    await usage.gate.reload(models=[{"name": "free", "routes": ["a/m"], "price": price}])
    await usage.use("ann", "free")
    # 20 tokens of the second answer; the first was counted without a price.
    assert await usage.show("ann") == [[2, 2, 2, 30, 3, 0.00002]]


async def test_embeddings_are_used_too() -> None:
    body = b'{"object":"list","data":[],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}'
    async with in_process(answering(sized(body, JSON))) as gate:
        asked = request("POST", "/v1/embeddings", JSON, body=b'{"model":"m","input":"hi"}')
        assert (await gate.fetch(asked)).status == 200
        await gate.quiet()
        (found,) = (await gate.fetch(get("/api/usage"))).json["data"]
        assert [found[name] for name in NUMBERS] == [1, 1, 1, 7, 0, None]
