"""When an upstream fails before the client saw anything, the next one answers."""

from __future__ import annotations

import pytest

from tests.gateway.wire import (
    Cue,
    chat,
    data,
    event,
    get,
    hanging,
    in_turn,
    streaming,
    text,
    turn,
    whole,
)
from tests.run import Running, in_process, until
from tests.wire.fake import CHUNKED, LAST, Peer, Story, answering, chunk, head, once, sized

ROLE = event({"role": "assistant", "content": ""})
GOOD = streaming(turn("from b", "b"))
GOOD_WHOLE = answering(sized(whole("from b"), "content-type: application/json"))
ERROR = b'{"error": {"message": "from a"}}'


def refusing(status: int, *lines: str, body: bytes = ERROR) -> Story:
    """Answer every request with an error."""
    return answering(sized(body, "content-type: application/json", *lines, status=f"{status} Hm"))


FAILURES: dict[str, Story | None] = {
    "nobody": None,
    "closed": once(),
    "reset": once(reset=True),
    "not HTTP": once(b"hello\r\n\r\n"),
    "never answers": hanging(),
    "headers only": hanging(CHUNKED),
    "half an event": once(CHUNKED, chunk(ROLE[:50]), reset=True),
    "an empty answer": once(CHUNKED, LAST),
    "a redirect": once(head("location: /", "content-length: 0", status="307 Elsewhere")),
    "HTML": once(sized(b"<html>", "content-type: text/html")),
    "an error under a 200": once(sized(ERROR, "content-type: application/json")),
    "an error as the first event": once(CHUNKED, chunk(data({"error": {"message": "no"}})), LAST),
    **{str(status): refusing(status) for status in (408, 409, 425, 429, 500, 502, 503, 529)},
}


@pytest.mark.parametrize("first", FAILURES.values(), ids=FAILURES)
async def test_the_next_upstream_answers_and_the_client_cannot_tell(first: Story | None) -> None:
    async with in_process(first, GOOD, upstream={"first_byte_ms": 100}) as gate:
        answer = await gate.ask()
    assert answer.status == 200
    assert answer.body == turn("from b", "b")
    assert answer.headers["x-holdgate-upstream"] == "b"
    assert answer.repeated == []


@pytest.mark.parametrize(
    "first",
    [
        None,
        refusing(500),
        once(sized(b"{", "content-type: application/json")),
        once(sized(ERROR, "content-type: application/json")),
        once(head("content-length: 100"), b'{"choices"', reset=True),
        hanging(head("content-length: 100"), b'{"choices"'),
    ],
)
async def test_a_whole_answer_may_come_from_the_next_up_to_its_last_byte(
    first: Story | None,
) -> None:
    async with in_process(first, GOOD_WHOLE, upstream={"idle_ms": 100}) as gate:
        answer = await gate.ask(chat(stream=False))
    assert answer.status == 200
    assert answer.body == whole("from b")
    assert answer.headers["x-holdgate-upstream"] == "b"


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_a_request_that_is_bad_everywhere_is_asked_once(status: int) -> None:
    async with in_process(refusing(status), GOOD) as gate:
        answer = await gate.ask()
        assert answer.status == status
        assert answer.body == ERROR
        assert answer.headers["x-holdgate-upstream"] == "a"
        assert len(gate.fakes[1].requests) == 0


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_not_hidden_by_another_upstream(status: int) -> None:
    async with in_process(refusing(status), GOOD) as gate:
        answer = await gate.ask()
        assert (answer.status, answer.error["code"]) == (502, "upstream_auth")
        assert answer.headers["x-holdgate-upstream"] == "a"
        assert len(gate.fakes[1].requests) == 0


async def test_when_all_fail_the_last_one_is_shown() -> None:
    last = b'{"error": {"message": "from c"}}'
    slow = refusing(429, "retry-after: 9", "x-ratelimit-limit-requests: 5", body=last)
    async with in_process(None, refusing(500), slow) as gate:
        answer = await gate.ask()
        assert [len(fake.requests) for fake in gate.fakes] == [0, 1, 1]
    assert answer.status == 429
    assert answer.body == last
    assert answer.headers["retry-after"] == "9"
    assert answer.headers["x-ratelimit-limit-requests"] == "5"
    assert answer.headers["x-holdgate-upstream"] == "c"


async def test_after_the_first_event_there_is_no_way_back() -> None:
    cue = Cue()

    async def breaking(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(ROLE))
        await cue.wait()
        peer.reset()

    async with in_process(breaking, GOOD) as gate:
        client = await gate.start()
        await client.saw(ROLE)
        cue.give()
        assert (await client.answer()).failed == "upstream_broke"
        assert len(gate.fakes[1].requests) == 0


async def test_after_a_heartbeat_the_next_one_may_still_answer() -> None:
    """The start line is out, but nothing of an answer is."""
    upstream = {"first_byte_ms": 150}
    async with in_process(
        hanging(CHUNKED), GOOD, upstream=upstream, server__keepalive_ms=20
    ) as gate:
        answer = await gate.ask()
    assert answer.body.lstrip(b": wait\n") == turn("from b", "b")
    assert answer.body.startswith(b": wait\n")


async def test_every_route_gets_its_own_model_name_and_the_same_request_id() -> None:
    routes = {"models": [{"name": "m", "routes": ["a/one", "b/two"]}]}
    async with in_process(refusing(500), GOOD, tables=routes) as gate:
        await gate.ask(chat(), "x-request-id: abc")
        first, second = gate.requests
    assert b'"one"' in first.body
    assert b'"two"' in second.body
    assert first.headers[b"x-request-id"] == second.headers[b"x-request-id"] == b"abc"


async def test_leaving_during_the_second_try_ends_it() -> None:
    async with in_process(refusing(500), hanging()) as gate:
        client = await gate.start()
        await until(lambda: bool(gate.fakes[1].requests))
        client.leave()
        await until(lambda: gate.fakes[1].open == 0)
        await gate.quiet()


async def order_of(gate: Running, times: int) -> str:
    """Ask several times; say who answered."""
    return "".join([(await gate.ask()).headers["x-holdgate-upstream"] for _ in range(times)])


async def cooling(gate: Running) -> dict[str, float]:
    """Say for how long each upstream is put last."""
    status = (await gate.fetch(get("/api/status"))).json
    return {upstream["id"]: upstream["cooling_seconds"] for upstream in status["upstreams"]}


async def test_who_failed_is_asked_last_for_a_while() -> None:
    story = in_turn(once(sized(ERROR, status="500 Hm")), streaming(turn("from a")))
    async with in_process(story, GOOD) as gate:
        assert await order_of(gate, 3) == "bbb"
        assert len(gate.fakes[0].requests) == 1
        seconds = await cooling(gate)
        assert 3 < seconds["a"] <= 5
        assert seconds["b"] == 0


async def test_who_fails_again_is_put_last_for_longer() -> None:
    async with in_process(refusing(500), refusing(500)) as gate:
        for _ in range(3):
            assert (await gate.ask()).status == 500
        seconds = await cooling(gate)
        assert 15 < seconds["a"] <= 20
        assert 15 < seconds["b"] <= 20


async def test_the_wish_of_a_busy_upstream_is_honoured() -> None:
    async with in_process(refusing(429, "retry-after: 60"), GOOD) as gate:
        assert await order_of(gate, 2) == "bb"
        assert 50 < (await cooling(gate))["a"] <= 60


async def test_the_only_one_is_asked_all_the_same() -> None:
    story = in_turn(once(sized(ERROR, status="500 Hm")), streaming(turn("well again")))
    async with in_process(story) as gate:
        assert (await gate.ask()).status == 500
        assert (await gate.ask()).text == "well again"
        assert (await cooling(gate))["a"] == 0


async def test_no_second_request_to_the_same_upstream() -> None:
    async with in_process(once(CHUNKED, chunk(text("half")[:40]), reset=True)) as gate:
        assert (await gate.ask()).status == 502
        assert len(gate.requests) == 1
