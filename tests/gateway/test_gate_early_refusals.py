"""What the server refuses by itself has a line too: once, with the sentence that the client got."""

from __future__ import annotations

import json
import time
from typing import Any

import anyio
import pytest

from tests.gateway.wire import ask_of, chat, get, request, streaming, turn
from tests.run import Running, in_process, until
from tests.sessions.talk import JSON

ONE = streaming(turn("one"))
MINE = "x-request-id: my-own-id"
SLOW = {"limits__receive_idle_ms": 150}
SMALL = {"limits__header_bytes": 1024}
CHUNKED = "transfer-encoding: chunked"
INVALID = "This is not valid HTTP."
LATE = "The request did not arrive in time."


def find_lines(gate: Running, *events: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in gate.log.splitlines()]
    return [line for line in lines if line["event"] in events]


async def find_line(gate: Running) -> dict[str, Any]:
    """Wait for the one line that there is of a request."""
    await until(lambda: bool(find_lines(gate, "refused", "request", "exchange")))
    await until(lambda: not gate.connections)
    (line,) = find_lines(gate, "refused", "request", "exchange")
    return line


def headless(path: str, *headers: str) -> bytes:
    """Write the head of a request whose body comes in chunks."""
    return request("POST", path, JSON, CHUNKED, *headers).replace(b"content-length: 0\r\n", b"")


@pytest.mark.parametrize(
    ("sent", "settings", "status", "says"),
    [
        (b"nonsense\r\n\r\n", {}, 400, INVALID),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {}, 400, INVALID),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 3000, SMALL, 400, "too large"),
        (b"GET / HTTP/1.1\r\n", SLOW, 408, LATE),
        (b"\r\n", SLOW, 408, LATE),
        # The head and what is wrong come in one piece: nobody has begun to answer.
        (headless("/v1/chat/completions") + b"nonsense\r\n", {}, 400, INVALID),
    ],
)
async def test_what_is_no_request(
    sent: bytes, settings: dict[str, int], status: int, says: str
) -> None:
    async with in_process(ONE, settings=settings) as gate:
        client = await gate.send(sent)
        answer = await client.answer()
        assert answer.status == status
        line = await find_line(gate)
        assert (line["event"], line["level"]) == ("refused", "warning")
        assert (line["status"], line["code"]) == (status, answer.error["code"])
        assert line["says"] == answer.error["message"]
        assert says in line["says"]
        assert line["exchange"].startswith("req_")
        for name in ("x-holdgate-exchange", "x-request-id"):
            assert answer.headers[name] == line["exchange"]
        assert {line[name] for name in ("request", "method", "path", "owner", "model")} == {None}
        page = bytes((await gate.fetch(get("/metrics"))).body).decode()
        labels = f'code="{answer.error["code"]}"'
        assert f"holdgate_requests_refused_total{{{labels}}} 1.0" in page


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/messages/count_tokens", "/v1/embeddings", "/api/cron/add"]
)
@pytest.mark.parametrize(
    ("after", "settings", "status", "says"), [(b"", SLOW, 408, LATE), (b"no\r\n", {}, 400, INVALID)]
)
async def test_a_body_that_does_not_come_is_told_by_whoever_waits_for_it(
    path: str, after: bytes, settings: dict[str, int], status: int, says: str
) -> None:
    async with in_process(ONE, settings=settings) as gate:
        client = await gate.send(headless(path, MINE) + b"1\r\n{\r\n")
        if after:
            # Its endpoint has begun to wait by then.
            await gate.fetch(get("/healthz"))
            await client.send(after)
        answer = await client.answer()
        assert (answer.status, answer.error["message"]) == (status, says)
        await until(lambda: bool(find_lines(gate, "refused")))
        await until(lambda: not gate.connections)
        (line,) = [one for one in find_lines(gate, "refused", "request") if one["request"]]
        assert (line["event"], line["level"], line["request"]) == (
            "refused",
            "warning",
            "my-own-id",
        )
        assert (line["method"], line["path"]) == ("POST", path)
        assert (line["status"], line["says"]) == (status, says)


async def test_a_line_names_no_request_that_came_before_on_the_connection() -> None:
    async with in_process(ONE, settings=SLOW) as gate:
        client = await gate.send(get("/api/nothing", MINE))
        first = await client.answer()
        await client.send(b"GET /")
        assert (await client.answer()).status == 408
        await until(lambda: len(find_lines(gate, "refused")) == 2)
        before, late = find_lines(gate, "refused")
        assert before["exchange"] == first.headers["x-holdgate-exchange"]
        assert late["exchange"] != before["exchange"]
        assert late["request"] is None


async def test_who_connects_and_says_nothing_is_no_request() -> None:
    async with in_process(ONE, settings=SLOW) as gate:
        client = await gate.connect()
        assert (await client.answer()).status == 408
        await until(lambda: not gate.connections)
        assert find_lines(gate, "refused") == []


async def test_refused_connections_share_a_line_a_second() -> None:
    async with in_process(ONE, limits__connections=1) as gate:
        first = await gate.send(get("/healthz"))
        assert (await first.answer()).status == 200
        begun = time.monotonic()

        async def knock() -> None:
            client = await gate.send(ask_of(chat()))
            assert (await client.answer()).status == 503

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(knock)

        def told() -> list[int]:
            return [line["connections"] for line in find_lines(gate, "connections_refused")]

        await until(lambda: sum(told()) == 20)
        assert len(told()) <= time.monotonic() - begun
        line = find_lines(gate, "connections_refused")[0]
        assert (line["level"], line["status"]) == ("warning", 503)
        assert line["code"] == "too_many_connections"
        assert line["says"].startswith("The gateway has too many connections")
        assert find_lines(gate, "refused") == []
