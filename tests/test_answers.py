"""Which upstream answer stands behind the one a client saw, and for how long that is known."""

import json

import pytest

from gateway.exchange.answer_ids import KEPT_MS, AnswerIds
from gateway.stores import Memory
from gateway.stores.documents import StoreUnavailable
from tests.gateway.wire import request
from tests.run import in_process
from tests.wire.fake import Peer, sized


async def test_it_is_known_for_thirty_days() -> None:
    now = 0
    answers = AnswerIds(Memory(lambda: now, lambda *_: None), lambda *_, **__: None)
    await answers.remember("ann", "resp_seen", "resp_real")
    assert await answers.upstream_id("ann", "resp_seen") == "resp_real"
    assert await answers.upstream_id("bob", "resp_seen") == "resp_seen"
    now = KEPT_MS
    await answers.sweep()
    assert await answers.upstream_id("ann", "resp_seen") == "resp_real"
    now += 1
    await answers.sweep()
    assert await answers.upstream_id("ann", "resp_seen") == "resp_seen"


async def test_an_id_of_megabytes_is_not_looked_for() -> None:
    answers = AnswerIds(Broken(lambda: 0, lambda *_: None), lambda *_, **__: pytest.fail("it was"))
    long = "r" * 2**20
    assert await answers.upstream_id("ann", long) == long


class Broken(Memory):
    """A store that is down."""

    async def write(self, *arguments: object) -> int:
        raise StoreUnavailable("down")

    async def read(self, *arguments: object) -> None:
        raise StoreUnavailable("down")

    def absent(self, *arguments: object) -> bool:
        return False


async def test_without_a_store_the_id_stays_and_it_is_noted() -> None:
    notes: list[str] = []
    answers = AnswerIds(
        Broken(lambda: 0, lambda *_: None), lambda event, **fields: notes.append(event)
    )
    await answers.remember("ann", "a", "b")
    assert await answers.upstream_id("ann", "a") == "a"
    assert notes == ["answer_not_stored", "answer_not_read"]


def response(number: int) -> bytes:
    said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
    content = [{"type": "output_text", "text": f"turn {number}", "annotations": []}]
    return json.dumps(
        {
            "id": f"resp_{number}",
            "object": "response",
            "status": "completed",
            "model": "m",
            "output": [{**said, "content": content}],
            "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        }
    ).encode()


@pytest.mark.parametrize("known", ["resp_1", "resp_9"])
async def test_a_client_goes_on_from_the_last_turn_it_did_not_see(known: str) -> None:
    asked: list[dict[str, object]] = []

    async def upstream(peer: Peer) -> None:
        while True:
            asked.append(json.loads((await peer.request()).body))
            head = sized(response(len(asked)), "content-type: application/json")
            await peer.send(head)

    async with in_process(upstream, upstream={"dialect": "openai-responses"}) as gate:
        first: dict[str, object] = {"model": "m", "input": '<**stopMessage:"go on",1**> hi'}
        answer = await gate.fetch(ask(first))
        assert answer.json["id"] == "resp_1"
        await gate.fetch(ask({"model": "m", "input": "and?", "previous_response_id": known}))
    assert len(asked) == 3
    assert asked[2]["previous_response_id"] == ("resp_2" if known == "resp_1" else known)


def ask(body: dict[str, object]) -> bytes:
    headers = ("content-type: application/json", "x-session-id: s")
    return request("POST", "/v1/responses", *headers, body=json.dumps(body).encode())
