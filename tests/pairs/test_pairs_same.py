"""One dialect at both ends: what is not known passes too, to the byte."""

from __future__ import annotations

import json

import pytest

from tests.gateway.wire import streaming
from tests.run import recorded
from tests.wire.fake import answering, sized

from .gate import CHAT, JSON, MESSAGES, RESPONSES, each_tongue, gate
from .neutral import Answer, Ask, Tongue

RECORDED = [
    (CHAT, "chat_text"),
    (CHAT, "chat_tools_crlf"),
    *((MESSAGES, f"messages_{name}") for name in ("text", "thinking", "tool", "tools_crlf")),
    *((MESSAGES, f"messages_{name}") for name in ("length", "refusal", "unknown", "error")),
    *((RESPONSES, f"responses_{name}") for name in ("text", "reasoning", "tools_crlf")),
    *((RESPONSES, f"responses_{name}") for name in ("custom_tool", "length", "refusal", "failed")),
]
UNKNOWN = {
    CHAT.NAME: b'data: {"id":"x","choices":[],"news":{"b":1.50,"a":[]}}\n\n',
    RESPONSES.NAME: b'event: response.news\ndata: {"type":"response.news","sequence_number":2,"b":1.50}\n\n',
    MESSAGES.NAME: b'event: news\ndata: {"type":"news","b":1.50,"a":[]}\n\n',
}


@pytest.mark.parametrize("tongue, name", RECORDED, ids=[name for _, name in RECORDED])
@pytest.mark.parametrize("size", [7, 4096])
async def test_a_recorded_stream_passes_unchanged(tongue: Tongue, name: str, size: int) -> None:
    stream = recorded(f"{name}.sse")
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    async with gate((tongue, streaming(*pieces))) as between:
        sent = await between.send(tongue, tongue.ask(Ask(), True))
    assert sent.body == stream


@each_tongue
async def test_unknown_events_and_fields_of_answers_pass(tongue: Tongue) -> None:
    frames = tongue.stream(Answer("Yes."))
    stream = b"".join([*frames[:2], UNKNOWN[tongue.NAME], *frames[2:]])
    stream = stream.replace(b'"model":', b'"new" : {"z":1.0,"a":[1e-7]},"model":')
    async with gate((tongue, streaming(stream))) as between:
        sent = await between.send(tongue, tongue.ask(Ask(), True))
        assert sent.body == stream
    whole = tongue.whole(Answer("Yes.")).replace(b'"model":', b'"new" : {"z":1.0},\n "model":')
    async with gate((tongue, answering(sized(whole, JSON)))) as between:
        sent = await between.send(tongue, tongue.ask(Ask(), False))
        assert sent.body == whole


@each_tongue
async def test_unknown_fields_of_requests_pass(tongue: Tongue) -> None:
    asked = tongue.ask(Ask(tools=("look",)), True, new={"z": 1.0, "a": [None, "☃"]}, n=2)
    asked = asked.replace(b'"z":', b'"z" :  ').replace(b'"role":', b'"kept":[1.50],"role":')
    async with gate((tongue, streaming(*tongue.stream(Answer("Yes."))))) as between:
        sent = await between.send(tongue, asked)
        assert sent.status == 200
        assert between.told == asked.replace(b'"model":"m"', b'"model":"real-m"')
        assert await between.lost() == []
        assert json.loads(between.told)["n"] == 2
