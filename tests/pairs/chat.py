"""Chat Completions at both ends of the wire."""

from __future__ import annotations

import json
from typing import Any

from .neutral import (
    Answer,
    Ask,
    Call,
    Json,
    Tokens,
    Turn,
    events,
    halves,
    image_at,
    joined,
    packed,
    result_of,
    result_text,
)

NAME = "openai-chat"
PATH = "/v1/chat/completions"
FINISHES = {"stop": "stop", "length": "length", "tools": "tool_calls", "filter": "content_filter"}
STOPS = {finish: stop for stop, finish in FINISHES.items()}
PARTS = {"text", "image_url"}


def ask(ask: Ask, stream: bool, **more: Any) -> bytes:
    messages = [{"role": "system", "content": ask.system}] if ask.system else []
    for turn in ask.turns:
        messages += _messages(turn)
    body: Json = {"model": ask.model, "messages": messages, "max_completion_tokens": ask.max_tokens}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if ask.tools:
        body["tools"] = [_tool(name) for name in ask.tools]
    if ask.choice:
        named = {"type": "function", "function": {"name": ask.choice}}
        body["tool_choice"] = named if ask.choice in ask.tools else ask.choice
    if ask.temperature is not None:
        body["temperature"] = ask.temperature
    return packed(body | more)


def _tool(name: str) -> Json:
    function = {"name": name, "description": f"To {name}.", "parameters": {"type": "object"}}
    return {"type": "function", "function": function}


def _messages(turn: Turn) -> list[Json]:
    told: list[Json] = [
        {"role": "tool", "tool_call_id": result.id, "content": result_text(result)}
        for result in turn.results
    ]
    message: Json = {"role": turn.role, "content": turn.text}
    if turn.images:
        pictures = [{"type": "image_url", "image_url": {"url": i.address}} for i in turn.images]
        message["content"] = [*pictures, {"type": "text", "text": turn.text}]
    if turn.calls:
        message["content"] = turn.text or None
        message["tool_calls"] = [_whole_call(call) for call in turn.calls]
    return [*told, message] if turn.text or turn.images or turn.calls else told


def _whole_call(call: Call) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def asked(body: bytes) -> Ask:
    told = json.loads(body)
    first, *rest = told["messages"]
    if first["role"] != "system":
        rest = told["messages"]
    if told.get("stream"):
        assert told["stream_options"] == {"include_usage": True}
    temperature = told.get("temperature")
    return Ask(
        turns=joined([_turn(message) for message in rest]),
        system=first["content"] if first["role"] == "system" else "",
        tools=tuple(_tool_name(tool) for tool in told.get("tools", ())),
        choice=_choice(told.get("tool_choice", "")),
        max_tokens=told.get("max_completion_tokens") or told["max_tokens"],
        temperature=temperature,
        model=told["model"],
    )


def _tool_name(tool: Json) -> str:
    assert tool["type"] == "function"
    assert tool["function"]["parameters"]["type"] == "object"
    name: str = tool["function"]["name"]
    assert tool["function"]["description"] == f"To {name}."
    return name


def _choice(choice: Any) -> str:
    return choice if isinstance(choice, str) else str(choice["function"]["name"])


def _turn(message: Json) -> Turn:
    content = message["content"]
    if message["role"] == "tool":
        assert isinstance(content, str)
        return Turn("user", results=(result_of(message["tool_call_id"], content),))
    parts: list[Json] = content or []
    if isinstance(content, str):
        parts = [{"type": "text", "text": content}]
    assert {part["type"] for part in parts} <= PARTS
    images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return Turn(
        message["role"],
        "".join(part["text"] for part in parts if part["type"] == "text"),
        tuple(map(image_at, images)),
        calls=_calls(message),
    )


def _calls(message: Json) -> tuple[Call, ...]:
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
    return tuple(Call(ident, told["name"], told["arguments"]) for ident, told in calls)


def stream(answer: Answer) -> list[bytes]:
    said = [("reasoning_content", answer.thought), ("content", answer.text)]
    said.append(("refusal", answer.refusal))
    frames = [_chunk({"role": "assistant", "content": ""}, answer)]
    frames += [_chunk({name: half}, answer) for name, text in said for half in halves(text) if half]
    frames += [_chunk({"tool_calls": [piece]}, answer) for piece in _pieces(answer.calls)]
    frames.append(_chunk({}, answer, _finish(answer)))
    if answer.tokens:
        frames.append(_frame({**_envelope(answer), "choices": [], "usage": _usage(answer.tokens)}))
    return [*frames, b"data: [DONE]\n\n"]


def _pieces(calls: tuple[Call, ...]) -> list[Json]:
    begun = [{"index": at, **_whole_call(Call(c.id, c.name, ""))} for at, c in enumerate(calls)]
    more = [
        {"index": at, "function": {"arguments": halves(call.arguments)[half]}}
        for half in (0, 1)
        for at, call in enumerate(calls)
    ]
    return begun + more


def _finish(answer: Answer) -> str:
    # A model that refuses in words of its own just stops.
    return "stop" if answer.refusal else FINISHES[answer.stop]


def _envelope(answer: Answer, kind: str = "chat.completion.chunk") -> Json:
    return {"id": "chatcmpl-1", "object": kind, "created": 7, "model": answer.model}


def _chunk(delta: Json, answer: Answer, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _frame({**_envelope(answer), "choices": [choice]})


def _frame(value: Json) -> bytes:
    return b"data: " + packed(value) + b"\n\n"


def _usage(tokens: Tokens) -> Json:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def whole(answer: Answer) -> bytes:
    message: Json = {"role": "assistant", "content": answer.text or None}
    message["refusal"] = answer.refusal or None
    if answer.thought:
        message["reasoning_content"] = answer.thought
    if answer.calls:
        message["tool_calls"] = [_whole_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    body = {**_envelope(answer, "chat.completion"), "choices": [choice]}
    return packed(body | ({"usage": _usage(answer.tokens)} if answer.tokens else {}))


def broken(text: str, message: str) -> list[bytes]:
    return [*stream(Answer(text))[:3], _frame({"error": {"message": message, "code": 500}})]


def error(message: str) -> bytes:
    described = {"message": message, "type": "upstream_words", "param": None, "code": None}
    return packed({"error": described})


def read_stream(body: bytes) -> Answer:
    told = events(body)
    assert told.pop() == ("", "[DONE]")
    chunks = [chunk for _, chunk in told]
    (ident,) = {(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}
    assert all(ident)
    usage = chunks.pop()["usage"] if not chunks[-1]["choices"] else None
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
    finish = choices[-1]["finish_reason"]
    message = _gathered([choice["delta"] for choice in choices])
    return _answer(message, finish, usage, ident[2])


def _gathered(deltas: list[Json]) -> Json:
    assert [delta["role"] for delta in deltas if "role" in delta] == ["assistant"]
    assert "role" in deltas[0]
    calls: list[Json] = []
    for piece in [piece for delta in deltas for piece in delta.get("tool_calls", ())]:
        if "id" in piece:
            assert piece["index"] == len(calls), "a gap, or a call begun twice"
            assert piece["type"] == "function"
            calls.append({"id": piece["id"], "function": dict(piece["function"])})
        else:
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    names = ("content", "reasoning_content", "refusal")
    said = {name: "".join(delta.get(name) or "" for delta in deltas) for name in names}
    return {**said, "tool_calls": calls}


def read_whole(body: bytes) -> Answer:
    told = json.loads(body)
    assert told["object"] == "chat.completion"
    assert told["id"]
    (choice,) = told["choices"]
    assert choice["message"]["role"] == "assistant"
    return _answer(choice["message"], choice["finish_reason"], told.get("usage"), told["model"])


def _answer(message: Json, finish: str, usage: Json | None, model: str) -> Answer:
    refusal = message.get("refusal") or ""
    return Answer(
        message["content"] or "",
        message.get("reasoning_content") or "",
        refusal,
        _calls(message),
        "filter" if refusal else STOPS[finish],
        _tokens(usage),
        model,
    )


def _tokens(usage: Json | None) -> Tokens | None:
    if usage is None:
        return None
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return Tokens(
        usage["prompt_tokens"],
        usage["completion_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
        usage["completion_tokens_details"]["reasoning_tokens"],
    )


def read_broken(body: bytes) -> tuple[str, str]:
    *told, (name, last) = events(body)
    assert name == ""
    said = "".join(c["choices"][0]["delta"].get("content") or "" for _, c in told)
    return said, last["error"]["message"]


def read_error(body: bytes) -> str:
    described = json.loads(body)["error"]
    assert {"message", "type", "param", "code"} <= described.keys()
    message: str = described["message"]
    return message
