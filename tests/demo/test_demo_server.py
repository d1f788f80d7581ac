"""The server's manners: connections, errors, clients that leave, many at once."""

from __future__ import annotations

import ast
import contextlib
import json
from pathlib import Path

import anyio
import pytest

import gateway.demo
from gateway.demo.journal import MOST_KEPT, EventKind, ReceivedRequest, RequestJournal
from gateway.demo.server import MOST_BODY, DemoConnection, DemoServer

from .peer import Answer, asking, connected, request

ONE = "demo: tokens=1 delay_ms=0"


async def test_a_connection_serves_many_requests(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        for _ in range(3):
            assert (await peer.ask(ONE)).ending == "whole"
        assert (await peer.ask(ONE, stream=False)).json["object"] == "chat.completion"
    assert server.journal.counts[EventKind.OPENED] == 1
    assert [received.number for received in server.requests] == [1, 2, 3, 4]


async def test_requests_on_one_connection_are_answered_in_order(server: DemoServer) -> None:
    slow = request(asking('demo: say="slow" delay_ms=20'))
    fast = request(asking('demo: say="fast" delay_ms=0'))
    async with connected(server.url) as peer:
        await peer.send(slow + fast)
        assert (await peer.answer()).tokens == ["slow"]
        assert (await peer.answer()).tokens == ["fast"]


async def test_a_request_may_come_in_any_pieces(server: DemoServer) -> None:
    data = request(asking(ONE))
    async with connected(server.url) as peer:
        for at in range(0, len(data), 50):
            await peer.send(data[at : at + 50])
            await anyio.lowlevel.checkpoint()
        assert (await peer.answer()).ending == "whole"


async def test_an_old_client_gets_no_chunks(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await peer.send(request(asking(ONE)).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        answer = await peer.answer()
    assert "transfer-encoding" not in answer.headers
    assert answer.data[-1] == "[DONE]"
    assert answer.ending == "closed"


async def test_a_client_may_ask_to_close(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await peer.send(request(asking(ONE), extra="connection: close\r\n"))
        answer = await peer.answer()
        assert (answer.headers["connection"], answer.ending) == ("close", "whole")
        with pytest.raises(anyio.EndOfStream):
            await peer.stream.receive()


async def test_a_careful_client_is_told_to_go_on(server: DemoServer) -> None:
    data = request(asking(ONE), extra="expect: 100-continue\r\n")
    head, _, body = data.partition(b"\r\n\r\n")
    async with connected(server.url) as peer:
        await peer.send(head + b"\r\n\r\n")
        assert await peer.stream.receive() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await peer.send(body)
        assert (await peer.answer()).ending == "whole"


async def ask(server: DemoServer, data: bytes) -> Answer:
    async with connected(server.url) as peer:
        await peer.send(data)
        return await peer.answer()


REFUSED = {
    "no such path": (request(b"{}", path="/v1/nothing"), 404, "Invalid URL (POST /v1/nothing)."),
    "no such model": (request(b"", method="GET", path="/v1/models/x"), 404, "Invalid URL"),
    "wrong method": (request(b"", method="GET"), 405, "Use POST"),
    "broken JSON": (request(b"{"), 400, "could not parse the JSON body"),
    "no HTTP": (b"hello\r\n\r\n", 400, "This is not valid HTTP"),
    "too much head": (
        request(b"", extra=f"x: {'y' * 2 * DemoConnection.header_bytes}\r\n"),
        400,
        "headers",
    ),
    "too much body": (
        request(b"").replace(b": 0\r\n", f": {MOST_BODY + 1}\r\n".encode()),
        413,
        "body is longer",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refusals_have_a_sentence(case: str, server: DemoServer) -> None:
    data, status, sentence = REFUSED[case]
    answer = await ask(server, data)
    assert answer.status == status
    assert sentence in answer.json["error"]["message"]


async def test_models_are_listed(server: DemoServer) -> None:
    listed = await ask(server, request(b"", method="GET", path="/v1/models"))
    one = await ask(server, request(b"", method="GET", path="/v1/models/demo"))
    assert listed.json == {"object": "list", "data": [one.json]}
    assert one.json["id"] == "demo"


async def test_head_has_no_body(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await peer.send(request(b"", method="HEAD", path="/v1/models"))
        await peer.saw(b"content-length: 100\r\n")
        await peer.saw(b"\r\n\r\n")
        await peer.send(request(b"", method="GET", path="/v1/models"))
        await peer.saw(b'"object":"list"')


BROKEN_JSON = {"drop_after=1": "closed", "reset_after=1": "reset"}


@pytest.mark.parametrize("order", BROKEN_JSON)
async def test_a_whole_answer_may_break_in_the_middle(order: str, server: DemoServer) -> None:
    async with connected(server.url) as peer:
        answer = await peer.ask(f"demo: tokens=2 {order}", stream=False)
    assert 0 < len(answer.body) < int(answer.headers["content-length"])
    assert answer.ending == BROKEN_JSON[order]


async def test_a_whole_answer_may_fail_late(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        failed = await peer.ask("demo: tokens=2 error_after=1", stream=False)
        paused = await peer.ask("demo: tokens=2 quiet_ms=5@1", stream=False)
    assert (failed.status, paused.status) == (500, 200)


@pytest.mark.parametrize(
    "order, stream",
    [
        ("hang", True),
        ("hang", False),
        ("tokens=9 delay_ms=5 hang_after=9", True),
        ("tokens=9 hang_after=9", False),
        ("tokens=100 delay_ms=1000", True),
        ("first_ms=60000", False),
        ("endless delay_ms=0", True),
        ("endless", False),
    ],
)
async def test_a_client_that_leaves_is_noticed(
    order: str, stream: bool, server: DemoServer
) -> None:
    async with connected(server.url) as peer:
        await peer.send(request(asking(f"demo: {order}", stream=stream)))
        await server.journal.until(lambda: bool(server.requests))
    with anyio.fail_after(5):
        await server.journal.until(lambda: server.journal.counts[EventKind.CLOSED] == 1)
    (received,) = server.requests
    came, left = received.when("request"), received.when("closed_by_client")
    assert came is not None
    assert left is not None
    assert came <= left
    assert server.connections == 0


async def test_a_client_that_leaves_half_a_request_is_noticed(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await peer.send(request(asking(ONE))[:-5])
        await server.journal.until(lambda: server.journal.counts[EventKind.OPENED] == 1)
    with anyio.fail_after(5):
        await server.journal.until(lambda: server.journal.counts[EventKind.CLOSED] == 1)
    assert not server.requests
    assert server.journal.counts[EventKind.CLOSED_BY_CLIENT] == 1


async def test_a_client_that_stays_idle_has_not_left_early(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await peer.ask(ONE)
    with anyio.fail_after(5):
        await server.journal.until(lambda: server.journal.counts[EventKind.CLOSED] == 1)
    assert server.journal.counts[EventKind.CLOSED_BY_CLIENT] == 0


async def test_a_client_that_does_not_read_stops_the_server(server: DemoServer) -> None:
    async with connected(server.url) as peer, connected(server.url) as other:
        await peer.send(request(asking("demo: tokens=1000 size=20000 delay_ms=0")))
        await server.journal.until(lambda: bool(server.requests))
        assert (await other.ask(ONE)).ending == "whole"
        assert server.journal.counts[EventKind.FINISHED] == 1
        answer = await peer.answer()
    assert len(answer.tokens) == 1000
    assert answer.ending == "whole"


async def test_a_slow_reader_gets_all_of_two_long_answers(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await peer.send(request(asking("demo: tokens=300 size=30000 delay_ms=0")) * 2)
        await server.journal.until(lambda: bool(server.requests))
        assert len((await peer.answer()).tokens) == 300
        assert len((await peer.answer()).tokens) == 300


async def test_nothing_is_lost_before_a_reset(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await peer.send(request(asking("demo: tokens=400 size=20000 delay_ms=0 reset_after=400")))
        await server.journal.until(lambda: bool(server.requests))
        answer = await peer.answer()
    assert len(answer.tokens) == 400
    assert answer.ending == "reset"


async def test_a_body_of_unknown_length_is_bounded_too(server: DemoServer) -> None:
    chunk = b"400000\r\n" + bytes(0x400000) + b"\r\n"
    head = request(b"").replace(b"content-length: 0", b"transfer-encoding: chunked")
    async with connected(server.url) as peer:
        with contextlib.suppress(anyio.BrokenResourceError):
            for data in (head, *[chunk] * (MOST_BODY // 0x400000 + 1)):
                await peer.send(data)
        await server.journal.until(lambda: server.journal.counts[EventKind.CLOSED] == 1)
    assert not server.requests


async def test_many_streams_at_token_pace_end_well(server: DemoServer) -> None:
    endings: list[tuple[int, str]] = []

    async def one() -> None:
        async with connected(server.url) as peer:
            answer = await peer.ask("demo: tokens=20 delay_ms=20")
            endings.append((len(answer.tokens), answer.ending))

    async with anyio.create_task_group() as group:
        for _ in range(200):
            group.start_soon(one)
    assert endings == [(20, "whole")] * 200
    assert server.journal.counts[EventKind.FINISHED] == 200


async def test_closing_cuts_every_connection() -> None:
    server = DemoServer()
    await server.start()
    async with connected(server.url) as peer:
        await peer.send(request(asking("demo: tokens=1 delay_ms=0 hang_after=1")))
        await peer.saw(b'"content":"These"')
        await server.aclose()
        await server.aclose()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await peer.stream.receive()
        with pytest.raises(OSError):
            async with connected(server.url):
                pass
    assert server.journal.counts[EventKind.CLOSED_BY_CLIENT] == 0


async def test_what_was_received_can_be_looked_at(server: DemoServer) -> None:
    async with connected(server.url) as peer:
        await peer.send(request(asking(ONE), path="/v1/chat/completions?a=b", extra="X-Key: k\r\n"))
        await peer.answer()
    (received,) = server.requests
    assert (received.method, received.path) == ("POST", "/v1/chat/completions")
    assert received.target.endswith("?a=b")
    assert (received.header("x-key"), received.header("x-none")) == ("k", None)
    assert received.json["messages"][0]["content"] == ONE
    assert [event.name for event in received.events] == ["request", "finished"]


def test_the_journal_is_bounded() -> None:
    journal = RequestJournal(keep=3, clock=lambda: 5.0)
    for number in range(5):
        journal.note(EventKind.REQUEST, 1, ReceivedRequest(number, 1, "POST", "/", (), b""))
    assert [received.number for received in journal.requests] == [2, 3, 4]
    large = bytes(MOST_KEPT // 2)
    for number in range(5, 8):
        journal.note(EventKind.REQUEST, 1, ReceivedRequest(number, 1, "POST", "/", (), large))
    assert [received.number for received in journal.requests] == [6, 7]
    assert journal.counts[EventKind.REQUEST] == 8


@pytest.mark.parametrize(
    "body, shown", [(b'{"a":1}', {"a": 1}), (b"{", "{"), (b"\xff", "\ufffd"), (b"", "")]
)
def test_a_line_of_the_log_holds_the_request(body: bytes, shown: object) -> None:
    lines: list[bytes] = []
    journal = RequestJournal(write=lines.append, clock=lambda: 5.0)
    journal.note(EventKind.REQUEST, 1, ReceivedRequest(2, 1, "POST", "/?q", (("a", "b"),), body))
    journal.note(EventKind.CLOSED, 1)
    assert [json.loads(line) for line in lines] == [
        {
            "at": 5.0,
            "event": "request",
            "connection": 1,
            "request": 2,
            "method": "POST",
            "target": "/?q",
            "headers": [["a", "b"]],
            "body": shown,
        },
        {"at": 5.0, "event": "closed", "connection": 1},
    ]


def test_the_demo_stands_alone() -> None:
    """It is somebody else's service, so of the gateway it knows the wire only."""
    package = Path(str(gateway.demo.__file__)).parent
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in package.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    own = {module for module in modules if module.startswith("gateway")}
    assert own
    assert all(module.startswith(("gateway.demo", "gateway.wire")) for module in own)
