"""Canaries: what must not get to the other side, into the log, or into any answer."""

from __future__ import annotations

import json

import pytest

from tests.gateway.wire import ask_of, chat, get, in_turn, streaming, turn, whole
from tests.run import go_on, in_process
from tests.wire.fake import CHUNKED, LAST, Peer, answering, chunk, head, once, sized

CLIENT_KEY = "canary-client-key"
UPSTREAM_KEY = "canary-upstream-key"
EXTRA = "canary-extra-header"
WORDS = "canary-words-of-a-user"
KEYS = {"keys": [{"owner": "alice", "key": CLIENT_KEY, "admin": True}]}
UPSTREAM = {"api_key": UPSTREAM_KEY, "headers": {"x-extra": EXTRA}}
MINE = (f"authorization: Bearer {CLIENT_KEY}",)

NOT_UP = (
    f"x-api-key: {CLIENT_KEY}",
    "cookie: session=canary-cookie",
    "x-forwarded-for: 203.0.113.7",
    "x-real-ip: 203.0.113.7",
    "forwarded: for=203.0.113.7",
    "proxy-authorization: Basic canary-proxy",
    "openai-organization: canary-organisation",
    "openai-project: canary-project",
    "idempotency-key: canary-idempotency",
    "user-agent: canary-agent",
    "x-stainless-os: canary-os",
    "referer: http://canary.example/",
    "te: trailers",
    "x-extra: canary-of-the-client",
    "connection: keep-alive, openai-named",
    "openai-named: canary-named",
)
UP = {
    "openai-beta": "assistants=v2",
    "anthropic-beta": "tools-1",
    "anthropic-version": "2023-06-01",
    "accept": "text/event-stream",
}
NOT_DOWN = (
    "set-cookie: a=canary-cookie",
    "openai-organization: canary-organisation",
    "x-request-id: canary-request-id",
    "server: canary-server",
    "via: canary-via",
    "cf-ray: canary-ray",
    "strict-transport-security: max-age=7",
    "access-control-allow-origin: *",
    "alt-svc: canary-service",
    "content-language: canary",
    "x-ratelimit-hidden: canary-named",
    "connection: close, x-ratelimit-hidden",
)
DOWN = {
    "retry-after": "7",
    "x-ratelimit-remaining-requests": "8",
    "anthropic-ratelimit-tokens-limit": "9",
    "openai-processing-ms": "10",
}


def lines(headers: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}: {value}" for name, value in headers.items())


async def test_what_goes_up() -> None:
    async with in_process(streaming(turn("one")), tables=KEYS, upstream=UPSTREAM) as gate:
        assert (await gate.ask(chat(), *MINE, *NOT_UP, *lines(UP))).text == "one"
        sent = {n.decode(): v.decode() for n, v in gate.requests[0].headers.items()}
    assert UP.items() <= sent.items()
    assert sent["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert sent["x-extra"] == EXTRA
    assert set(sent) == {
        *UP,
        *("accept-encoding", "authorization", "content-length", "content-type"),
        *("host", "user-agent", "x-extra", "x-request-id"),
    }
    assert sent["user-agent"].startswith("holdgate/")
    assert CLIENT_KEY not in str(gate.requests)


@pytest.mark.parametrize("status", ["200 OK", "429 Slow Down"])
@pytest.mark.parametrize("stream", [True, False])
async def test_what_comes_down(status: str, stream: bool) -> None:
    body = whole() if not stream else turn("one")
    kind = "content-type: text/event-stream" if stream else "content-type: application/json"
    body = body if status.startswith("200") else b'{"error": {"message": "slow down"}}'
    story = once(sized(body, kind, *NOT_DOWN, *lines(DOWN), status=status))
    async with in_process(story) as gate:
        answer = await gate.ask(chat(stream=stream))
    assert DOWN.items() <= answer.headers.items()
    assert "canary" not in str(answer.headers)
    ours = {
        "date",
        "content-type",
        "x-request-id",
        "x-holdgate-exchange",
        "x-holdgate-upstream",
        *DOWN,
    }
    framing = {"content-length", "transfer-encoding", "cache-control", "x-accel-buffering"}
    assert set(answer.headers) <= ours | framing
    assert answer.repeated == []


async def echo(peer: Peer) -> None:
    """An upstream that repeats in its error what it was sent."""
    while True:
        asked = await peer.request()
        heard = {name.decode(): value.decode() for name, value in asked.headers.items()}
        error = json.dumps({"error": {"message": f"What is {heard}?"}}).encode()
        await peer.send(sized(error, "content-type: application/json", status="422 No"))


async def test_an_upstream_that_repeats_its_key_is_not_repeated() -> None:
    async with in_process(echo, tables=KEYS, upstream=UPSTREAM) as gate:
        for stream in (True, False):
            answer = await gate.ask(chat(stream=stream), *MINE)
            assert answer.status == 422
            assert "What is" in answer.error["message"]
            said = bytes(answer.body)
            assert UPSTREAM_KEY.encode() not in said
            assert EXTRA.encode() not in said
            assert str(gate.fakes[0].port).encode() not in said


async def test_nor_is_one_that_does_so_under_a_200() -> None:
    async def echo_in_a_stream(peer: Peer) -> None:
        asked = await peer.request()
        key = asked.headers[b"authorization"]
        await peer.send(CHUNKED, chunk(b": hello\n\n"))
        await peer.send(chunk(b'data: {"error": {"message": "not ' + key + b'"}}\n\n'), LAST)

    async with in_process(echo_in_a_stream, upstream=UPSTREAM) as gate:
        answer = await gate.ask()
    assert b"not Bearer" in answer.body
    assert UPSTREAM_KEY.encode() not in answer.body


async def test_no_secret_and_no_word_of_a_user_is_logged_or_shown() -> None:
    """Good, bad, broken and followed-up exchanges; then everything an operator can look at."""
    first = once(CHUNKED, chunk(turn(f"{WORDS} 2")), LAST)
    story = in_turn(first, echo, once(head("content-length: 9"), b"x", reset=True), echo)
    async with in_process(story, None, tables=KEYS, upstream=UPSTREAM, rules=(go_on,)) as gate:
        asked = chat(WORDS, user=WORDS, metadata={"a": WORDS}, stop=[WORDS])
        answers = [await gate.ask(asked, *MINE, *NOT_UP, f"x-request-id: r{n}") for n in range(4)]
        bad = [chat(WORDS, model="nobody"), asked[:-9], asked.replace(b'"messages"', b'"x"')]
        answers += [await gate.ask(body, *MINE) for body in bad]
        for path in ("/", "/api/status", "/metrics", "/v1/models", "/nothing", "/readyz"):
            answers.append(await gate.fetch(get(path, *MINE)))
        answers.append(await gate.fetch(ask_of(chat(), "x-api-key: canary-wrong")))
        await gate.quiet()
        log = gate.log
    assert len(gate.exchanges) == 4
    for secret in (CLIENT_KEY, UPSTREAM_KEY, EXTRA, "canary"):
        assert secret not in log
    for answer in answers:
        shown = str(answer.headers) + bytes(answer.body).decode()
        assert not [key for key in (CLIENT_KEY, UPSTREAM_KEY, EXTRA, "127.0.0.1") if key in shown]


async def test_a_log_line_stays_a_line() -> None:
    nasty = 'm\n{"event":"exchange"}\r\x1b[31m'
    tables = {"models": [{"name": nasty, "routes": ["a/m"]}]}
    async with in_process(answering(sized(whole())), tables=tables) as gate:
        await gate.ask(chat(model=nasty, stream=False))
        await gate.quiet()
        assert len(gate.exchanges) == 1
        assert gate.log.removesuffix("\n").isprintable()
