"""Responses at both ends of the wire."""

from __future__ import annotations

import json
from typing import Any

from tests.dialects import responses_wire as wire

from .neutral import (
    Answer,
    Ask,
    Call,
    Json,
    Tokens,
    Turn,
    events,
    image_at,
    joined,
    packed,
    result_of,
    result_text,
)

NAME = "openai-responses"
PATH = "/v1/responses"
ENCRYPTED = "e"
REASONS = {"length": "max_output_tokens", "filter": "content_filter"}
STOPS = {reason: stop for stop, reason in REASONS.items()}


def ask(ask: Ask, stream: bool, **more: Any) -> bytes:
    items = [item for turn in ask.turns for item in _items(turn)]
    body: Json = {"model": ask.model, "input": items, "max_output_tokens": ask.max_tokens}
    if stream:
        body["stream"] = True
    if ask.system:
        body["instructions"] = ask.system
    if ask.tools:
        body["tools"] = [_tool(name) for name in ask.tools]
    if ask.choice:
        named = {"type": "function", "name": ask.choice}
        body["tool_choice"] = named if ask.choice in ask.tools else ask.choice
    if ask.temperature is not None:
        body["temperature"] = ask.temperature
    return packed(body | more)


def _tool(name: str) -> Json:
    tool = {"type": "function", "name": name, "description": f"To {name}."}
    return {**tool, "parameters": {"type": "object"}, "strict": False}


def _items(turn: Turn) -> list[Json]:
    items: list[Json] = [
        {"type": "function_call_output", "call_id": result.id, "output": result_text(result)}
        for result in turn.results
    ]
    kind = "output_text" if turn.role == "assistant" else "input_text"
    content: list[Json] = [{"type": "input_image", "image_url": i.address} for i in turn.images]
    content += [{"type": kind, "text": turn.text}] if turn.text else []
    if content:
        items.append({"type": "message", "role": turn.role, "content": content})
    return items + [_item(call) for call in turn.calls]


def _item(call: Call) -> Json:
    item = {"type": "function_call", "call_id": call.id, "name": call.name}
    return {**item, "arguments": call.arguments}


def asked(body: bytes) -> Ask:
    told = json.loads(body)
    return Ask(
        turns=joined([_turn(item) for item in told["input"]]),
        system=told.get("instructions") or "",
        tools=tuple(_tool_name(tool) for tool in told.get("tools", ())),
        choice=_choice(told.get("tool_choice", "")),
        max_tokens=told["max_output_tokens"],
        temperature=told.get("temperature"),
        model=told["model"],
    )


def _tool_name(tool: Json) -> str:
    name: str = tool["name"]
    assert tool["type"] == "function"
    assert tool["parameters"]["type"] == "object"
    assert tool["description"] == f"To {name}."
    return name


def _choice(choice: Any) -> str:
    return choice if isinstance(choice, str) else str(choice["name"])


def _turn(item: Json) -> Turn:
    if item["type"] == "function_call_output":
        return Turn("user", results=(result_of(item["call_id"], item["output"]),))
    if item["type"] == "function_call":
        call = Call(item["call_id"], item["name"], item["arguments"])
        return Turn("assistant", calls=(call,))
    assert item["type"] == "message"
    content = item["content"]
    if isinstance(content, str):
        return Turn(item["role"], content)
    texts = [part["text"] for part in content if part["type"].endswith("_text")]
    images = [part["image_url"] for part in content if part["type"] == "input_image"]
    assert len(texts) + len(images) == len(content)
    return Turn(item["role"], "".join(texts), tuple(map(image_at, images)))


def _output(answer: Answer) -> list[Json]:
    items = [wire.reasoning("rs_1", answer.thought)] if answer.thought else []
    items += [wire.message("msg_1", answer.text)] if answer.text else []
    items += [wire.refusal("msg_1", answer.refusal)] if answer.refusal else []
    return items + [
        {**wire.call(call.id, call.name, call.arguments), "call_id": call.id}
        for call in answer.calls
    ]


def _end(answer: Answer) -> tuple[str, Json]:
    end: Json = {"usage": _usage(answer.tokens)}
    # A model that refuses in words of its own completes its answer.
    if answer.stop in REASONS and not answer.refusal:
        return "incomplete", end | {"incomplete_details": {"reason": REASONS[answer.stop]}}
    return "completed", end


def stream(answer: Answer) -> list[bytes]:
    teller = wire.Teller(model=answer.model)
    *others, calls = [*_split(_output(answer))]
    for item in others[0]:
        teller.fill(teller.begin(item))
    places = [teller.begin(item) for item in calls]
    _mix(teller, places)
    status, end = _end(answer)
    teller.end(status, **end)
    return teller.frames


def _split(items: list[Json]) -> tuple[list[Json], list[Json]]:
    calls = [item for item in items if item["type"] == "function_call"]
    return [item for item in items if item not in calls], calls


def _mix(teller: wire.Teller, places: list[int]) -> None:
    """Tell calls piece by piece in turn, as no upstream that is known does, but any may."""
    told = [wire.telling(teller.items[at]) for at in places]
    for step in zip(*told, strict=True):
        for at, (kind, members) in zip(places, step, strict=True):
            teller.tell(kind, item_id=teller.items[at]["id"], output_index=at, **members)
    for at in places:
        teller.tell("response.output_item.done", output_index=at, item=teller.items[at])


def _usage(tokens: Tokens | None) -> Json | None:
    if tokens is None:
        return None
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


def whole(answer: Answer) -> bytes:
    status, end = _end(answer)
    response = wire.Teller(model=answer.model).response
    return packed({**response, "status": status, "output": _output(answer), **end})


def broken(text: str, message: str) -> list[bytes]:
    teller = wire.Teller()
    at = teller.begin(wire.message("msg_1", text))
    for kind, members in wire.telling(teller.items[at])[:3]:
        teller.tell(kind, item_id="msg_1", output_index=at, **members)
    teller.end("failed", error={"code": "server_error", "message": message}, output=[])
    return teller.frames


def error(message: str) -> bytes:
    described = {"message": message, "type": "upstream_words", "param": None, "code": None}
    return packed({"error": described})


def read_stream(body: bytes) -> Answer:
    assert all(name == told["type"] for name, told in events(body))
    return _answer(wire.heard(body))


def read_whole(body: bytes) -> Answer:
    return _answer(json.loads(body))


def _answer(response: Json) -> Answer:
    assert response["object"] == "response"
    assert response["id"].startswith("resp_")
    output = response["output"]
    parts = [part for item in output for part in item.get("content") or ()]
    thoughts = [part for item in output for part in item.get("summary") or ()]
    calls = [item for item in output if item["type"] == "function_call"]
    refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
    return Answer(
        "".join(part["text"] for part in parts if part["type"] == "output_text"),
        "".join(part["text"] for part in thoughts),
        refusal,
        tuple(Call(item["call_id"], item["name"], item["arguments"]) for item in calls),
        "filter" if refusal else _stop(response, bool(calls)),
        _tokens(response["usage"]),
        response["model"],
    )


def _stop(response: Json, calls: bool) -> str:
    if response["status"] == "completed":
        return "tools" if calls else "stop"
    assert response["status"] == "incomplete"
    return STOPS[response["incomplete_details"]["reason"]]


def _tokens(usage: Json | None) -> Tokens | None:
    if usage is None:
        return None
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    return Tokens(
        usage["input_tokens"],
        usage["output_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
    )


def read_broken(body: bytes) -> tuple[str, str]:
    told = [event for _, event in events(body)]
    assert told[-1]["type"] == "response.failed"
    assert told[-1]["response"]["status"] == "failed"
    assert [event["type"] for event in told].count("response.created") <= 1
    assert len({event["response"]["id"] for event in told if "response" in event}) == 1
    numbers = [event["sequence_number"] for event in told]
    assert numbers == sorted(numbers)
    deltas = [event["delta"] for event in told if event["type"] == "response.output_text.delta"]
    return "".join(deltas), told[-1]["response"]["error"]["message"]


def read_error(body: bytes) -> str:
    described = json.loads(body)["error"]
    assert {"message", "type", "param", "code"} <= described.keys()
    message: str = described["message"]
    return message
