"""Embeddings, older completions and compaction pass through unread, with routes, keys and log."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from zstandard import ZstdCompressor

from tests.gateway.wire import DONE, Cue, data, get, hanging, on_cue, request
from tests.run import SOON, in_process, until, within
from tests.wire.fake import CHUNKED, LAST, Peer, Story, answering, chunk, head, once, sized

JSON = "content-type: application/json"
EMBEDDINGS, COMPLETIONS, COMPACT = "/v1/embeddings", "/v1/completions", "/v1/responses/compact"
PATHS = (EMBEDDINGS, COMPLETIONS, COMPACT)
RESPONSES = {"dialect": "openai-responses"}
CHUNKED_JSON = head(JSON, "transfer-encoding: chunked")
# What nobody but the upstream understands: numbers, escapes, spaces, an odd member.
ODD = rb'{"model" : "m", "input":["a\u00e9", 1.50, 1e3], "odd": {"b":1, "a":[ ]}}'
VECTORS = (
    b'{"data": [{"embedding": [0.10, 1e-3]}], "usage": {"prompt_tokens": 8, "total_tokens": 8}}'
)
GOOD = answering(sized(VECTORS, JSON))
ERROR = b'{"error": {"message": "from a"}}'
ONE = data({"object": "text_completion", "choices": [{"text": "one"}], "usage": None})
TWO = data({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})


def asks(path: str = EMBEDDINGS, body: bytes = ODD, *headers: str) -> bytes:
    """Write a request that is passed through."""
    return request("POST", path, JSON, *headers, body=body)


def names(model: str, **more: Any) -> bytes:
    return json.dumps({"model": model, "input": "x", **more}).encode()


def failing(status: int, *lines: str, body: bytes = ERROR) -> Story:
    return answering(sized(body, JSON, *lines, status=f"{status} Hm"))


class TestWhatPasses:
    """The request and the answer are what they were."""

    @pytest.mark.parametrize("path", PATHS)
    async def test_bytes_go_both_ways_unchanged(self, path: str) -> None:
        async with in_process(GOOD, upstream=RESPONSES) as gate:
            answer = await gate.fetch(asks(path))
        assert (answer.status, bytes(answer.body)) == (200, VECTORS)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-holdgate-upstream"] == "a"
        assert answer.headers["content-length"] == str(len(VECTORS))
        assert answer.repeated == []
        (asked,) = gate.requests
        assert asked.line == f"POST {path} HTTP/1.1".encode()
        assert asked.body == ODD
        assert asked.headers[b"x-request-id"].decode() == answer.headers["x-request-id"]

    async def test_the_model_is_named_as_the_upstream_knows_it(self) -> None:
        models = [{"name": "small", "routes": ["a/text-embedding-3-small"]}]
        async with in_process(GOOD, tables={"models": models}) as gate:
            answer = await gate.fetch(asks(body=ODD.replace(b'"m"', b'"small"')))
            assert answer.status == 200
            (asked,) = gate.requests
        wanted = rb'{"model":"text-embedding-3-small","input":["a\u00e9", 1.50, 1e3],"odd":{"b":1, "a":[ ]}}'
        assert asked.body == wanted

    @pytest.mark.parametrize("path", PATHS)
    async def test_log_lines_say_which_path_it_was(self, path: str) -> None:
        async with in_process(GOOD, upstream=RESPONSES) as gate:
            await gate.fetch(asks(path))
            (line,) = gate.exchanges
            assert line["dialect"] == path
            await gate.fetch(asks(path, names("unknown")))
            refused = json.loads(gate.log.splitlines()[-1])
        assert (refused["event"], refused["dialect"]) == ("refused", path)

    async def test_the_only_model_need_not_be_named(self) -> None:
        async with in_process(GOOD) as gate:
            assert (await gate.fetch(asks(body=b'{"input": "x"}'))).status == 200
        assert json.loads(gate.requests[0].body) == {"input": "x", "model": "m"}

    async def test_the_upstream_reads_the_model_that_was_read_here(self) -> None:
        async with in_process(GOOD) as gate:
            await gate.fetch(asks(body=b'{"model": "other", "model": "m"}'))
        assert gate.requests[0].body == b'{"model":"m"}'

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("encoding", ["gzip", "zstd"])
    @pytest.mark.parametrize("size", [10, 300_000])
    async def test_packed_bodies_are_unpacked(self, path: str, encoding: str, size: int) -> None:
        body = names("m", text="y" * size)
        packed = gzip.compress(body) if encoding == "gzip" else ZstdCompressor().compress(body)
        async with in_process(GOOD, upstream=RESPONSES) as gate:
            answer = await gate.fetch(asks(path, packed, f"content-encoding: {encoding}"))
            assert answer.status == 200
        (asked,) = gate.requests
        assert asked.body == body
        assert b"content-encoding" not in asked.headers

    async def test_a_large_request_is_renamed_beside_the_loop(self) -> None:
        models = [{"name": "small", "routes": ["a/real"]}]
        tokens = [list(range(100))] * 2000
        async with in_process(GOOD, tables={"models": models}) as gate:
            body = json.dumps({"model": "small", "input": tokens}).encode()
            assert (await gate.fetch(asks(body=body))).status == 200
        assert json.loads(gate.requests[0].body) == {"model": "real", "input": tokens}

    async def test_a_stream_comes_chunk_by_chunk_and_nothing_waits(self) -> None:
        cue = Cue()
        async with in_process(on_cue(cue, CHUNKED + chunk(ONE), chunk(TWO + DONE) + LAST)) as gate:
            client = await gate.send(asks(COMPLETIONS, names("m", stream=True)))
            answer = await client.saw(ONE)
            assert answer.status == 200
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["x-accel-buffering"] == "no"
            cue.give()
            answer = await client.answer()
            cue.give()
            assert (answer.ending, bytes(answer.body)) == ("whole", ONE + TWO + DONE)
            (line,) = gate.exchanges
            assert line["stream"] is True
            assert (line["tokens_in"], line["tokens_out"]) == (3, 2)

    async def test_a_body_comes_piece_by_piece_and_nothing_waits(self) -> None:
        cue = Cue()
        pieces = (CHUNKED_JSON + chunk(VECTORS[:20]), chunk(VECTORS[20:]) + LAST)
        async with in_process(on_cue(cue, *pieces)) as gate:
            client = await gate.send(asks())
            await client.saw(VECTORS[:20])
            cue.give()
            answer = await client.answer()
            cue.give()
            assert (answer.ending, bytes(answer.body)) == ("whole", VECTORS)

    async def test_an_idle_stream_gets_no_heartbeats(self) -> None:
        cue = Cue()
        story = on_cue(cue, CHUNKED + chunk(ONE), chunk(TWO) + LAST)
        async with in_process(story, server__keepalive_ms=10) as gate:
            client = await gate.send(asks(COMPLETIONS))
            await client.saw(ONE)
            await anyio.sleep(0.1)
            cue.give()
            answer = await client.answer()
            cue.give()
        assert bytes(answer.body) == ONE + TWO

    @pytest.mark.parametrize("body", [b"", b"<html>", b"not JSON"])
    async def test_an_answer_is_not_judged(self, body: bytes) -> None:
        async with in_process(answering(sized(body, "content-type: text/html"))) as gate:
            answer = await gate.fetch(asks())
            assert (answer.status, bytes(answer.body)) == (200, body)
            assert answer.headers["content-type"] == "text/html"
            assert gate.exchanges[0]["tokens_in"] is None

    async def test_no_session_and_no_directive(self) -> None:
        body = names("m", prompt='<**stopMessage:"on",3**> hi')
        async with in_process(GOOD) as gate:
            answer = await gate.fetch(asks(COMPLETIONS, body, "x-session-id: s"))
            assert "x-holdgate-session" not in answer.headers
            assert "x-holdgate-directive" not in answer.headers
            assert (await gate.fetch(get("/api/sessions"))).json["sessions"] == []
        assert gate.requests[0].body == body


class TestWhere:
    """Which upstreams are asked, and at which URL."""

    @pytest.mark.parametrize(
        ("keys", "path", "line"),
        [
            ({}, EMBEDDINGS, "/v1/embeddings"),
            ({}, COMPLETIONS, "/v1/completions"),
            (RESPONSES, COMPACT, "/v1/responses/compact"),
            ({"path": "/x/chat/completions"}, EMBEDDINGS, "/v1/x/embeddings"),
            (
                {"path": "/deployments/{model}/chat/completions", "query": {"api-version": "7"}},
                EMBEDDINGS,
                "/v1/deployments/m/embeddings?api-version=7",
            ),
            ({**RESPONSES, "path": "/x/responses"}, COMPACT, "/v1/x/responses/compact"),
            ({**RESPONSES, "path": "/x/responses"}, COMPLETIONS, "/v1/x/completions"),
        ],
    )
    async def test_the_url_stands_beside_that_of_the_dialect(
        self, keys: dict[str, Any], path: str, line: str
    ) -> None:
        async with in_process(GOOD, upstream=keys) as gate:
            assert (await gate.fetch(asks(path))).status == 200
        assert gate.requests[0].line == f"POST {line} HTTP/1.1".encode()

    @pytest.mark.parametrize(
        ("keys", "path"),
        [
            ({}, COMPACT),
            ({"dialect": "anthropic-messages"}, EMBEDDINGS),
            ({"dialect": "anthropic-messages"}, COMPLETIONS),
            ({"path": "/generate"}, EMBEDDINGS),
        ],
    )
    async def test_an_upstream_that_has_it_not_is_not_asked(
        self, keys: dict[str, Any], path: str
    ) -> None:
        async with in_process(GOOD, upstream=keys) as gate:
            answer = await gate.fetch(asks(path))
            assert gate.requests == []
        assert (answer.status, answer.error["code"]) == (400, "no_route")
        assert answer.error["message"] == f"No upstream of model 'm' has {path}."

    async def test_a_route_that_has_it_not_is_left_out(self) -> None:
        async with in_process(GOOD, GOOD) as two:
            section = [
                {"id": "a", "base_url": f"http://127.0.0.1:{two.fakes[0].port}/v1"},
                {"id": "b", "base_url": f"http://127.0.0.1:{two.fakes[1].port}/v1", **RESPONSES},
            ]
            models = [{"name": "m", "routes": ["a/m", "b/m"]}]
            tables = {"upstreams": section, "models": models}
            async with in_process(tables=tables) as gate:
                assert (await gate.fetch(asks(COMPACT))).headers["x-holdgate-upstream"] == "b"
                assert (await gate.fetch(asks())).headers["x-holdgate-upstream"] == "a"

    async def test_all_paths_of_an_upstream_share_its_connections(self) -> None:
        upstream = {**RESPONSES, "max_connections": 1}
        async with in_process(GOOD, upstream=upstream) as gate:
            for path in PATHS:
                assert (await gate.fetch(asks(path))).status == 200
            assert gate.fakes[0].accepted == 1


FAILURES: dict[str, Story | None] = {
    "nobody": None,
    "closed": once(),
    "reset": once(reset=True),
    "not HTTP": once(b"hello\r\n\r\n"),
    "never answers": hanging(),
    "headers only": hanging(CHUNKED),
    "half a frame": once(CHUNKED, chunk(ONE[:9]), reset=True),
    **{str(status): failing(status) for status in (408, 409, 425, 429, 500, 502, 503, 529)},
}


class TestRoutes:
    """Fail-over before the first byte, as for all models."""

    @pytest.mark.parametrize("first", FAILURES.values(), ids=FAILURES)
    async def test_the_next_upstream_answers(self, first: Story | None) -> None:
        async with in_process(first, GOOD, upstream={"first_byte_ms": 100}) as gate:
            answer = await gate.fetch(asks())
            assert (answer.status, bytes(answer.body)) == (200, VECTORS)
            assert answer.headers["x-holdgate-upstream"] == "b"
            # Who failed is put last for a while.
            assert (await gate.fetch(asks())).status == 200
            assert len(gate.fakes[0].requests) <= 1
            assert [line["upstream"] for line in gate.exchanges] == ["b", "b"]

    @pytest.mark.parametrize("status", [400, 404, 422])
    async def test_a_bad_request_is_bad_everywhere(self, status: int) -> None:
        async with in_process(failing(status), GOOD) as gate:
            answer = await gate.fetch(asks())
            assert (answer.status, bytes(answer.body)) == (status, ERROR)
            assert gate.fakes[1].requests == []

    async def test_the_last_answer_is_shown_with_its_headers(self) -> None:
        limits = ("retry-after: 7", "x-ratelimit-remaining-requests: 0", "set-cookie: a=canary")
        async with in_process(failing(500), failing(429, *limits)) as gate:
            answer = await gate.fetch(asks())
            (line,) = gate.exchanges
        assert (answer.status, bytes(answer.body)) == (429, ERROR)
        assert answer.headers["retry-after"] == "7"
        assert answer.headers["x-ratelimit-remaining-requests"] == "0"
        assert "set-cookie" not in answer.headers
        assert (line["state"], line["status"]) == ("failed", 429)

    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_refused_key_is_the_operators_trouble(self, status: int) -> None:
        async with in_process(failing(status), GOOD, upstream={"api_key": "canary-key"}) as gate:
            answer = await gate.fetch(asks())
            assert "upstream_auth" in gate.log
        assert (answer.status, answer.error["code"]) == (502, "upstream_auth")

    async def test_an_upstream_that_hangs_is_given_up(self) -> None:
        async with in_process(hanging(), upstream={"first_byte_ms": 50}) as gate:
            answer = await gate.fetch(asks())
            await gate.quiet()
        assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")


class TestAnswersThatBreakOff:
    """What was sent never looks like a whole answer."""

    @pytest.mark.parametrize("rest", [b"", TWO[:9]])
    async def test_a_stream_ends_with_an_error_event(self, rest: bytes) -> None:
        story = once(CHUNKED, chunk(ONE + rest), reset=True)
        async with in_process(story) as gate:
            answer = await gate.fetch(asks(COMPLETIONS))
            (line,) = gate.exchanges
        assert answer.failed == "upstream_broke"
        assert bytes(answer.body).startswith(ONE + b"data: {")
        assert (line["state"], line["code"]) == ("failed", "upstream_broke")

    async def test_a_stream_that_falls_silent_ends_with_an_error_event(self) -> None:
        async with in_process(hanging(CHUNKED, chunk(ONE)), upstream={"idle_ms": 50}) as gate:
            answer = await gate.fetch(asks(COMPLETIONS))
        assert answer.failed == "upstream_timeout"

    async def test_a_body_is_cut_off_with_its_connection(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with in_process(once(CHUNKED_JSON, chunk(VECTORS[:20]), reset=True)) as gate:
            client = await gate.send(asks())
            answer = await client.answer()
            await gate.quiet()
            (line,) = gate.exchanges
        assert (answer.status, answer.ending) == (200, "closed")
        assert bytes(answer.body) == VECTORS[:20]
        # It is the upstream's fault, and not told as one of ours.
        assert caplog.records == []
        assert (line["state"], line["code"]) == ("failed", "upstream_broke")


LEAVING: dict[str, tuple[Story, bytes]] = {
    "before headers": (hanging(), b""),
    "before the body": (hanging(CHUNKED_JSON), b""),
    "inside the body": (hanging(CHUNKED_JSON, chunk(VECTORS[:20])), VECTORS[:20]),
    "inside a stream": (hanging(CHUNKED, chunk(ONE)), ONE),
    "inside a frame": (hanging(CHUNKED, chunk(ONE + b"data: {")), ONE),
}


class TestClients:
    """Clients that leave, do not read, or are told to go."""

    @pytest.mark.parametrize("transport", ["fast", "httpx"])
    @pytest.mark.parametrize(("story", "seen"), LEAVING.values(), ids=LEAVING)
    async def test_leaving_closes_the_upstream(
        self, story: Story, seen: bytes, transport: str
    ) -> None:
        async with in_process(story, upstream={"transport": transport}) as gate:
            client = await gate.send(asks())
            if seen:
                await client.saw(seen)
            await until(lambda: len(gate.requests) == 1)
            async with within(0.1 if seen else SOON):
                client.leave()
                await until(lambda: gate.fakes[0].open == 0)
            await gate.quiet()
            assert [line["state"] for line in gate.exchanges] == ["gone"]

    @pytest.mark.parametrize("start", [CHUNKED_JSON, CHUNKED], ids=["body", "stream"])
    async def test_one_that_does_not_read_is_given_up_and_nothing_grows(self, start: bytes) -> None:
        sent = 0

        async def endless(peer: Peer) -> None:
            nonlocal sent
            await peer.request()
            await peer.send(start)
            while True:
                await peer.send(chunk(data({"text": "on and on" * 1000})))
                sent += 9000

        limits = {"limits__slow_reader_ms": 400, "server__keepalive_ms": 50}
        async with in_process(endless, settings=limits) as gate:
            await gate.send(asks(COMPLETIONS), receive_buffer=4096)
            await until(lambda: sent > 0)
            async with within(3):
                await until(lambda: gate.fakes[0].open == 0)
            assert sent < 30_000_000
            await gate.quiet()
            assert [line["state"] for line in gate.exchanges] == ["gone"]

    async def test_a_drain_waits_for_it_and_takes_nothing_new(self) -> None:
        cue = Cue()
        pieces = (CHUNKED_JSON + chunk(VECTORS[:20]), chunk(VECTORS[20:]) + LAST)
        async with in_process(on_cue(cue, *pieces)) as gate:
            client = await gate.send(asks())
            await client.saw(VECTORS[:20])
            metrics = await gate.fetch(get("/metrics"))
            assert b"holdgate_exchanges_live 1.0" in metrics.body
            assert (await gate.fetch(get("/api/status"))).json["exchanges"]["live"] == 1
            left = anyio.Event()
            gate.gateway.leave(left.set)
            refused = await gate.fetch(asks())
            assert (refused.status, refused.error["code"]) == (503, "draining")
            assert not left.is_set()
            cue.give()
            answer = await client.answer()
            cue.give()
            assert (answer.ending, bytes(answer.body)) == ("whole", VECTORS)
            await left.wait()

    async def test_what_goes_on_after_the_drain_is_cut(self) -> None:
        models = [{"name": "silent", "routes": ["a/m"]}, {"name": "stream", "routes": ["b/m"]}]
        stories = (hanging(), hanging(CHUNKED, chunk(ONE)))
        async with in_process(*stories, tables={"models": models}, server__drain_ms=100) as gate:
            stream = await gate.send(asks(COMPLETIONS, names("stream")))
            silent = await gate.send(asks(COMPLETIONS, names("silent")))
            await stream.saw(ONE)
            await until(lambda: len(gate.requests) == 2)
            gate.gateway.leave(lambda: None)
            assert (await stream.answer()).failed == "draining"
            refused = await silent.answer()
        assert (refused.status, refused.error["code"]) == (503, "draining")

    async def test_a_body_is_cut_off_by_the_drain(self) -> None:
        async with in_process(
            hanging(CHUNKED_JSON, chunk(VECTORS[:20])), server__drain_ms=100
        ) as gate:
            client = await gate.send(asks())
            await client.saw(VECTORS[:20])
            gate.gateway.leave(lambda: None)
            answer = await client.answer()
            await gate.quiet()
        assert (answer.ending, bytes(answer.body)) == ("closed", VECTORS[:20])

    async def test_a_large_answer_leaves_the_loop_free(self) -> None:
        vectors = b'{"data":[' + b"0.123456789," * 420_000 + b'0],"usage":{"prompt_tokens":9}}'
        assert len(vectors) > 5_000_000
        async with in_process(answering(sized(vectors, JSON))) as gate:
            longest, done = 0.0, anyio.Event()

            async def watch() -> None:
                nonlocal longest
                while not done.is_set():
                    before = time.perf_counter()
                    await checkpoint()
                    longest = max(longest, time.perf_counter() - before)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                answer = await gate.fetch(asks())
                done.set()
            assert bytes(answer.body) == vectors
            (line,) = gate.exchanges
        assert line["tokens_in"] == 9
        # The upstream, the client and this watch run in the same loop, and copy as much.
        assert longest < 0.1


class TestWhatIsRefused:
    """Before any upstream is asked, and in OpenAI's form."""

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize(
        ("body", "status", "code", "param"),
        [
            (b"{", 400, "bad_request", None),
            (b"[]", 400, "bad_request", None),
            (b'{"model": 7}', 400, "bad_request", "model"),
            (b'{"model": ""}', 400, "bad_request", "model"),
            (b'{"model": "m", "x": NaN}', 400, "bad_request", None),
            (b'{"model": "m", "x": "\xff"}', 400, "bad_request", None),
            (b'{"model": "m", "x": ' + b"[" * 200 + b"]" * 200 + b"}", 400, "bad_request", None),
            (b'{"model": "nobody"}', 404, "model_not_found", "model"),
            (names("m", text="x" * 5000), 413, "body_too_large", None),
        ],
    )
    async def test_bad_requests(
        self, path: str, body: bytes, status: int, code: str, param: str | None
    ) -> None:
        async with in_process(GOOD, upstream=RESPONSES, limits__body_bytes=4096) as gate:
            answer = await gate.fetch(asks(path, body))
            assert gate.requests == []
        assert (answer.status, answer.error["code"]) == (status, code)
        assert answer.error.get("param") == param

    @pytest.mark.parametrize("path", PATHS)
    async def test_what_is_checked_everywhere(self, path: str) -> None:
        tables = {"keys": [{"owner": "alice", "key": "canary"}]}
        mine = "authorization: Bearer canary"
        async with in_process(GOOD, upstream=RESPONSES, tables=tables) as gate:

            async def status(written: bytes) -> int:
                return (await gate.fetch(written)).status

            assert await status(asks(path)) == 401
            assert await status(asks(path, ODD, "origin: http://evil.example", mine)) == 403
            assert await status(asks(path, ODD, "content-encoding: br", mine)) == 415
            assert await status(request("POST", path, mine, body=ODD)) == 415
            refused = await gate.fetch(get(path, mine))
            assert (refused.status, refused.headers["allow"]) == (405, "POST")
            assert gate.requests == []
            assert await status(asks(path, ODD, mine)) == 200
            (line,) = gate.exchanges
        assert (line["owner"], line["model"], line["upstream"]) == ("alice", "m", "a")
        assert (line["state"], line["status"]) == ("done", 200)
        assert (line["tokens_in"], line["tokens_out"]) == (8, 0)


async def test_the_key_of_a_command_goes_up() -> None:
    async with in_process(GOOD, upstream={"api_key_command": ["echo", "sk-printed"]}) as gate:
        assert (await gate.fetch(asks())).status == 200
    assert gate.requests[0].headers[b"authorization"] == b"Bearer sk-printed"


class TestSecrets:
    """Canaries stay where they are."""

    UP = ("openai-beta: assistants=v2", "accept: application/json")
    NOT_UP = (
        "cookie: session=canary-cookie",
        "x-forwarded-for: 203.0.113.7",
        "openai-organization: canary-organisation",
        "idempotency-key: canary-idempotency",
        "user-agent: canary-agent",
        "x-session-id: canary-session",
        "connection: keep-alive, openai-named",
        "openai-named: canary-named",
    )
    NOT_DOWN = (
        "set-cookie: a=canary-cookie",
        "openai-organization: canary-organisation",
        "x-request-id: canary-request-id",
        "server: canary-server",
    )

    @pytest.mark.parametrize("path", PATHS)
    async def test_headers_pass_by_the_lists(self, path: str) -> None:
        tables = {"keys": [{"owner": "alice", "key": "canary-client-key"}]}
        upstream = {**RESPONSES, "api_key": "sk-upstream", "headers": {"x-extra": "mine"}}
        story = answering(sized(VECTORS, JSON, "openai-processing-ms: 5", *self.NOT_DOWN))
        async with in_process(story, upstream=upstream, tables=tables) as gate:
            sent = ("x-api-key: canary-client-key", *self.UP, *self.NOT_UP)
            answer = await gate.fetch(asks(path, ODD, *sent))
            (asked,) = gate.requests
            assert "canary" not in gate.log
            assert "sk-upstream" not in gate.log
        assert b"canary" not in asked.head
        assert asked.headers[b"authorization"] == b"Bearer sk-upstream"
        assert asked.headers[b"openai-beta"] == b"assistants=v2"
        assert asked.headers[b"x-extra"] == b"mine"
        assert answer.headers["openai-processing-ms"] == "5"
        assert "canary" not in repr(answer.headers)

    async def test_an_error_does_not_repeat_the_upstreams_key(self) -> None:
        body = b'{"error": {"message": "canary-upstream-key is out of quota"}}'
        story = failing(429, body=body)
        async with in_process(story, upstream={"api_key": "canary-upstream-key"}) as gate:
            answer = await gate.fetch(asks())
        assert answer.status == 429
        assert b"canary" not in answer.body

    async def test_the_clients_own_key_goes_to_its_upstream_alone(self) -> None:
        async with in_process(GOOD, upstream={"auth": "client"}) as gate:
            assert (await gate.fetch(asks())).status == 401
            assert gate.requests == []
            answer = await gate.fetch(asks(EMBEDDINGS, ODD, "authorization: Bearer own"))
            assert answer.status == 200
        assert gate.requests[0].headers[b"authorization"] == b"Bearer own"


async def test_codex_compacts_a_conversation() -> None:
    asked = {
        "model": "gpt-5-codex",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        ],
        "instructions": "You are Codex.",
        "tools": [],
        "parallel_tool_calls": False,
    }
    compacted = {
        "id": "resp_1",
        "object": "response.compaction",
        "output": [{"type": "compaction", "encrypted_content": "gAAAA" * 1000}],
        "usage": {
            "input_tokens": 40,
            "input_tokens_details": {"cached_tokens": 30},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 6},
            "total_tokens": 49,
        },
    }
    models = [{"name": "gpt-5-codex", "routes": ["a/gpt-5-codex"]}]
    body, headers = json.dumps(asked).encode(), ("session-id: s", "thread-id: s")
    story = answering(sized(json.dumps(compacted).encode(), JSON))
    async with in_process(story, upstream=RESPONSES, tables={"models": models}) as gate:
        packed = asks(COMPACT, ZstdCompressor().compress(body), *headers, "content-encoding: zstd")
        assert (await gate.fetch(packed)).json == compacted
        (line,) = gate.exchanges
    assert gate.requests[0].body == body
    assert (line["tokens_in"], line["tokens_out"]) == (40, 9)
    assert (line["tokens_cached"], line["tokens_reasoning"]) == (30, 6)
