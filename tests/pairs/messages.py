"""Messages at both ends of the wire."""

from __future__ import annotations

import json
from typing import Any

from tests.dialects import messages_wire as wire

from .neutral import (
    Answer,
    Ask,
    Call,
    Image,
    Json,
    Tokens,
    Turn,
    events,
    halves,
    joined,
    packed,
    result_of,
)

NAME = "anthropic-messages"
PATH = "/v1/messages"
SIGNATURE = "c2lnbmVk"
REASONS = {"stop": "end_turn", "length": "max_tokens", "tools": "tool_use", "filter": "refusal"}
STOPS = {reason: stop for stop, reason in REASONS.items()}
CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def ask(ask: Ask, stream: bool, **more: Any) -> bytes:
    messages = [{"role": turn.role, "content": _content(turn)} for turn in ask.turns]
    body: Json = {"model": ask.model, "max_tokens": ask.max_tokens, "messages": messages}
    if stream:
        body["stream"] = True
    if ask.system:
        body["system"] = ask.system
    if ask.tools:
        schema = {"type": "object"}
        body["tools"] = [
            {"name": name, "description": f"To {name}.", "input_schema": schema}
            for name in ask.tools
        ]
    if ask.choice:
        named = {"type": "tool", "name": ask.choice}
        body["tool_choice"] = {"type": CHOICES[ask.choice]} if ask.choice in CHOICES else named
    if ask.temperature is not None:
        body["temperature"] = ask.temperature
    return packed(body | more)


def _content(turn: Turn) -> str | list[Json]:
    blocks: list[Json] = [
        {"type": "tool_result", "tool_use_id": r.id, "content": r.text, "is_error": r.is_error}
        for r in turn.results
    ]
    blocks += [{"type": "image", "source": _source(image)} for image in turn.images]
    if not blocks and not turn.calls:
        return turn.text
    blocks += [{"type": "text", "text": turn.text}] if turn.text else []
    return blocks + [_block(call) for call in turn.calls]


def _source(image: Image) -> Json:
    if image.url:
        return {"type": "url", "url": image.url}
    return {"type": "base64", "media_type": image.media_type, "data": image.data}


def _block(call: Call) -> Json:
    block = {"type": "tool_use", "id": call.id, "name": call.name}
    return {**block, "input": json.loads(call.arguments)}


def asked(body: bytes) -> Ask:
    told = json.loads(body)
    choice = told.get("tool_choice", {"type": ""})
    names = {theirs: ours for ours, theirs in CHOICES.items()} | {"": ""}
    roles = [message["role"] for message in told["messages"]]
    assert roles == [("user", "assistant")[at % 2] for at in range(len(roles))]
    return Ask(
        turns=joined([_turn(message) for message in told["messages"]]),
        system=_system(told.get("system", "")),
        tools=tuple(_tool_name(tool) for tool in told.get("tools", ())),
        choice=names.get(choice["type"]) or choice.get("name", ""),
        max_tokens=told["max_tokens"],
        temperature=told.get("temperature"),
        model=told["model"],
    )


def _system(system: Any) -> str:
    return system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)


def _tool_name(tool: Json) -> str:
    name: str = tool["name"]
    assert tool["input_schema"]["type"] == "object"
    assert tool["description"] == f"To {name}."
    return name


def _turn(message: Json) -> Turn:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kinds = [block["type"] for block in blocks]
    assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result"), "results come first"
    found: dict[str, list[Json]] = {kind: [] for kind in ("text", "image", "tool_use")}
    found["tool_result"] = []
    for block in blocks:
        found[block["type"]].append(block)
    return Turn(
        message["role"],
        "".join(block["text"] for block in found["text"]),
        tuple(_image(block["source"]) for block in found["image"]),
        tuple(
            result_of(block["tool_use_id"], _result_text(block), block.get("is_error", False))
            for block in found["tool_result"]
        ),
        tuple(_call(block) for block in found["tool_use"]),
    )


def _result_text(block: Json) -> str:
    content = block.get("content", "")
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _image(source: Json) -> Image:
    fields = ("url", "media_type", "data")
    return Image(*(source.get(name, "") for name in fields))


def _call(block: Json) -> Call:
    told = block["input"]
    return Call(block["id"], block["name"], told if isinstance(told, str) else written(told))


def written(arguments: Any) -> str:
    """Write arguments the way these tests write them."""
    return packed(arguments).decode()


def stream(answer: Answer) -> list[bytes]:
    usage = {**_usage(answer.tokens), "output_tokens": 1}
    frames = [wire.event("message_start", message={**_envelope(answer), "usage": usage})]
    index = 0
    if answer.thought:
        frames += _thinking(answer.thought)
        index = 1
    if text := answer.text or answer.refusal:
        frames += [wire.say(index, *halves(text))]
        index += 1
    frames += _mixed(answer.calls, index)
    told = {"stop_reason": REASONS[answer.stop], "stop_sequence": None}
    frames += [wire.event("message_delta", delta=told, usage=_usage(answer.tokens)), wire.STOP]
    return frames


def _thinking(thought: str) -> list[bytes]:
    begun = wire.begin(0, {"type": "thinking", "thinking": "", "signature": ""})
    pieces = [wire.delta(0, "thinking_delta", thinking=half) for half in halves(thought)]
    proof = wire.delta(0, "signature_delta", signature=SIGNATURE)
    return [begun, *pieces, proof, wire.stop(0)]


def _mixed(calls: tuple[Call, ...], first: int) -> list[bytes]:
    places = list(enumerate(calls, first))
    frames = [wire.tool(at, call.name, call.id) for at, call in places]
    for half in (0, 1):
        frames += [wire.argue(at, halves(call.arguments)[half]) for at, call in places]
    return frames + [wire.stop(at) for at, _ in places]


def _usage(tokens: Tokens | None) -> Json:
    if tokens is None:
        return {"output_tokens": 0}
    return {
        "input_tokens": tokens.input - tokens.cached,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning},
    }


def whole(answer: Answer) -> bytes:
    content: list[Json] = []
    if answer.thought:
        content.append({"type": "thinking", "thinking": answer.thought, "signature": SIGNATURE})
    if text := answer.text or answer.refusal:
        content.append({"type": "text", "text": text})
    content += [_block(call) for call in answer.calls]
    ended = {"content": content, "stop_reason": REASONS[answer.stop]}
    return packed({**_envelope(answer), **ended, "usage": _usage(answer.tokens)})


def _envelope(answer: Answer) -> Json:
    named = {"id": "msg_1", "type": "message", "role": "assistant", "model": answer.model}
    return {**named, "content": [], "stop_reason": None, "stop_sequence": None}


def broken(text: str, message: str) -> list[bytes]:
    described = {"type": "api_error", "message": message}
    said = [wire.start(), wire.begin(0, {"type": "text", "text": ""})]
    said.append(wire.delta(0, "text_delta", text=text))
    return [*said, wire.event("error", error=described)]


def error(message: str) -> bytes:
    return packed({"type": "error", "error": {"type": "rate_limit_error", "message": message}})


def read_stream(body: bytes) -> Answer:
    assert all(name == told["type"] for name, told in events(body))
    message = wire.read(body)
    for block in message.content:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"])
    told = {**message.start, "content": message.content, **message.end["delta"]}
    return _answer({**told, "usage": message.end["usage"]})


def read_whole(body: bytes) -> Answer:
    return _answer(json.loads(body))


def _answer(message: Json) -> Answer:
    assert (message["type"], message["role"]) == ("message", "assistant")
    assert message["id"].startswith("msg_")
    blocks = message["content"]
    stop = STOPS[message["stop_reason"]]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    return Answer(
        "" if stop == "filter" else text,
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        text if stop == "filter" else "",
        tuple(_call(block) for block in blocks if block["type"] == "tool_use"),
        stop,
        _tokens(message["usage"]),
        message["model"],
    )


def _tokens(usage: Json) -> Tokens:
    cached = usage["cache_read_input_tokens"]
    thought = usage.get("output_tokens_details", {}).get("thinking_tokens", 0)
    return Tokens(usage["input_tokens"] + cached, usage["output_tokens"], cached, thought)


def read_broken(body: bytes) -> tuple[str, str]:
    *told, (name, last) = events(body)
    assert (name, last["type"]) == ("error", "error")
    deltas = [event["delta"] for _, event in told if event["type"] == "content_block_delta"]
    return "".join(delta["text"] for delta in deltas), last["error"]["message"]


def read_error(body: bytes) -> str:
    told = json.loads(body)
    assert told["type"] == "error"
    assert told["error"]["type"]
    message: str = told["error"]["message"]
    return message
