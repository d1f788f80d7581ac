"""Messages streams as an upstream writes them, and as a strict client reads them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from gateway.dialects.anthropic_messages import DIALECT
from gateway.dialects.protocol import Splice, Tap
from gateway.exchange.model import ModelRequest
from gateway.wire.sse import data_of, split

Json = dict[str, Any]

FIXTURES = Path(__file__).parents[1] / "fixtures"
CLOCK = frozenset({"clock"})
NO_TOOLS: frozenset[str] = frozenset()
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def fixture(name: str) -> bytes:
    return FIXTURES.joinpath(f"messages_{name}.sse").read_bytes()


def event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


def start(ident: str = "msg_a", model: str = "m", **usage: Any) -> bytes:
    counts = {"input_tokens": 10, "output_tokens": 1, **usage}
    return event("message_start", message={"id": ident, "model": model, "usage": counts})


def begin(index: Any, block: Json) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: Any, kind: str, **said: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **said})


def stop(index: Any) -> bytes:
    return event("content_block_stop", index=index)


def say(index: int, *pieces: str) -> bytes:
    begun = begin(index, {"type": "text", "text": ""})
    return begun + b"".join(delta(index, "text_delta", text=p) for p in pieces) + stop(index)


def tool(index: Any, name: str, ident: str | None = None) -> bytes:
    block = {"type": "tool_use", **({"id": ident} if ident else {}), "name": name, "input": {}}
    return begin(index, block)


def argue(index: Any, *pieces: str) -> bytes:
    return b"".join(delta(index, "input_json_delta", partial_json=piece) for piece in pieces)


def call(index: int, name: str, ident: str | None, arguments: str = "{}") -> bytes:
    middle = len(arguments) // 2
    pieces = argue(index, "", arguments[:middle], arguments[middle:])
    return tool(index, name, ident) + pieces + stop(index)


def finish(reason: str | None = "end_turn", output: int = 5, **more: Any) -> bytes:
    ended = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=ended, usage={"output_tokens": output}, **more) + STOP


def turn(text: str, ident: str = "msg_a", reason: str = "end_turn") -> bytes:
    return start(ident) + say(0, text) + finish(reason)


def splice(tools: frozenset[str] = NO_TOOLS, limit: int = 10**6, body: bytes = b"{}") -> Splice:
    return DIALECT.splice(ModelRequest(model="m", body=body, stream=True), tools, limit)


def run(answer: Splice, *pieces: bytes) -> tuple[bytes, Tap]:
    """Let a turn pass in these pieces; return what is shown, and the tap."""
    tap = answer.tap()
    shown = b"".join(tap.feed(piece) for piece in pieces)
    if not tap.ended:
        shown += tap.close()
    answer.take(tap)
    return shown, tap


def played(*pieces: bytes, tools: frozenset[str] = NO_TOOLS, limit: int = 10**6) -> bytes:
    answer = splice(tools, limit)
    return run(answer, *pieces)[0] + answer.tail(neutral_finish=False)


def joined(answer: Splice, *turns: bytes, neutral_finish: bool = False) -> bytes:
    """Make one answer of several turns."""
    return b"".join(run(answer, turn)[0] for turn in turns) + answer.tail(neutral_finish)


def cut(stream: bytes, at: Iterable[int]) -> list[bytes]:
    points = sorted({0, *(point for point in at if point < len(stream)), len(stream)})
    return [stream[a:b] for a, b in pairwise(points)]


def events(stream: bytes) -> list[Json]:
    datas = [data_of(frame) for frame in split(stream)]
    return [json.loads(data) for data in datas if data is not None]


@dataclass
class Message:
    """An answer as a client puts it together."""

    start: Json = field(default_factory=dict)
    content: list[Json] = field(default_factory=list)
    end: Json = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        return [block["text"] for block in self.content if block["type"] == "text"]

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        calls = [block for block in self.content if block["type"] == "tool_use"]
        return [(block["id"], block["name"], block["input"]) for block in calls]

    @property
    def stop_reason(self) -> str:
        reason = self.end["delta"]["stop_reason"]
        assert isinstance(reason, str)
        return reason


def read(stream: bytes) -> Message:
    """Read a stream as the strictest client does: in order, one block at a time, to its end."""
    message, is_open = Message(), False
    for told in events(stream):
        kind = told["type"]
        assert "done" not in message.end, f"{kind} after the end"
        if kind == "message_start":
            assert not message.start, "a second beginning"
            message.start = told["message"]
        elif kind == "content_block_start":
            assert not is_open, "a block inside another"
            assert told["index"] == len(message.content), "a gap"
            is_open = True
            message.content.append(_begun(told["content_block"]))
        elif kind == "content_block_delta":
            assert is_open, "a delta outside its block"
            assert told["index"] == len(message.content) - 1, "a delta of another block"
            _extend(message.content[-1], told["delta"])
        elif kind == "content_block_stop":
            assert is_open, "an end without a beginning"
            assert told["index"] == len(message.content) - 1, "the end of another block"
            is_open = False
        elif kind == "message_delta":
            assert not is_open, "the end inside a block"
            assert not message.end, "a second end"
            message.end = told
        elif kind == "message_stop":
            message.end["done"] = True
    assert message.start, "no beginning"
    assert message.end.get("done"), "no end"
    return message


def _begun(block: Json) -> Json:
    return {**block, "input": ""} if block["type"] == "tool_use" else dict(block)


def _extend(block: Json, said: Json) -> None:
    for name, piece in said.items():
        if name != "type":
            member = "input" if name == "partial_json" else name
            block[member] = block.get(member, "") + piece
