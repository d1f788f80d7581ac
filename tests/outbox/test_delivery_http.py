"""Inbox and receipts over HTTP, on real sockets."""

from __future__ import annotations

import json
import time
from typing import Any

import anyio
import pytest

from tests.gateway.client import Client
from tests.gateway.wire import get, request
from tests.outbox.house import MINUTE, SESSION, SOON, Open, answer_of, open_house
from tests.outbox.ledger import Ledger
from tests.run import until, within

JSON = "content-type: application/json"
INBOX, ACK, EVENTS = (f"/api/sessions/s/{part}" for part in ("inbox", "inbox/ack", "events"))
ANN, BOB = "authorization: Bearer ann's key", "authorization: Bearer bob's key"
KEYS = {"ann's key": "ann", "bob's key": "bob"}


async def test_nothing_waits() -> None:
    async with open_house() as gate:
        answer = await gate.inbox()
        assert (answer.status, bytes(answer.body)) == (204, b"")


async def test_what_waits_is_answered_at_once() -> None:
    async with open_house() as gate:
        tea = await gate.house.remind("drink tea")
        answer = await gate.inbox("?wait_ms=60000")
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        shown = answer.json
        assert shown["sessionId"] == "s"
        assert [(item["id"], item["kind"]) for item in shown["items"]] == [(tea, "reminder")]
        again = await gate.inbox()
        assert again.json == shown
        after = await gate.inbox(f"?after={shown['cursor']}")
        assert after.status == 204


async def poll(gate: Open, query: str = "?wait_ms=60000", *headers: str) -> Client:
    """Wait for the inbox, and return when the gateway is waiting."""
    waiting = len(gate.house.inbox.subscribers)
    client = await gate.start(get(INBOX + query, *headers))
    await until(lambda: len(gate.house.inbox.subscribers) > waiting)
    return client


@pytest.mark.parametrize("what", ["result", "reminder", "time"])
async def test_a_long_poll_is_answered_when_something_comes(what: str) -> None:
    async with open_house() as gate:
        if what == "time":
            await gate.house.remind("the news", MINUTE)
        client = await poll(gate)
        if what == "time":
            await until(lambda: len(gate.house.timers) > 0)
            gate.house.clock.advance(MINUTE)
        elif what == "result":
            await gate.house.result("the news")
        else:
            await gate.house.remind("the news")
        async with within(SOON):
            answer = await answer_of(client)
        assert [item["text"] for item in answer.json["items"]] == ["the news"]
        assert len(gate.house.inbox.subscribers) == 0


async def test_a_long_poll_goes_past_what_was_seen() -> None:
    async with open_house() as gate:
        await gate.house.result("one")
        cursor = (await gate.inbox()).json["cursor"]
        client = await poll(gate, f"?wait_ms=60000&after={cursor}")
        await gate.house.result("two")
        answer = await answer_of(client)
        assert [item["text"] for item in answer.json["items"]] == ["two"]


async def test_at_the_end_of_the_wait_there_is_204() -> None:
    async with open_house() as gate:
        begun = time.monotonic()
        answer = await gate.inbox("?wait_ms=50")
        assert answer.status == 204
        # The loop's clock may lag behind this one by a millisecond.
        assert time.monotonic() - begun >= 0.045


async def test_a_connection_is_kept_after_a_long_poll() -> None:
    async with open_house() as gate:
        client = await poll(gate, "?wait_ms=1")
        assert (await answer_of(client)).status == 204
        await gate.house.result("done")
        await client.send(get(INBOX))
        assert (await answer_of(client)).status == 200


@pytest.mark.parametrize("how", ["leave", "reset"])
async def test_a_client_that_leaves_is_not_waited_for(how: str) -> None:
    async with open_house() as gate:
        client = await poll(gate)
        getattr(client, how)()
        await until(lambda: len(gate.house.inbox.subscribers) == 0, SOON)
        await until(lambda: len(gate.house.timers) == 0)


@pytest.mark.parametrize(
    "query, says, param",
    [
        ("?wait_ms=soon", "`wait_ms` must be a number", "wait_ms"),
        ("?wait_ms=-1", "`wait_ms` must be a number", "wait_ms"),
        ("?wait_ms=1.5", "`wait_ms` must be a number", "wait_ms"),
        ("?wait_ms=120001", "`wait_ms` must be at most 120000", "wait_ms"),
        ("?wait_ms=99999999999999999999999", "`wait_ms`", "wait_ms"),
        ("?wait_ms=%C2%B2", "`wait_ms` must be a number", "wait_ms"),
        ("?after=x", "`after` must be the `cursor`", "after"),
        ("?after=1.x", "`after` must be the `cursor`", "after"),
        ("?after=99999999999999999999999", "`after` must be the `cursor`", "after"),
    ],
)
async def test_nonsense_is_refused(query: str, says: str, param: str) -> None:
    async with open_house() as gate:
        answer = await gate.inbox(query)
        assert answer.status == 400
        assert says in answer.error["message"]
        assert answer.error["param"] == param


async def test_when_the_gateway_leaves_those_who_wait_are_sent_home() -> None:
    async with open_house() as gate:
        client = await poll(gate)
        gate.house.inbox.drain()
        async with within(SOON):
            assert (await answer_of(client)).status == 204
        refused = await gate.inbox("?wait_ms=1000")
        assert (refused.status, refused.error["code"]) == (503, "draining")
        assert (await gate.inbox()).status == 204


async def test_an_owner_has_so_many_polls() -> None:
    async with open_house(KEYS, most_polls=2) as gate:
        for _ in range(2):
            await poll(gate, "?wait_ms=60000", ANN)
        refused = await gate.inbox("?wait_ms=1000", ANN)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert (await gate.inbox("", ANN)).status == 204
        await poll(gate, "?wait_ms=60000", BOB)


async def test_one_event_answers_all_who_wait_for_it() -> None:
    async with open_house() as gate:
        clients = [await poll(gate) for _ in range(50)]
        await gate.house.result("the news")
        async with within(1):
            for client in clients:
                assert (await answer_of(client)).status == 200


# Receipts.


async def test_what_is_acknowledged_waits_no_longer() -> None:
    async with open_house() as gate:
        tea = await gate.house.remind("drink tea")
        item = await gate.house.result("done")
        answer = await gate.ack({"ids": [tea, item.id, "unknown"]})
        assert (answer.status, answer.json) == (200, {"sessionId": "s", "acked": [tea, item.id]})
        assert (await gate.inbox()).status == 204
        again = await gate.ack({"ids": [tea, item.id]})
        assert again.json["acked"] == []


@pytest.mark.parametrize(
    "body, says, param",
    [
        ({}, "`ids` must be a list", "ids"),
        ({"ids": None}, "`ids` must be a list", "ids"),
        ({"ids": "one"}, "`ids` must be a list", "ids"),
        ({"ids": [1]}, "`ids` must be a list", "ids"),
        ({"ids": ["x"] * 1001}, "`ids` must have at most 1000", "ids"),
        ({"ids": [], "all": True}, "Unknown: `all`", "all"),
        ([], "must be a JSON object", None),
    ],
)
async def test_receipts_that_cannot_be(body: Any, says: str, param: str | None) -> None:
    async with open_house() as gate:
        answer = await gate.ack(body)
        assert answer.status == 400
        assert says in answer.error["message"]
        assert answer.error["param"] == param


@pytest.mark.parametrize(
    "headers, body, status",
    [
        ((), b"{}", 415),
        ((JSON,), b"{", 400),
        ((JSON,), b'{"ids":["\\ud800"]}', 400),
        ((JSON,), b'{"ids":["\xff"]}', 400),
        ((JSON,), b'{"ids":' + b"[" * 100 + b"]" * 100 + b"}", 400),
        ((JSON,), b" " * 20_001, 413),
    ],
    ids=["no type", "cut", "half a character", "not UTF-8", "deep", "large"],
)
async def test_bodies(headers: tuple[str, ...], body: bytes, status: int) -> None:
    async with open_house() as gate:
        answer = await gate.fetch(request("POST", ACK, *headers, body=body))
        assert answer.status == status


async def test_ids_that_are_too_long_are_unknown() -> None:
    async with open_house() as gate:
        await gate.house.result()
        assert (await gate.ack({"ids": ["x" * 300, "\0"]})).json["acked"] == []


# Whose they are.


async def test_owners_see_only_their_own() -> None:
    async with open_house(KEYS) as gate:
        tea = await gate.house.remind("drink tea", owner="ann")
        item = await gate.house.result("done", owner="ann")
        foreign = await gate.ack({"ids": [tea, item.id]}, BOB)
        missing = await gate.ack({"ids": ["0" * 36, "run-0"]}, BOB)
        assert (foreign.status, foreign.json) == (missing.status, missing.json)
        assert (await gate.inbox("", BOB)).status == 204
        assert len((await gate.inbox("", ANN)).json["items"]) == 2


@pytest.mark.parametrize("method, path", [("GET", INBOX), ("GET", EVENTS), ("POST", ACK)])
async def test_every_route_needs_a_key_where_there_are_keys(method: str, path: str) -> None:
    async with open_house(KEYS) as gate:
        body = b'{"ids":[]}' if method == "POST" else b""
        for wrong in ((), ("authorization: Bearer nobody's",)):
            answer = await gate.fetch(request(method, path, JSON, *wrong, body=body))
            assert answer.status == 401
        client = await gate.start(request(method, path, JSON, ANN, body=body))
        assert (await client.head()).status in (200, 204)


async def test_names_of_sessions_may_hold_anything() -> None:
    names = {"conversation:c/1": "conversation:c%2F1", "日程": "%E6%97%A5%E7%A8%8B", "a b": "a%20b"}
    async with open_house() as gate:
        for name, written in names.items():
            await gate.house.result(name, session=name)
            answer = await gate.inbox(session=written)
            assert (answer.json["sessionId"], answer.json["items"][0]["text"]) == (name, name)
            assert (
                len(
                    (await gate.ack({"ids": ["run-1", "run-2", "run-3"]}, session=written)).json[
                        "acked"
                    ]
                )
                == 1
            )


async def test_names_that_are_none() -> None:
    async with open_house() as gate:
        assert (await gate.inbox(session="")).status == 404
        assert (await gate.inbox(session="x" * 257)).status == 400


async def test_a_store_that_is_down_is_503() -> None:
    rows = Ledger()
    async with open_house(rows=rows) as gate:
        await gate.house.result()
        client = await poll(gate, "?wait_ms=60000&after=1")
        rows.fails = True
        for asked in (get(INBOX), get(EVENTS), request("POST", ACK, JSON, body=b'{"ids":["x"]}')):
            answer = await gate.fetch(asked)
            assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        gate.house.deliveries.announce(rows.items[0])
        assert (await answer_of(client)).status == 503


async def test_text_comes_as_it_is() -> None:
    text = 'é 日本 \u2028 "quoted" \\ <**clock:clear**>\n\x00'
    async with open_house() as gate:
        await gate.house.result(text)
        answer = await gate.inbox()
        assert json.loads(answer.body.decode())["items"][0]["text"] == text


async def test_a_head_is_answered_without_a_body() -> None:
    async with open_house() as gate:
        for path in (INBOX, EVENTS):
            client = await gate.start(request("HEAD", path))
            with anyio.fail_after(1):
                answer = await client.answer(bodyless=True)
            assert answer.status in (200, 204)
        assert len(gate.house.feed.subscribers) == 0
        assert await gate.house.shown(SESSION) == []
