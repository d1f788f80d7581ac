"""Where several processes share a store, answers and log lines say which of them it was."""

import json

import pytest

from tests.gateway.client import Answer
from tests.gateway.wire import ROUTES, get, streaming, to, turn
from tests.run import Running, in_process

HEADER = "x-holdgate-instance"


@pytest.mark.parametrize("path", ROUTES)
async def test_every_answer_names_the_instance(path: str) -> None:
    async with in_process(streaming(turn("hi"))) as gate:
        gate.gateway.use_instance(lambda: "0123456789abcdef")
        assert (await gate.fetch(to(path))).headers[HEADER] == "01234567"
        assert (await gate.fetch(to(path, host="elsewhere"))).headers[HEADER] == "01234567"


async def test_a_new_name_is_used_at_once() -> None:
    names = iter(["first", "second"])
    async with in_process(streaming(turn("hi"))) as gate:
        gate.gateway.use_instance(lambda: next(names))
        told = [(await gate.fetch(get("/healthz"))).headers[HEADER] for _ in range(2)]
        assert told == ["first", "second"]
        gate.gateway.use_instance(lambda: "third")
        assert (await show_status(gate)).json["instance"] == {"id": "third"}
        assert {json.loads(line)["instance"] for line in gate.log.splitlines()} == {"third"}


async def test_a_lone_gateway_has_no_name() -> None:
    async with in_process(streaming(turn("hi"))) as gate:
        answer = await show_status(gate)
        assert HEADER not in answer.headers
        assert "instance" not in answer.json
        assert "instance" not in gate.log


async def show_status(gate: Running) -> Answer:
    return await gate.fetch(get("/api/status"))
