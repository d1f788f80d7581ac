"""Answers as strict clients of each dialect read them, written apart from the gateway's readers."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.dialects.translate.answer_context import AnswerContext
from gateway.dialects.translate.answers import BodyTranslator, StreamTranslator

Json = dict[str, Any]

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic-messages", "openai-responses"
DIALECTS = (CHAT, MESSAGES, RESPONSES)
SHORT = {CHAT: "chat", MESSAGES: "messages", RESPONSES: "responses"}
PAIRS = [(one, other) for one in DIALECTS for other in DIALECTS if one != other]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "answers"
WANTED = AnswerContext("my-model", "request-1", 1700000000)


def fixture(dialect: str, name: str) -> bytes:
    return FIXTURES.joinpath(f"{SHORT[dialect]}_{name}.sse").read_bytes()


def translated(
    stream: bytes, source: str, target: str, wanted: AnswerContext = WANTED, limit: int = 10**6
) -> bytes:
    return in_pieces([stream], source, target, wanted, limit)


def in_pieces(
    pieces: Iterable[bytes],
    source: str,
    target: str,
    wanted: AnswerContext = WANTED,
    limit: int = 10**6,
) -> bytes:
    passage = StreamTranslator(source, target, wanted, limit)
    shown = b"".join(passage.feed(piece) for piece in pieces)
    return shown if passage.ended else shown + passage.close()


def body_translated(
    body: Json | bytes, source: str, target: str, wanted: AnswerContext = WANTED
) -> Json:
    passage = BodyTranslator(source, target, wanted, 10**6)
    assert passage.feed(body if isinstance(body, bytes) else json.dumps(body).encode()) == b""
    read = json.loads(passage.close())
    assert isinstance(read, dict)
    return read


DONE = b"data: [DONE]\n\n"


def data(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> bytes:
    return data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]})


def call(index: Any, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name",) if key in more}
    if arguments is not None:
        function["arguments"] = arguments
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def event(kind: str, **members: Any) -> bytes:
    return data({"type": kind, **members})


def start(**usage: int) -> bytes:
    return event("message_start", message={"id": "m1", "model": "claude", "usage": usage})


def block(index: int, **members: Any) -> bytes:
    return event("content_block_start", index=index, content_block=members)


def delta(index: int, **members: Any) -> bytes:
    return event("content_block_delta", index=index, delta=members)


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


def end(reason: Any = "end_turn", **members: Any) -> bytes:
    told = {"stop_reason": reason, **members}
    return event("message_delta", delta=told) + event("message_stop")


def created() -> bytes:
    return event("response.created", response={"id": "r", "model": "gpt", "created_at": 5.5})


def added(index: int | None, **item: Any) -> bytes:
    return event("response.output_item.added", output_index=index, item=item)


def done(index: int | None, **item: Any) -> bytes:
    return event("response.output_item.done", output_index=index, item=item)


def completed(**response: Any) -> bytes:
    return event("response.completed", response=response)


@dataclass
class Heard:
    """What a client has in its hands at the end."""

    id: str = ""
    model: str = ""
    texts: list[str] = field(default_factory=list)
    thought: str = ""
    proofs: list[str] = field(default_factory=list)
    refusal: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    stop: str = ""
    usage: Json | None = None
    error: Json | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)


def frames(stream: bytes) -> list[tuple[str, str]]:
    """Cut a stream as the standard says; every frame is one event of at most a name and one data."""
    assert not stream or stream.endswith(b"\n\n")
    found = []
    for frame in stream.decode().split("\n\n")[:-1]:
        lines = dict(line.split(": ", 1) for line in frame.split("\n"))
        assert set(lines) <= {"event", "data"}
        found.append((lines.get("event", ""), lines["data"]))
    return found


def heard_chat(stream: bytes) -> Heard:
    heard, calls = Heard(), list[list[str]]()
    datas = [data for _, data in frames(stream)]
    if "error" not in json.loads(datas[-1] if datas[-1] != "[DONE]" else "{}"):
        assert datas.pop() == "[DONE]"
    chunks = [json.loads(data) for data in datas]
    if "error" in chunks[-1]:
        heard.error = chunks.pop()["error"]
    envelopes = {(c["id"], c["object"], c["created"], c["model"]) for c in chunks}
    assert len(envelopes) == 1
    heard.id, heard.model = chunks[0]["id"], chunks[0]["model"]
    for at, chunk in enumerate(chunks):
        if not chunk["choices"]:
            assert at == len(chunks) - 1
            heard.usage = chunk["usage"]
            continue
        (choice,) = chunk["choices"]
        delta = choice["delta"]
        assert choice["index"] == 0
        assert not heard.stop
        assert ("role" in delta) == (at == 0)
        heard.texts.append(delta.get("content") or "")
        heard.thought += delta.get("reasoning_content") or ""
        heard.refusal += delta.get("refusal") or ""
        for piece in delta.get("tool_calls", ()):
            _hear_chat_call(calls, piece)
        heard.stop = choice["finish_reason"] or ""
    assert heard.stop or heard.error
    heard.calls = [(ident, name, arguments) for ident, name, arguments in calls]
    return heard


def _hear_chat_call(calls: list[list[str]], piece: Json) -> None:
    told = piece.get("function") or piece["custom"]
    if piece["index"] == len(calls):
        assert piece["type"] == ("function" if "function" in piece else "custom")
        calls.append([piece["id"], told["name"], ""])
    else:
        assert "name" not in told
        assert "id" not in piece
    calls[piece["index"]][2] += told["arguments"] if "function" in piece else told["input"]


def heard_messages(stream: bytes) -> Heard:
    heard, events = Heard(), []
    for name, data in frames(stream):
        events.append(json.loads(data))
        assert events[-1]["type"] == name
    start = events.pop(0)
    assert start["type"] == "message_start"
    heard.id, heard.model = start["message"]["id"], start["message"]["model"]
    heard.usage = start["message"]["usage"]
    if events[-1]["type"] == "error":
        heard.error = events.pop()["error"]
    else:
        assert events.pop() == {"type": "message_stop"}
        end = events.pop()
        assert end["type"] == "message_delta"
        heard.stop = end["delta"]["stop_reason"]
        assert "stop_sequence" in end["delta"]
        heard.usage = {**(heard.usage or {}), **end["usage"]}
    for block in _hear_blocks(events, heard.error is not None):
        _hear_block(heard, block)
    return heard


def _hear_blocks(events: list[Json], cut: bool) -> list[Json]:
    """Put blocks together that follow each other without a gap and are never mixed."""
    blocks: list[Json] = []
    is_open = False
    for event in events:
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"] | {"json": ""})
            is_open = True
        assert is_open
        assert event["index"] == len(blocks) - 1
        if event["type"] == "content_block_delta":
            delta = event["delta"]
            kind = delta.pop("type")
            (name,) = delta
            assert kind == ("input_json_delta" if name == "partial_json" else f"{name}_delta")
            grown = "json" if name == "partial_json" else name
            blocks[-1][grown] += delta[name]
        is_open = event["type"] != "content_block_stop"
    assert not is_open or cut
    return blocks


def _hear_block(heard: Heard, block: Json) -> None:
    match block["type"]:
        case "text":
            heard.texts.append(block["text"])
        case "thinking":
            heard.thought += block["thinking"]
            heard.proofs.append(block["signature"])
        case "redacted_thinking":
            heard.proofs.append(block["data"])
        case "tool_use":
            assert block["input"] == {}
            heard.calls.append((block["id"], block["name"], block["json"]))


def heard_responses(stream: bytes) -> Heard:
    heard, events = Heard(), []
    for number, (name, data) in enumerate(frames(stream)):
        events.append(json.loads(data))
        assert events[-1]["type"] == name
        assert events[-1]["sequence_number"] == number
    created, progress, end = events.pop(0), events.pop(0), events.pop()
    assert created["type"] == "response.created"
    assert progress["type"] == "response.in_progress"
    assert created["response"] == progress["response"]
    response = end["response"]
    assert response["id"] == created["response"]["id"]
    heard.id, heard.model = response["id"], response["model"]
    heard.error, heard.usage = response["error"], response["usage"]
    heard.stop = (response["incomplete_details"] or {}).get("reason") or response["status"]
    assert end["type"] == f"response.{response['status']}"
    items = _hear_items(events, heard.error is not None)
    assert response["output"] == items
    for item in items:
        _hear_item(heard, item)
    return heard


def _hear_items(events: list[Json], cut: bool) -> list[Json]:
    """Put items together that are never mixed, each done before the next; all is told twice."""
    items: list[Json] = []
    is_open, said = False, ""
    for event in events:
        kind = event["type"]
        if kind == "response.output_item.added":
            assert not is_open
            assert event["output_index"] == len(items)
            items.append(event["item"])
            is_open, said = True, ""
        assert is_open
        assert event["output_index"] == len(items) - 1
        assert event.get("item_id", items[-1]["id"]) == items[-1]["id"]
        said += event.get("delta", "")
        if kind.endswith(".done") and not kind.endswith(("part.done", "item.done")):
            names = ("text", "refusal", "arguments", "input")
            assert said == next(event[name] for name in names if name in event)
        if kind == "response.output_item.done":
            assert event["item"]["id"] == items[-1]["id"]
            items[-1] = event["item"]
            is_open = False
    assert not is_open or cut
    assert len({item["id"] for item in items}) == len(items)
    return items[:-1] if is_open else items


def _hear_item(heard: Heard, item: Json) -> None:
    match item["type"]:
        case "message":
            (part,) = item["content"]
            heard.texts.append(part.get("text", ""))
            heard.refusal += part.get("refusal", "")
        case "reasoning":
            heard.thought += "".join(part["text"] for part in item["summary"])
            heard.proofs.append(item.get("encrypted_content", ""))
        case "function_call":
            heard.calls.append((item["call_id"], item["name"], item["arguments"]))
        case "custom_tool_call":
            heard.calls.append((item["call_id"], item["name"], item["input"]))


HEARD: dict[str, Callable[[bytes], Heard]] = {
    CHAT: heard_chat,
    MESSAGES: heard_messages,
    RESPONSES: heard_responses,
}


def hear(stream: bytes, source: str, target: str, wanted: AnswerContext = WANTED) -> Heard:
    return HEARD[target](translated(stream, source, target, wanted))
