"""What an operator sees of requests in the metrics, asked over HTTP."""

from __future__ import annotations

import json

import pytest

from gateway.exchange.request_counts import MOST_UNLISTED
from tests.clock.holding import metrics
from tests.exposition import find_mistakes
from tests.gateway.wire import Cue, chat, get, on_cue, streaming, text, turn, usage, whole
from tests.run import Running, in_process, until
from tests.wire.fake import CHUNKED, LAST, answering, chunk, once, sized

COUNTED = turn("one", counted=usage(10, 3))
ONE = streaming(COUNTED)
JSON = "content-type: application/json"
ADMIN = "x-api-key: key-of-root"
ALICE = "x-api-key: key-of-alice"
KEYS = [
    {"owner": "alice", "key": "key-of-alice"},
    {"owner": "root", "key": "key-of-root", "admin": True},
]
ROUTED = {"models": [{"name": "fast", "routes": ["a/gpt-9", "b/glm"]}]}
FIRST = 'model="fast",upstream="a",upstream_model="gpt-9"'
SECOND = 'model="fast",upstream="b",upstream_model="glm"'
BUSY = sized(b'{"error": {"message": "busy"}}', JSON, status="503 Service Unavailable")


async def read_page(gate: Running, *headers: str) -> str:
    await gate.quiet()
    answer = await gate.fetch(get("/metrics", *headers))
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return bytes(answer.body).decode()


async def test_the_page_follows_prometheus() -> None:
    async with in_process(ONE, None, tables={"keys": KEYS}, metrics__owner_label=True) as gate:
        await gate.ask(chat(), ALICE)
        await gate.ask()
        await gate.fetch(get("/api/status", ADMIN))
        page = await read_page(gate, ADMIN)
    assert find_mistakes(page) == []
    lines = page.splitlines()
    assert "holdgate_exchanges_live 0.0" in lines
    assert 'holdgate_upstream_connections_busy{upstream="b"} 0.0' in lines


async def test_an_exchange_is_counted_by_model_and_route() -> None:
    async with in_process(ONE, None, tables=ROUTED) as gate:
        await gate.ask(chat(model="fast"))
        await gate.quiet()
        ended = await metrics(gate, "exchanges_total")
        tokens = await metrics(gate, "tokens_total")
        first = await metrics(gate, "first_frame_seconds_count")
    assert ended == {
        'model="fast",state="done",status="200",upstream="a",upstream_model="gpt-9"': 1
    }
    assert tokens == {f'direction="input",{FIRST}': 10, f'direction="output",{FIRST}': 3}
    assert first == {FIRST: 1}


async def test_a_fail_over_counts_for_who_answered() -> None:
    async with in_process(answering(BUSY), ONE, tables=ROUTED) as gate:
        await gate.ask(chat(model="fast"))
        await gate.quiet()
        assert await metrics(gate, "turns_total") == {SECOND: 1}
        assert await metrics(gate, "exchange_seconds_count") == {SECOND: 1}


async def test_a_turn_that_breaks_off_is_counted() -> None:
    async with in_process(once(CHUNKED, chunk(text("one"))), None, tables=ROUTED) as gate:
        await gate.ask(chat(model="fast"))
        await gate.quiet()
        assert await metrics(gate, "turns_total") == {FIRST: 1}
        assert await metrics(gate, "tokens_total") == {}


class TestGaps:
    async def test_a_stream_has_some(self) -> None:
        cue = Cue()
        head, tail = CHUNKED + chunk(text("one")), chunk(turn("two")) + LAST
        async with in_process(on_cue(cue, head, tail)) as gate:
            client = await gate.start()
            await client.saw(b"one")
            cue.give()
            await client.answer()
            await gate.quiet()
            (count,) = (await metrics(gate, "frame_gap_seconds_count")).values()
            (seconds,) = (await metrics(gate, "frame_gap_seconds_sum")).values()
        assert count >= 1
        assert seconds > 0

    async def test_a_whole_answer_has_none(self) -> None:
        async with in_process(answering(sized(whole(), JSON))) as gate:
            await gate.ask(chat(stream=False))
            await gate.quiet()
            assert len(await metrics(gate, "turns_total")) == 1
            assert await metrics(gate, "frame_gap_seconds_count") == {}


class TestRefusals:
    async def test_they_are_counted_by_code(self) -> None:
        async with in_process(ONE, None, tables=ROUTED) as gate:
            for body in (b"{", chat(model="nobody's"), chat(model="nobody else's")):
                await gate.ask(body)
            await gate.fetch(get("/nothing"))
            assert await metrics(gate, "requests_refused_total") == {
                'code="bad_request"': 1,
                'code="model_not_found"': 2,
                'code="not_found"': 1,
            }
            assert await metrics(gate, "exchanges_total") == {}

    async def test_limits_of_owners_have_codes_of_their_own(self) -> None:
        tables = {"keys": [{"owner": "alice", "key": "key-of-alice", "rpm": 1}]}
        async with in_process(ONE, tables=tables) as gate:
            statuses = [(await gate.ask(chat(), ALICE)).status for _ in range(3)]
            page = gate.gateway.metrics.render().decode()
        assert statuses == [200, 429, 429]
        assert 'holdgate_requests_refused_total{code="rate_limit_exceeded"} 2.0' in page

    async def test_those_of_an_upstream_stay_exchanges(self) -> None:
        limited = sized(b'{"error": {"message": "slow down"}}', JSON, status="429 Too Many")
        async with in_process(answering(limited)) as gate:
            await gate.ask()
            await gate.quiet()
            (labels,) = await metrics(gate, "exchanges_total")
            assert 'status="429"' in labels
            assert await metrics(gate, "requests_refused_total") == {}

    async def test_other_requests_are_counted_by_method_and_status(self) -> None:
        async with in_process(None) as gate:
            for path in ("/healthz", "/v1/models", "/v1/models/m"):
                await gate.fetch(get(path))
            counted = 'holdgate_requests_answered_total{method="GET",status="200"} 3.0'
            await until(lambda: counted in gate.gateway.metrics.render().decode())


class TestOwners:
    @pytest.mark.parametrize("shown", [False, True])
    async def test_the_operator_decides(self, shown: bool) -> None:
        tables = {"keys": KEYS}
        async with in_process(ONE, tables=tables, metrics__owner_label=shown) as gate:
            await gate.ask(chat(), ALICE)
            await gate.ask(chat(model="nobody's"), ALICE)
            page = await read_page(gate, ADMIN)
        assert ('owner="alice"' in page) is shown
        refused = 'code="model_not_found"' + (',owner="alice"' if shown else "")
        assert f"holdgate_requests_refused_total{{{refused}}} 1.0" in page


class TestModelNames:
    async def test_the_page_does_not_grow_with_what_clients_make_up(self) -> None:
        async with in_process(ONE, upstream={"models": ["*"]}, tables={"models": []}) as gate:
            for number in range(MOST_UNLISTED + 3):
                await gate.ask(chat(model=f"made-up-{number}"))
            await gate.quiet()
            counted = await metrics(gate, "turns_total")
        assert len(counted) == MOST_UNLISTED + 1
        assert counted['model="other",upstream="a",upstream_model="other"'] == 3

    async def test_a_model_that_a_reload_adds_has_its_own_series(self) -> None:
        async with in_process(ONE, upstream={"models": ["*"]}, tables={"models": []}) as gate:
            for number in range(MOST_UNLISTED + 1):
                await gate.ask(chat(model=f"made-up-{number}"))
            await gate.reload(models=[{"name": "fast", "routes": ["a/gpt-9"]}])
            await gate.ask(chat(model="fast"))
            await gate.quiet()
            assert (await metrics(gate, "turns_total"))[FIRST] == 1

    @pytest.mark.parametrize("name", ['"\\ud800"', '"\\u0000"', json.dumps("é" * 200), '"a\\nb"'])
    async def test_no_name_breaks_the_page(self, name: str) -> None:
        asked = chat(model="NAME").replace(b'"NAME"', name.encode())
        async with in_process(ONE, upstream={"models": ["*"]}, tables={"models": []}) as gate:
            await gate.ask(asked)
            page = await read_page(gate)
        assert find_mistakes(page) == []
