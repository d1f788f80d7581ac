"""Responses streams for tests: an upstream that tells turns, and a client that trusts nothing."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from gateway.dialects.openai_responses import DIALECT
from gateway.dialects.openai_responses.stream import ResponsesStream
from gateway.dialects.protocol import Tap
from gateway.exchange.model import ModelRequest
from gateway.wire.sse import data_of, encode, split

Json = dict[str, Any]

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = {path.stem: path.read_bytes() for path in sorted(FIXTURES.glob("responses_*.sse"))}
CLOCK = frozenset({"clock"})
BEGINNINGS = ("response.created", "response.in_progress")
ENDS = ("response.completed", "response.incomplete", "response.failed")


def frame(kind: str, **members: Any) -> bytes:
    data = json.dumps({"type": kind, **members}, separators=(",", ":"), ensure_ascii=False)
    return encode(data.encode(), kind)


def message(ident: str, text: str, **more: Any) -> Json:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    item = {"id": ident, "type": "message", "status": "completed", "content": [part]}
    return {**item, "role": "assistant", **more}


def refusal(ident: str, text: str) -> Json:
    return {**message(ident, ""), "content": [{"type": "refusal", "refusal": text}]}


def reasoning(ident: str, text: str = "hm", **more: Any) -> Json:
    summary = [{"type": "summary_text", "text": text}]
    return {"id": ident, "type": "reasoning", "summary": summary, "encrypted_content": "e", **more}


def call(ident: str, name: str, arguments: str = "{}", **more: Any) -> Json:
    item = {"id": f"fc_{ident}", "type": "function_call", "status": "completed"}
    return {**item, "arguments": arguments, "call_id": f"call_{ident}", "name": name, **more}


def custom(ident: str, name: str, said: str = "x") -> Json:
    item = {"id": f"ctc_{ident}", "type": "custom_tool_call", "status": "completed"}
    return {**item, "input": said, "call_id": f"call_{ident}", "name": name}


def search(ident: str) -> Json:
    return {"id": ident, "type": "web_search_call", "status": "completed", "action": {}}


def usage(given: int, made: int, thought: int = 0) -> Json:
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": given + made,
    }


class Teller:
    """Streams a turn as an upstream does."""

    def __init__(self, ident: str = "resp_1", **more: Any) -> None:
        self.frames: list[bytes] = []
        self.items: list[Json] = []
        self.response = {"id": ident, "object": "response", "created_at": 1, "model": f"m-{ident}"}
        self.response |= {"status": "in_progress", "output": [], "usage": None, **more}
        self.response |= {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
        for kind in BEGINNINGS:
            self.tell(kind, response=self.response)

    def tell(self, kind: str, **members: Any) -> None:
        self.frames.append(frame(kind, sequence_number=len(self.frames), **members))

    def begin(self, item: Json) -> int:
        """Add an item as it looks before anything is in it."""
        empty = {"content": [], "summary": [], "arguments": "", "input": ""}
        bare = {name: empty.get(name, value) for name, value in item.items()}
        self.items.append(item)
        at = len(self.items) - 1
        self.tell("response.output_item.added", output_index=at, item=bare)
        return at

    def fill(self, at: int) -> None:
        """Tell the rest of an item."""
        for kind, members in telling(self.items[at]):
            self.tell(kind, item_id=self.items[at]["id"], output_index=at, **members)
        self.tell("response.output_item.done", output_index=at, item=self.items[at])

    def end(self, status: str = "completed", **more: Any) -> bytes:
        response = {**self.response, "status": status, "output": self.items, **more}
        self.tell(f"response.{status}", response=response)
        return b"".join(self.frames)


def telling(item: Json) -> list[tuple[str, Json]]:
    """List the events that put an item together, without its place."""
    told: list[tuple[str, Json]] = []
    for at, part in enumerate(item.get("content") or ()):
        kind = "refusal" if part["type"] == "refusal" else "output_text"
        name = "refusal" if part["type"] == "refusal" else "text"
        told.append(_part("content_part.added", {"content_index": at}, {**part, name: ""}))
        told += _text(f"response.{kind}", name, part[name], {"content_index": at})
        told.append(_part("content_part.done", {"content_index": at}, part))
    for at, part in enumerate(item.get("summary") or ()):
        place = {"summary_index": at}
        told.append(_part("reasoning_summary_part.added", place, {**part, "text": ""}))
        told += _text("response.reasoning_summary_text", "text", part["text"], place)
        told.append(_part("reasoning_summary_part.done", place, part))
    if item["type"] == "function_call":
        told += _text("response.function_call_arguments", "arguments", item["arguments"], {})
    if item["type"] == "custom_tool_call":
        told += _text("response.custom_tool_call_input", "input", item["input"], {})
    return told


def _part(kind: str, place: Json, part: Json) -> tuple[str, Json]:
    return f"response.{kind}", {**place, "part": part}


def _text(kind: str, name: str, text: str, place: Json) -> list[tuple[str, Json]]:
    half = len(text) // 2
    deltas = [(f"{kind}.delta", {**place, "delta": piece}) for piece in (text[:half], text[half:])]
    return [*deltas, (f"{kind}.done", {**place, name: text})]


def turn(*items: Json, ident: str = "resp_1", status: str = "completed", **more: Any) -> bytes:
    """Stream these items one after the other."""
    teller = Teller(ident)
    for item in items:
        teller.fill(teller.begin(item))
    return teller.end(status, **more)


def splice(tools: frozenset[str] = frozenset(), limit: int = 10**6) -> ResponsesStream:
    made = DIALECT.splice(ModelRequest(model="m", body=b"{}", stream=True), tools, limit)
    assert isinstance(made, ResponsesStream)
    return made


def run(answer: ResponsesStream, *pieces: bytes) -> tuple[bytes, Tap]:
    """Let one turn pass, and take it."""
    tap = answer.tap()
    shown = b"".join(tap.feed(piece) for piece in pieces)
    if not tap.ended:
        shown += tap.close()
    answer.take(tap)
    return shown, tap


def played(*turns: bytes, tools: frozenset[str] = CLOCK) -> bytes:
    """Make one answer of turns."""
    answer = splice(tools)
    return b"".join([run(answer, each)[0] for each in turns]) + answer.tail(neutral_finish=False)


def events(stream: bytes) -> list[Json]:
    datas = [data_of(frame) for frame in split(stream)]
    return [json.loads(data) for data in datas if data is not None and data != b"[DONE]"]


def kinds(stream: bytes) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events(stream)]


def heard(stream: bytes) -> Json:
    """Read an answer as the strictest client does; return the response it ended with."""
    return Client().read(stream)


class Client:
    """Builds the response up from events, and checks each against all before it."""

    def __init__(self) -> None:
        self.response: Json | None = None
        self.open: dict[int, Json] = {}
        self.done: dict[int, Json] = {}
        self.number = -1
        self.ended = False

    def read(self, stream: bytes) -> Json:
        for event in events(stream):
            self.take(event)
        assert self.ended
        assert self.response is not None
        return self.response

    def take(self, event: Json) -> None:
        kind = event["type"]
        assert not self.ended, f"{kind} after the end"
        # A heartbeat repeats the last number.
        assert event["sequence_number"] >= self.number + (kind != BEGINNINGS[1])
        self.number = event["sequence_number"]
        if "response" in event:
            self._lifecycle(kind, event["response"])
        elif kind == "response.output_item.added":
            at = event["output_index"]
            assert at == len(self.open), "the next place, and no other"
            self.open[at] = deepcopy(event["item"])
        elif "output_index" in event:
            self._news(kind, event)

    def _lifecycle(self, kind: str, response: Json) -> None:
        assert (self.response is None) == (kind == BEGINNINGS[0]), "one beginning, and first"
        assert self.response is None or response["id"] == self.response["id"]
        if kind == BEGINNINGS[1]:
            assert response["output"] == list(self.open.values()), "all items, as far as they are"
        if kind in ENDS:
            self.ended = True
            assert self.open.keys() == self.done.keys() or kind == ENDS[-1]
            assert response["output"] == list(self.open.values())
            ids = [item["id"] for item in response["output"] if "id" in item]
            assert len(set(ids)) == len(ids)
        self.response = response

    def _news(self, kind: str, event: Json) -> None:
        item = self.open[event["output_index"]]
        assert event["output_index"] not in self.done
        assert event.get("item_id", item.get("id")) == item.get("id")
        if kind == "response.output_item.done":
            assert event["item"].get("id") == item.get("id")
            assert event["item"].get("call_id") == item.get("call_id")
            assert self._without_status(event["item"]) == self._without_status(item)
            self.open[event["output_index"]] = self.done[event["output_index"]] = event["item"]
        else:
            grow(item, kind, event)

    @staticmethod
    def _without_status(item: Json) -> Json:
        hidden = ("status", "encrypted_content", "action")
        return {name: value for name, value in item.items() if name not in hidden}


def grow(item: Json, kind: str, event: Json) -> None:
    """Add what an event says to an item; every index must be there already."""
    where = item
    if "part" in event:
        name = "content" if "content_index" in event else "summary"
        at = event.get("content_index", event.get("summary_index"))
        if kind.endswith(".added"):
            assert at == len(item.setdefault(name, []))
            item[name].append(deepcopy(event["part"]))
        else:
            assert item[name][at] == event["part"]
        return
    if "content_index" in event:
        where = item["content"][event["content_index"]]
    elif "summary_index" in event:
        where = item["summary"][event["summary_index"]]
    if "annotation" in event:
        where["annotations"].append(event["annotation"])
    for name in ("text", "refusal", "arguments", "input"):
        if kind.endswith(".delta") and name in where:
            where[name] += event["delta"]
        elif name in event:
            assert where[name] == event[name]
